// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	testcluster "d3os.com/d3os-operator/test/cluster"
)

// Every command has a section in docs/plugin.md, and a one-line description.
func TestCommandsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(testcluster.Root(), "docs/plugin.md"))
	assert.NilError(t, err)
	for _, cmd := range New(genericiooptions.NewTestIOStreamsDiscard(), genericclioptions.NewConfigFlags(false), time.Now).Commands() {
		assert.Assert(t, strings.Contains(string(text), "\n## "+cmd.Name()+"\n"), "docs/plugin.md has no section %s", cmd.Name())
		assert.Assert(t, cmd.Short != "", "%s", cmd.Name())
	}
}
