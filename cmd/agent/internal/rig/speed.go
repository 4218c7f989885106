// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
)

// Timed runs a command and returns the duration.
func Timed(t testing.TB, cmd *exec.Cmd) time.Duration {
	t.Helper()
	words := &server.Tail{}
	cmd.Stderr = words
	began := time.Now()
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, words)
	}
	return time.Since(began)
}

// LoadDump loads a dump into a new server, as a restore does: it creates a database, starts a server, loads the dump, and stops the server
// cleanly. It returns the duration.
func LoadDump(t testing.TB, flavour, dump string) time.Duration {
	t.Helper()
	i := &restore.Instance{Programs: Programs(t, flavour), Data: filepath.Join(t.TempDir(), "data")}
	began := time.Now()
	assert.NilError(t, i.Init(t.Context()))
	assert.NilError(t, i.Start(t.Context()))
	defer i.Kill()
	Timed(t, exec.Command("bash", "-c", "set -o pipefail; zstd -d -c "+dump+" | "+filepath.Join(Tools(t, flavour), "mysql")+" --no-defaults -uroot --binary-mode --max-allowed-packet=1G --socket="+i.Options().Address))
	assert.NilError(t, i.Stop(t.Context()))
	took := time.Since(began)
	assert.NilError(t, os.RemoveAll(i.Data))
	return took
}

// Ratio makes the test fail if the agent's speed is below the fraction least of the speed by hand. It compares the best runs,
// because the machine may sometimes be busy.
func Ratio(t testing.TB, what string, least float64, byHand, byAgent []time.Duration) {
	t.Helper()
	hand, agent := slices.Min(byHand), slices.Min(byAgent)
	speed := hand.Seconds() / agent.Seconds()
	t.Logf("%s: %.2f of the speed by hand (%s, %s)", what, speed, hand.Round(time.Millisecond), agent.Round(time.Millisecond))
	if speed < least {
		t.Errorf("%s: %.2f of the speed by hand, which must be %.1f or more", what, speed, least)
	}
}
