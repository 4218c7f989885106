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

	"d3os.com/d3os-operator/internal/contract"
)

// A dump program that crashes is reported differently from a program that fails or is killed for its memory: another try may succeed
// only after a crash.
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

// A dump with a row that no server can load fails. The error names the row's table.
func TestDumpOfALongRow(t *testing.T) {
	program := filepath.Join(t.TempDir(), "mysqldump")
	assert.NilError(t, os.WriteFile(program, []byte("#!/bin/sh\ncase \"$*\" in *--version*) echo 'mysqldump  Ver 10.19 Distrib 10.11.19-MariaDB'; exit;; *--help*) exit;; esac\n"+
		"printf 'USE `shop`;\\nINSERT INTO `films` VALUES (0x%s);\\n-- Dump completed\\n' \"$(head -c 4000 /dev/zero | tr '\\0' 4)\"\n"), 0o755))
	scanner, err := Run(t.Context(), Options{limit: 10_000}, program, &bytes.Buffer{})
	assert.NilError(t, err)
	assert.Equal(t, scanner.Rows["`shop`.`films`"], int64(1))
	_, err = Run(t.Context(), Options{limit: 2_000}, program, &bytes.Buffer{})
	assert.ErrorContains(t, err, "a row of table `shop`.`films` is too long")
	assert.Equal(t, contract.ReasonOf(err), contract.ReasonDumpFailed)
}
