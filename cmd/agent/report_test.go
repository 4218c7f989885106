// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
)

// An archive is ready if it had a recent success and continues a backup.
func TestArchiveReport(t *testing.T) {
	head := manifest.Head{Timeline: "20260102T150405Z-0a1b2c3d", Time: time.Unix(1_800_000_000, 0).UTC()}
	for name, c := range map[string]struct {
		at      time.Time
		base    string
		problem string
	}{
		"nothing was archived":       {time.Time{}, "a", "nothing was archived yet"},
		"the archive is late":        {time.Now().Add(-2 * time.Hour), "a", "the archive is late"},
		"no backup belongs to it":    {time.Now(), "", "no backup belongs to timeline " + head.Timeline},
		"the last success is recent": {time.Now(), "a", ""},
	} {
		r := &archiveReport{late: time.Hour, head: head, at: c.at, base: c.base}
		if _, got := r.status(); !strings.HasPrefix(got, c.problem) || (got == "") != (c.problem == "") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestArchiveAnswers(t *testing.T) {
	address := fmt.Sprintf("127.0.0.1:%d", rig.FreePort(t))
	r := &archiveReport{late: time.Hour}
	stop, err := r.serve(t.Context(), address)
	assert.NilError(t, err)
	defer stop()
	ask := func(path string) string {
		answer, err := http.Get("http://" + address + path)
		assert.NilError(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		assert.NilError(t, err)
		return fmt.Sprint(answer.StatusCode, " ", string(text))
	}
	if got := ask("/ready"); !strings.HasPrefix(got, "503 ") || !strings.Contains(got, "nothing was archived yet") {
		t.Error(got)
	}
	if got := ask("/metrics"); !strings.HasPrefix(got, "200 ") || !strings.Contains(got, "\nmysql_archive_recoverable 0\n") || strings.Contains(got, "reached_timestamp_seconds") {
		t.Error(got)
	}
	// The store has no backup.
	empty, err := store.NewFolder(t.TempDir())
	assert.NilError(t, err)
	r.reached(t.Context(), empty, manifest.Head{Timeline: "20260102T150405Z-0a1b2c3d", Time: time.Unix(1_800_000_000, 0).UTC()})
	if got := ask("/ready"); !strings.HasPrefix(got, "503 ") || !strings.Contains(got, "no backup belongs to timeline") {
		t.Error(got)
	}
	if got := ask("/metrics"); !strings.Contains(got, "\nmysql_archive_reached_timestamp_seconds 1800000000.000\n") {
		t.Error(got)
	}
	r.mu.Lock()
	r.base = "20260102T150405Z-0a1b2c3d"
	r.mu.Unlock()
	if got := ask("/ready"); !strings.HasPrefix(got, "200 ") {
		t.Error(got)
	}
	if got := ask("/metrics"); !strings.Contains(got, "\nmysql_archive_recoverable 1\n") {
		t.Error(got)
	}
}
