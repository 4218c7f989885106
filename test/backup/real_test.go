// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
)

// A DataBackup of a running database and the archive of its binary log, by the agent's own program: what is in the store is
// restored to the same rows, by those who have nothing but the store. The status says how safe the data is.
func TestARealBackup(t *testing.T) {
	t.Parallel()
	s := newReal(t)
	s.start()
	ds := archived("db", nil)
	s.Must(unstructured.SetNestedField(ds.Object, "@yearly", "spec", "mysql", "backup", "verify", "schedule"))
	s.Create(ds)
	s.Ready(platform)
	user, password := s.password("db-credentials", "username"), s.password("db-credentials", "password")
	_, err := s.ask(user, password, "CREATE DATABASE app; USE app; CREATE TABLE app.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(100)); "+
		"INSERT INTO app.t (v) SELECT CONCAT('row ', seq, ' ', UUID()) FROM seq_1_to_5000", "--host="+s.address())
	s.Must(err)
	const rows = "SELECT COUNT(*), SUM(CRC32(CONCAT(id, v))) FROM app.t"
	want, err := s.ask(user, password, rows, "--host="+s.address())
	s.Must(err)

	s.condition(dsv1.ConditionBackupHealthy, dsv1.ReasonNoBackup)
	s.condition(dsv1.ConditionRecoverable, dsv1.ReasonNoBackup)
	s.back(name)
	b := s.has(name, backupv1.PhaseSucceeded, backupv1.ReasonSucceeded)
	if b.Status.ID == "" || b.Status.Bytes == 0 || b.Status.StoredBytes == 0 || b.Status.Tables == 0 || b.Status.Rows < 5000 ||
		b.Status.Position == nil || !strings.Contains(b.Status.ServerVersion, "MariaDB") {
		t.Errorf("status %+v", b.Status)
	}
	t.Logf("backup %s: %s of %d bytes, %d tables, %d rows, %s, at %+v", b.Status.ID, b.Status.Size, b.Status.Bytes, b.Status.Tables,
		b.Status.Rows, b.Status.Duration, b.Status.Position)
	_, err = s.ask(user, password, "DELETE FROM app.t", "--host="+s.address()) // which the backup must not know
	s.Must(err)
	if got := s.restored(b.Status.ID, rows); got != want {
		t.Errorf("the restore has %q, not %q", got, want)
	}
	want = s.everyMoment(b.Status.ID, rows)

	// While the volume holds anything, nothing is restored to it.
	s.Change(platform, fields{"mysql": fields{"replica": 0}})
	s.condition(dsv1.ConditionRecoverable, dsv1.ReasonArchiveStopped)
	s.Eventually("the server has ended", func() bool { return s.address() == "" })
	if job := s.job("refused", "db-restore"); job.Status.Succeeded != 0 {
		t.Errorf("it was restored over what is there: %+v", job.Status)
	}
	// The volume is lost: what docs/backup.md says brings the data back.
	s.Must(s.pods.WipeVolume(s.Ctx, "data-db-0"))
	if job := s.job("restore", "db-restore"); job.Status.Succeeded != 1 {
		t.Fatalf("it was not restored: %+v", job.Status)
	}
	s.Must(suite.API.Delete(s.Ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "db-data"}}))
	s.ChangeReady(platform, fields{"mysql": fields{"replica": 1}})
	got, err := s.ask(user, password, rows, "--host="+s.address())
	s.Must(err)
	if got != want {
		t.Errorf("the database that came back has %q, not %q", got, want)
	}
	// Its binary log is another one: nothing of it can be restored before there is a backup of it, which the operator makes.
	s.condition(dsv1.ConditionRecoverable, "Gap")
	s.condition(dsv1.ConditionRecoverable, dsv1.ReasonArchived)
}

// born makes a new DataService of the store. What its volume loses later is not restored behind anybody's back.
func (s *realScene) born(id, rows, want string) {
	s.Helper()
	const clone = "clone"
	ds := archived("copy", fields{
		"backup": nil, "restoreFrom": fields{"destination": fields{"claim": fields{"name": store}}, "backup": id, "toTime": "latest"},
	})
	ds.SetName(clone)
	s.Create(ds)
	s.Ready(clone)
	pod := harness.Lookup[*corev1.Pod](s.Journal, "copy-0")
	got, err := s.ask(s.password("copy-credentials", "username"), s.password("copy-credentials", "password"), rows, "--host="+pod.Status.PodIP)
	s.Must(err)
	if got != want {
		s.Errorf("the new database has %q, not %q", got, want)
	}
	s.Must(s.pods.WipeVolume(s.Ctx, "data-copy-0"))
	s.Must(suite.API.Delete(s.Ctx, pod))
	s.Until("the loss is told of", func() error {
		return harness.HasCondition(s.DataService(clone), dsv1.ConditionDegraded, metav1.ConditionTrue, dsv1.ReasonDataLost)
	})
	folder, err := s.pods.VolumeFolder(s.Ctx, "data-copy-0")
	s.Must(err)
	if entries, err := os.ReadDir(filepath.Join(folder, "mysql")); err == nil && len(entries) > 0 {
		s.Errorf("something was made on the volume: %v", entries)
	}
	s.Must(suite.API.Delete(s.Ctx, harness.Lookup[*dsv1.DataService](s.Journal, clone)))
}

// everyMoment restores what was committed after the backup, and has it checked. It returns what there is then.
func (s *realScene) everyMoment(id, rows string) string {
	s.Helper()
	ds := s.condition(dsv1.ConditionRecoverable, dsv1.ReasonArchived)
	s.condition(dsv1.ConditionBackupHealthy, dsv1.ReasonNotVerified)
	if known := ds.Status.Backup; known == nil || known.LastID != id || known.LastSuccessful == nil {
		s.Errorf("status.backup is %+v", known)
	}
	user, password := s.password("db-credentials", "username"), s.password("db-credentials", "password")
	_, err := s.ask(user, password, "INSERT INTO app.t (v) VALUES ('later'), ('and later')", "--host="+s.address())
	s.Must(err)
	want, err := s.ask(user, password, rows, "--host="+s.address())
	s.Must(err)
	s.archived()
	if got := s.restored(id, rows, "--to-time=latest"); got != want {
		s.Errorf("restored to the latest moment: %q, not %q", got, want)
	}
	s.born(id, rows, want)
	if job := s.job("check", "db-verify"); job.Status.Succeeded != 1 {
		s.Errorf("the check did not succeed: %+v", job.Status)
	}
	if known := s.condition(dsv1.ConditionBackupHealthy, dsv1.ReasonVerified).Status.Backup; known.VerifiedID != id || known.LastVerified == nil {
		s.Errorf("status.backup is %+v", known)
	}
	return want
}
