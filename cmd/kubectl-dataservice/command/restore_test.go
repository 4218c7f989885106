// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
)

const (
	restoresPath = "/apis/d3os-product.com.d3os/v1alpha1/namespaces/a/datarestores"
	backupsPath  = "/apis/d3os-product.com.d3os/v1alpha1/namespaces/a/databackups"
	anID         = "20260102T150405Z-0a1b2c3d"
)

// The types of the listed resources.
var (
	ofBackups  = metav1.TypeMeta{APIVersion: backupv1.GroupVersion.String(), Kind: "DataBackupList"}
	ofRestores = metav1.TypeMeta{APIVersion: backupv1.GroupVersion.String(), Kind: "DataRestoreList"}
)

// backedUp is a spec with backups and an archive.
var backedUp = dsv1.DataServiceSpec{MySQL: &dsv1.MySQL{Backup: &dsv1.Backup{PointInTime: &dsv1.PointInTime{}}}}

func restoreOf(of, name string, phase backupv1.Phase, message string) *backupv1.DataRestore {
	r := &backupv1.DataRestore{Spec: backupv1.DataRestoreSpec{Of: backupv1.Source{Name: of}}}
	r.APIVersion, r.Kind, r.Name, r.Namespace = backupv1.GroupVersion.String(), "DataRestore", name, "a"
	r.Status = backupv1.DataRestoreStatus{Phase: phase, Message: message}
	return r
}

// The command follows a restore to its end. The exit code reports the result.
func TestRestore(t *testing.T) {
	t.Parallel()
	is := func(phase backupv1.Phase, message string) *backupv1.DataRestore {
		return restoreOf("platform", "drill", phase, message)
	}
	done := is(backupv1.PhasePrepared, "claim data-mysql-restored-0 has the database of backup 20260102T150405Z-0a1b2c3d, and this database was checked; the running database was not touched. "+
		"A switch to this database would lose 12 transactions since 2026-01-02T15:30:01Z")
	done.Status.ID, done.Status.Tables, done.Status.Rows, done.Status.Duration = "20260102T150405Z-0a1b2c3d", 42, 120000, "3m20s"
	done.Status.RestoredTo = &metav1.Time{Time: time.Date(2026, 1, 2, 15, 29, 59, 0, time.UTC)}
	event := func(kind string, r *backupv1.DataRestore) any { return map[string]any{"type": kind, "object": r} }
	work := []any{
		event("MODIFIED", is(backupv1.PhaseBuilding, "the backup is loaded")), event("MODIFIED", is(backupv1.PhaseBuilding, "the backup is loaded")),
		event("MODIFIED", is(backupv1.PhaseReplaying, "the archive after the backup is applied")),
		event("MODIFIED", is(backupv1.PhaseChecking, "tables and rows are checked")),
	}
	for name, c := range map[string]struct {
		code int
		ends []any
	}{
		"succeeds": {exitYes, append(work[:4:4], event("MODIFIED", done))},
		"fails":    {exitNo, append(work[:1:1], event("MODIFIED", is(backupv1.PhaseFailed, "no key opens the backup. The running database was not touched")))},
		"deleted":  {exitError, append(work[:1:1], event("DELETED", done))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := answering(t, map[string]func(int) any{
				dataServices + "platform":        always(platform(backedUp)),
				"POST " + restoresPath:           always(is("", "")),
				"GET " + restoresPath + "/drill": always(is(backupv1.PhaseValidating, "checking whether the restore can succeed")),
				"WATCH " + restoresPath:          always(c.ends),
			})
			code, out, errOut := s.run(t, "restore", "platform", "--to-time", "latest", "--database", "mysql-restored", "--as-name", "drill")
			assert.Equal(t, code, c.code, out+errOut)
			golden.Assert(t, out+errOut, "restore-"+name+".txt")
		})
	}
}

// The command refuses an impossible restore, and creates no object.
func TestRestoreOfNothing(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]struct {
		spec dsv1.DataServiceSpec
		args []string
		kind string // kind of mysql in the status
	}{
		"declare spec.mysql.backup first":    {dsv1.DataServiceSpec{MySQL: &dsv1.MySQL{}}, []string{"--backup", "latest"}, "StatefulSet"},
		"has no archive to replay":           {dsv1.DataServiceSpec{MySQL: &dsv1.MySQL{Backup: &dsv1.Backup{}}}, []string{"--to-time", "latest"}, "StatefulSet"},
		"to replay up to binlog.000002:4":    {dsv1.DataServiceSpec{MySQL: &dsv1.MySQL{Backup: &dsv1.Backup{}}}, []string{"--to-position", "binlog.000002:4"}, "StatefulSet"},
		"which backup? Give --backup latest": {backedUp, []string{"--database", "mysql-restored"}, "StatefulSet"},
		"cannot both be given":               {backedUp, []string{"--backup", anID, "--to-position", "binlog.000002:4", "--to-time", "latest"}, "StatefulSet"},
		"needs --backup with an ID, because a position is valid in one binary log only": {backedUp, []string{"--to-position", "binlog.000002:4"}, "StatefulSet"},
		"needs --backup with an ID":   {backedUp, []string{"--to-position", "binlog.000002:4", "--backup", "latest"}, "StatefulSet"},
		"with spec.mysql.restoreFrom": {backedUp, []string{"--backup", "latest"}, "Managed"},
	} {
		ds := platform(c.spec)
		ds.Status.Components = []dsv1.ComponentStatus{{Name: "mysql", Kind: c.kind}}
		code, _, errOut := answering(t, map[string]func(int) any{dataServices + "platform": always(ds)}).run(t, append([]string{"restore", "platform"}, c.args...)...)
		assert.Equal(t, code, exitError)
		assert.Assert(t, strings.Contains(errOut, want), errOut)
	}
}

// The flag --to-position accepts a position in a backup's log.
func TestRestoreToAPosition(t *testing.T) {
	t.Parallel()
	r, err := newRestore(platform(backedUp), wanted{backup: anID, toPosition: "binlog.000002:1234", database: "mysql-restored"}, time.Now())
	assert.NilError(t, err)
	assert.DeepEqual(t, r.Spec, backupv1.DataRestoreSpec{
		Of:     backupv1.Source{Kind: dsv1.Kind, Name: "platform", Component: "mysql"},
		Backup: anID, ToPosition: "binlog.000002:1234", DatabaseName: "mysql-restored",
	})
}

// For any name of the DataService, the API server accepts the name of the restore.
func TestNameOfARestore(t *testing.T) {
	t.Parallel()
	ds := platform(backedUp)
	ds.Name = strings.Repeat("a", 63)
	r, err := newRestore(ds, wanted{toTime: latest}, time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC))
	assert.NilError(t, err)
	assert.Equal(t, len(r.Name), 55)
	assert.Assert(t, strings.HasSuffix(r.Name, "-20260102-150405"), r.Name)
	assert.Equal(t, r.Spec.Backup, latest)
}

// Without the flag that selects a backup, the command lists the known backups and restores of this DataService only.
func TestRestoreLists(t *testing.T) {
	t.Parallel()
	// All ages are printed in whole hours, so the output does not depend on the machine's speed.
	at := func(hour int) metav1.Time { return metav1.NewTime(time.Now().Add(time.Duration(-hour) * time.Hour)) }
	back := func(of, name, id string, age int) backupv1.DataBackup {
		b := backupv1.DataBackup{Spec: backupv1.DataBackupSpec{Of: backupv1.BackupSource{Name: of}}}
		b.Name, b.CreationTimestamp, b.Status.Phase, b.Status.ID, b.Status.Size = name, at(age), backupv1.PhaseSucceeded, id, "12.4 MiB"
		return b
	}
	older, newer, foreign := restoreOf("platform", "drill", backupv1.PhasePrepared, ""), restoreOf("platform", "second", "", ""), restoreOf("other", "others", "", "")
	older.CreationTimestamp, newer.CreationTimestamp = at(20), at(9)
	older.Status.ID, older.Status.Claim, older.Status.RestoredTo = "20260102T150405Z-0a1b2c3d", "data-mysql-restored-0", &metav1.Time{Time: time.Date(2026, 1, 2, 15, 29, 59, 0, time.UTC)}
	older.Status.Loses = &backupv1.Loss{Summary: "12 transactions since 2026-01-02T15:30:01Z"}
	ds := platform(backedUp)
	last := at(10)
	ds.Status.Backup = &dsv1.BackupStatus{LastSuccessful: &last, LastID: "20260103T020000Z-99999999"}
	s := answering(t, map[string]func(int) any{
		dataServices + "platform": always(ds),
		"GET " + backupsPath: always(backupv1.DataBackupList{TypeMeta: ofBackups, Items: []backupv1.DataBackup{
			back("platform", "before-upgrade", "20260101T150405Z-0a1b2c3d", 47), back("platform", "nightly", "20260102T150405Z-0a1b2c3d", 23), back("other", "x", "y", 1),
		}}),
		"GET " + restoresPath: always(backupv1.DataRestoreList{TypeMeta: ofRestores, Items: []backupv1.DataRestore{*older, *newer, *foreign}}),
	})
	code, out, errOut := s.run(t, "restore", "platform")
	assert.Equal(t, code, exitYes, errOut)
	golden.Assert(t, out, "restore-list.txt")

	none := answering(t, map[string]func(int) any{
		dataServices + "platform": always(platform(backedUp)),
		"GET " + backupsPath:      always(backupv1.DataBackupList{TypeMeta: ofBackups}), "GET " + restoresPath: always(backupv1.DataRestoreList{TypeMeta: ofRestores}),
	})
	_, out, _ = none.run(t, "restore", "platform")
	golden.Assert(t, out, "restore-list-none.txt")
}
