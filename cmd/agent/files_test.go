// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
)

// On nodes without a limit, MySQL 5.7 and its tools would reserve all memory. A lower limit is not changed.
func TestOpenFilesAreBounded(t *testing.T) {
	for _, c := range []struct{ cur, max, wantCur, wantMax uint64 }{
		{1024, 4096, 1024, 4096}, {1 << 20, 1 << 20, 1 << 20, 1 << 20}, {1024, math.MaxUint64, 1024, 1 << 20}, {1073741816, 1073741816, 1 << 20, 1 << 20}, {math.MaxUint64, math.MaxUint64, 1 << 20, 1 << 20},
	} {
		assert.Equal(t, boundFiles(syscall.Rlimit{Cur: c.cur, Max: c.max}), syscall.Rlimit{Cur: c.wantCur, Max: c.wantMax})
	}
}

// A bash script is the entry point of an image. It starts the server with a bounded number of files, and keeps a lower
// limit. The test stubs the limit of the node, because few machines let a test raise it.
func TestLimitsForTheEntryPoint(t *testing.T) {
	program := filepath.Join(t.TempDir(), "agent")
	assert.NilError(t, install(program))
	script := filepath.Join(t.TempDir(), "docker-entrypoint.sh")
	assert.NilError(t, os.WriteFile(script, []byte("#!/bin/bash\nset -eo pipefail\necho ${set:-as it was}\n"), 0o755))
	for limit, want := range map[string]string{"unlimited": "1048576", "1073741816": "1048576", "10000000": "1048576", "1048576": "as it was", "1024": "as it was"} {
		cmd := exec.CommandContext(t.Context(), script)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "BASH_ENV=" + filepath.Join(filepath.Dir(program), limitsFile),
			"BASH_FUNC_ulimit%%=() { if [ $# = 2 ]; then set=$2; else echo " + limit + "; fi; }"}
		out, err := cmd.CombinedOutput()
		assert.NilError(t, err)
		assert.Equal(t, strings.TrimSpace(string(out)), want)
	}
}
