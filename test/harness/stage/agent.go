// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"d3os.com/d3os-operator/test/cluster"
)

// MainWithAgent is Main for a suite whose pods run the agent's program. It builds that first, and writes its path into agent.
func (s *Suite) MainWithAgent(m *testing.M, options cluster.Options, agent *string) int {
	dir, err := os.MkdirTemp("", "d3os-agent-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) // a folder of its own under /tmp
	*agent = filepath.Join(dir, "agent")
	return s.Main(m, options, func(ctx context.Context) error { return cluster.BuildAgent(ctx, *agent) })
}
