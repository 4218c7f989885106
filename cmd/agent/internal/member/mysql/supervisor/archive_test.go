// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build mysql

package supervisor

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/binlog"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/rig/chance"
	snapshot "d3os.com/d3os-operator/cmd/agent/internal/snapshot/mysql"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

// Four clients write while the primary is killed three times. A restore to any point in time up to the archive's end contains each row that
// was acknowledged before that time, and no row that was begun after it.
func TestArchiveAcrossFailovers(t *testing.T) {
	inFullForm(t)
	t.Parallel()
	failovers, moments := 3, 20
	if os.Getenv("MYSQL_TESTS") != "full" {
		moments = 3
	}
	d := newDatabase(t)
	folder := t.TempDir()
	to, err := store.NewFolder(folder)
	assert.NilError(t, err)
	a := d.archives(to, func(*snapshot.Archive) {})
	d.reaches(a, time.Now())
	stop := d.write(4)
	d.wrote(50)
	made := d.backup(to)
	from := time.Now()
	for range failovers {
		d.wrote(200)
		old := d.failover()
		d.wrote(200)
		d.back(old)
	}
	d.wrote(100)
	stop()
	d.reaches(a, time.Now())
	a.stop()
	until, final := a.reached(), d.numbers(d.leader())
	heads, err := binlog.Heads(t.Context(), to)
	assert.NilError(t, err)
	assert.Equal(t, len(heads), 1, "a failover needs no other timeline: %s", a.failures())
	random := chance.New(t, 1)
	t.Logf("%d of %d numbers were acknowledged, the database has %d; the archive: %s", len(d.acked), d.next, len(final), a.failures())
	for i := range moments + 1 {
		at := from.Add(time.Duration(random.Int63n(int64(until.Sub(from)))))
		kills := func(*pod) {}
		if i == 0 { // the last point in time
			at, kills = until, func(n *pod) { d.brokenOff(n, folder, made, until) }
		}
		began := time.Now()
		rows := d.rowsAt(to, made, &restore.Until{Time: at}, kills)
		wrong := d.judge(at, rows, final)
		t.Logf("%s: %d rows after %.1f s", at.Format(time.RFC3339Nano), len(rows), time.Since(began).Seconds())
		if len(wrong) > 0 {
			t.Errorf("restored to %s, %d rows are wrong: %s", at, len(wrong), firstOf(wrong))
		}
	}
}

// A failover loses a commit that waits for an acknowledgement. An archive that stores the primary's transactions without proof (Unproven)
// contains this commit. The test detects the commit, and the archive later marks its timeline as superseded. The real archive waits for
// the proof that the commit survives a failover. Until then, it reaches no point in time after the commit.
func TestArchiveTakesWhatSurvives(t *testing.T) {
	inFullForm(t)
	t.Parallel()
	d := newDatabase(t)
	var stores []store.Store
	var archives []*archive
	for _, unproven := range []bool{false, true} {
		to, err := store.NewFolder(t.TempDir())
		assert.NilError(t, err)
		stores = append(stores, to)
		archives = append(archives, d.archives(to, func(a *snapshot.Archive) { a.Unproven = unproven }))
		d.reaches(archives[len(archives)-1], time.Now())
	}
	stop := d.write(2)
	d.wrote(20)
	stop()
	var backups []*manifest.Backup
	for _, to := range stores {
		backups = append(backups, d.backup(to))
	}
	before := time.Now()
	for _, a := range archives {
		d.reaches(a, before)
	}
	p := d.leader()
	for _, m := range d.all[1:] {
		m.exec("STOP REPLICA IO_THREAD")
	}
	c, err := p.session()
	assert.NilError(t, err)
	defer c.Close()
	const lost = 1000000
	d.begun[lost] = time.Now()
	go func() { _ = c.Do(fmt.Sprintf("INSERT INTO d.w VALUES (%d)", lost)) }() // the client never gets an answer
	p.until("a commit waits", func(a mysqlmember.Answer) bool { return a.State != nil && a.State.Waiting == 1 })
	after := time.Now()
	d.reaches(archives[1], after)
	archives[1].stop()
	old := d.failover()
	final := d.numbers(d.leader())
	assert.Assert(t, !final[lost])
	if wrong := d.judge(after, d.rowsAt(stores[1], backups[1], &restore.Until{Time: after}), final); !slices.ContainsFunc(wrong, func(w string) bool { return strings.Contains(w, "the database lost it") }) {
		t.Errorf("the test does not detect the lost commit in the archive without proof: %v", wrong)
	}

	// The real archive does not have the lost commit, and continues with the new primary.
	d.back(old)
	d.begun[lost+1], final[lost+1] = time.Now(), true
	d.leader().exec(fmt.Sprintf("INSERT INTO d.w VALUES (%d)", lost+1))
	d.reaches(archives[0], time.Now())
	archives[0].stop()
	for _, until := range []*restore.Until{{Time: after}, {}} {
		if wrong := d.judge(time.Now(), d.rowsAt(stores[0], backups[0], until), final); len(wrong) > 0 {
			t.Errorf("%+v: %s", until, firstOf(wrong))
		}
	}
	heads, err := binlog.Heads(t.Context(), stores[0])
	assert.NilError(t, err)
	assert.Equal(t, len(heads), 1, "%s", archives[0].failures())

	run := d.all[0].backs(3)
	out, err := snapshot.Verify(t.Context(), restore.Source{Store: stores[0], Backup: backups[0]}, run.Programs, filepath.Join(run.Scratch, "verify"), small, &restore.Until{})
	assert.NilError(t, err)
	if !out.IsChecked || out.Transactions < 1 || out.Rows < int64(len(final)) {
		t.Errorf("the check: %+v", out)
	}

	// The archive without proof detects that the database has lost a commit that the archive contains.
	d.leader().exec("INSERT INTO d.w VALUES (2000000)")
	again := d.archives(stores[1], func(*snapshot.Archive) {})
	d.eventually("a new timeline", func() bool { return strings.Contains(again.failures(), "lacks") })
	d.reaches(again, time.Now())
	again.stop()
	heads, err = binlog.Heads(t.Context(), stores[1])
	assert.NilError(t, err)
	assert.Equal(t, len(heads), 2)
	assert.Equal(t, heads[0].Reason, "Superseded")
	source := restore.Source{Store: stores[1], Backup: backups[1]}
	for _, until := range []restore.Until{{Time: after}, {}} {
		if _, err := restore.PlanFor(t.Context(), source, until); contract.ReasonOf(err) != contract.ReasonNotFound || !strings.Contains(err.Error(), "superseded") {
			t.Errorf("%+v: %v", until, err)
		}
	}
	if wrong := d.judge(before, d.rowsAt(stores[1], backups[1], &restore.Until{Time: before}), final); len(wrong) > 0 {
		t.Errorf("restored to a time before the lost commit: %s", firstOf(wrong))
	}
	for what, until := range map[string]restore.Until{"does not reach": {Time: time.Now().Add(time.Hour)}, "begins at": {Time: backups[0].Started.Add(time.Millisecond)}, "has no positions": {Position: &contract.Position{File: "x"}}} {
		older := *backups[0]
		older.Started = time.Time{}
		if what == "begins at" {
			until.Time = older.Completed.Add(-time.Hour)
		}
		if _, err := restore.PlanFor(t.Context(), restore.Source{Store: stores[0], Backup: &older}, until); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
