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

// The disk of one program is slow: its syncs are delayed, its writes without a sync are not. The disk of another program stays fast.
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

// A sync fails while the disk is full, and succeeds when the disk has space again.
func TestFull(t *testing.T) {
	t.Parallel()
	d := New(t)
	dd, err := exec.LookPath("dd")
	assert.NilError(t, err)
	program, file := d.Program(dd), filepath.Join(t.TempDir(), "file")
	for _, full := range []bool{true, false} {
		d.Fill("full", full)
		run := exec.CommandContext(t.Context(), program, "if=/dev/zero", "of="+file, "count=1", "conv=fsync")
		run.Env = []string{"HOSTNAME=full"}
		out, err := run.CombinedOutput()
		assert.Equal(t, err != nil, full)
		assert.Equal(t, strings.Contains(string(out), "No space left on device"), full, string(out))
	}
}
