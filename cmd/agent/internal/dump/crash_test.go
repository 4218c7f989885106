// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package dump

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
)

// A dump program that crashes differs from one that fails or is killed for its memory: another try may succeed.
func TestCrashOfTheDumpProgram(t *testing.T) {
	for end, crashed := range map[string]bool{"kill -SEGV $$": true, "kill -ABRT $$": true, "kill -KILL $$": false, "exit 2": false, "exit 139": false} {
		program := filepath.Join(t.TempDir(), "mysqldump")
		assert.NilError(t, os.WriteFile(program, []byte("#!/bin/sh\ncase \"$*\" in *--version*) echo 'mysqldump  Ver 10.19 Distrib 10.11.19-MariaDB'; exit;; *--help*) exit;; esac\n"+end+"\n"), 0o755))
		_, err := Run(t.Context(), Options{}, program, &bytes.Buffer{})
		if err == nil || errors.Is(err, ErrCrashed) != crashed {
			t.Errorf("%s: %v", end, err)
		}
	}
}
