// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// BuildAgent builds the agent's program, which is a module of its own.
func BuildAgent(ctx context.Context, file string) error {
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", file, ".")
	build.Dir = filepath.Join(Root(), "cmd", "agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the agent: %w\n%s", err, out)
	}
	return nil
}
