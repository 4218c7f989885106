// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package slowdisk

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

func TestMain(m *testing.M) {
	Main()
	os.Exit(m.Run())
}

// What a program syncs waits for its disk, what it only writes does not, and the disk of another one is as fast as ever.
func TestSlow(t *testing.T) {
	t.Parallel()
	d := New(t)
	dd, err := exec.LookPath("dd")
	assert.NilError(t, err)
	program := d.Program(dd)
	const delay = 2 * time.Second
	d.Slow("slow", delay)
	for name, c := range map[string]struct {
		host, sync string
		syncs      int
	}{"it syncs": {"slow", "conv=fsync", 1}, "its data alone": {"slow", "conv=fdatasync", 1}, "it only writes": {"slow", "conv=notrunc", 0}, "another disk": {"fast", "conv=fsync", 0}} {
		t.Run(name, func(t *testing.T) {
			before, began := d.Delayed(c.host), time.Now()
			run := exec.CommandContext(t.Context(), program, "if=/dev/zero", "of="+filepath.Join(t.TempDir(), "file"), "count=1", c.sync)
			run.Env = []string{"HOSTNAME=" + c.host}
			out, err := run.CombinedOutput()
			assert.NilError(t, err, string(out))
			assert.Assert(t, strings.Contains(string(out), "1+0 records out"), string(out))
			assert.Equal(t, d.Delayed(c.host)-before, c.syncs)
			assert.Assert(t, c.syncs == 0 || time.Since(began) >= delay)
		})
	}
}
