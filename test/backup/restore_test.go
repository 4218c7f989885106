// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

const rehearsal = "rehearsal"

// restore creates a DataRestore.
func (s *scene) restore(name string, change func(*backupv1.DataRestoreSpec)) {
	s.Helper()
	size := resource.MustParse("1Gi")
	spec := backupv1.DataRestoreSpec{Of: backupv1.Source{Name: platform}, Storage: &backupv1.RestoreStorage{Size: &size}}
	if change != nil {
		change(&spec)
	}
	s.Must(suite.API.Create(s.Ctx, &backupv1.DataRestore{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}, Spec: spec}))
}

// comes waits until a DataRestore has a phase and a reason, and returns it.
func (s *scene) comes(name string, phase backupv1.Phase, reason string) (found *backupv1.DataRestore) {
	s.Helper()
	s.Until(fmt.Sprintf("%s: %s", phase, reason), func() error {
		found = harness.Lookup[*backupv1.DataRestore](s.Journal, name)
		return stage.Unless(found != nil && found.Status.Phase == phase && found.Status.Reason == reason, fmt.Sprintf("it is %+v", found))
	})
	return found
}

// left returns the content of the file that the program wrote to a claim's volume, or "".
func (s *scene) left(claim string) string {
	s.Helper()
	folder, err := s.pods.VolumeFolder(s.Ctx, claim)
	s.Must(err)
	text, err := os.ReadFile(filepath.Join(folder, "restored"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.Fatal(err)
	}
	return string(text)
}

// A rehearsal restores to a new claim, reports the result, and is then deleted with its volume.
func TestARehearsal(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	s.start()
	s.restore(rehearsal, func(spec *backupv1.DataRestoreSpec) { spec.ToTime = "2026-01-02T15:30:00Z" })
	s.comes(rehearsal, backupv1.PhasePending, backupv1.ReasonSourceNotFound)
	s.declare()
	r := s.comes(rehearsal, backupv1.PhasePrepared, backupv1.ReasonPrepared)
	status := r.Status
	if status.ID != "20260102T150405Z-0a1b2c3d" || status.Bytes != 73400320 || status.Tables != 42 || status.Rows != 120000 || status.Duration != "3m20s" ||
		status.Transactions != 7 || status.RestoredTo == nil || status.Position == nil || status.Position.Offset != 1547 || status.StartedAt == nil ||
		status.CompletedAt == nil || status.Claim != "rehearsal-restore" || !meta.IsStatusConditionTrue(status.Conditions, backupv1.ConditionReady) {
		t.Errorf("status %+v", status)
	}
	if l := status.Loses; l == nil || l.Transactions == nil || *l.Transactions != 12 ||
		l.Summary != "12 transactions since 2026-01-02T15:30:01Z, and what was committed since 2026-01-02T16:00:00Z" {
		t.Errorf("the loss is %+v", l)
	}
	if got := s.left("rehearsal-restore"); got != "latest 2026-01-02T15:30:00Z" {
		t.Errorf("restored: %q", got)
	}
	claim := harness.Lookup[*corev1.PersistentVolumeClaim](s.Journal, "rehearsal-restore")
	if job := harness.Lookup[*batchv1.Job](s.Journal, "rehearsal-restore"); !metav1.IsControlledBy(job, r) || len(claim.OwnerReferences) != 1 || claim.OwnerReferences[0].UID != r.UID {
		t.Errorf("claim %+v, Job %+v", claim.OwnerReferences, job.OwnerReferences)
	}
	s.Must(suite.API.Delete(s.Ctx, r))
	s.Eventually("the volume is deleted", func() bool {
		c := harness.Lookup[*corev1.PersistentVolumeClaim](s.Journal, "rehearsal-restore")
		return c == nil || c.DeletionTimestamp != nil
	})
}

// The status names the obstacle to a restore, and the operator changes no existing object. A failure ends the restore.
func TestImpossibleRestores(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	s.start()
	s.declare()
	s.restore("no-size", func(spec *backupv1.DataRestoreSpec) { spec.Storage = nil })
	s.comes("no-size", backupv1.PhasePending, backupv1.ReasonSizeUnknown)
	s.restore("the-same-name", func(spec *backupv1.DataRestoreSpec) { spec.DatabaseName = "db" })
	s.comes("the-same-name", backupv1.PhasePending, backupv1.ReasonNameInUse)
	s.restore("taken", func(spec *backupv1.DataRestoreSpec) { spec.DatabaseName = "other" })
	first := s.comes("taken", backupv1.PhasePrepared, backupv1.ReasonPrepared)
	s.restore("again", func(spec *backupv1.DataRestoreSpec) { spec.DatabaseName = "other" })
	s.comes("again", backupv1.PhasePending, backupv1.ReasonVolumeConflict)
	s.Must(suite.API.Delete(s.Ctx, first))
	s.restore("the-last", nil) // when this restore is prepared, the operator has seen the deletion
	s.comes("the-last", backupv1.PhasePrepared, backupv1.ReasonPrepared)
	claim := harness.Lookup[*corev1.PersistentVolumeClaim](s.Journal, "data-other-0")
	if claim == nil || claim.DeletionTimestamp != nil || len(claim.OwnerReferences) > 0 || s.left("data-other-0") != "latest " {
		t.Errorf("the volume that a database can be switched to is %+v", claim)
	}
	s.Must(os.WriteFile(filepath.Join(s.folder(), fileFail), nil, 0o600))
	s.restore("too-early", func(spec *backupv1.DataRestoreSpec) { spec.ToTime = "2001-01-02T15:30:00Z" })
	r := s.comes("too-early", backupv1.PhaseFailed, "NotFound")
	if !strings.Contains(r.Status.Message, "no backup is older than 2001") || !strings.Contains(r.Status.Message, "was not touched") {
		t.Errorf("message %q", r.Status.Message)
	}
	if took := r.Status.CompletedAt.Sub(r.CreationTimestamp.Time); took.Minutes() > 1 {
		t.Errorf("the message took %s", took)
	}
	if got := s.left("too-early-restore"); got != "" {
		t.Errorf("the volume is not empty: %q", got)
	}
}

// The database of a DataService copies a running server, and then replicates its changes until the cut-over. The server of the
// DataService starts only after the cut-over. The status reports the state of the copy. At first, the password is wrong.
func TestARealImport(t *testing.T) {
	harness.Long(t)
	t.Parallel()
	s := newReal(t)
	s.start()
	s.Create(archived("db", nil))
	s.Ready(platform)
	user, password := s.password("db-credentials", "username"), s.password("db-credentials", "password")
	do := func(sql string) {
		_, err := s.ask(user, password, sql, "--host="+s.address())
		s.Must(err)
	}
	do("CREATE DATABASE app; USE app; CREATE TABLE app.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(100)); INSERT INTO app.t (v) SELECT UUID() FROM seq_1_to_5000")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "old-db"}, StringData: map[string]string{"username": user, "password": "wrong"}}
	s.Must(suite.API.Create(s.Ctx, secret))
	const clone = "clone"
	ds := archived("copy", fields{"backup": nil, "importFrom": fields{"host": "db", "credentialsSecret": fields{"name": "old-db"}}})
	ds.SetName(clone)
	s.Create(ds)
	s.Until("the condition reports the wrong password", func() error {
		now := s.DataService(clone)
		if now == nil {
			return errors.New("the DataService does not exist")
		}
		if m := now.Status.Message; !strings.Contains(m, "the server refuses") {
			return fmt.Errorf("the message is %q", m)
		}
		return nil
	})
	secret.StringData = map[string]string{"password": password}
	s.Must(suite.API.Update(s.Ctx, secret))
	imported := func(reason string) *metav1.Condition {
		s.Helper()
		var c *metav1.Condition
		s.Until("Imported: "+reason, func() error {
			now := s.DataService(clone)
			if c = meta.FindStatusCondition(now.Status.Conditions, dsv1.ConditionImported); c == nil || c.Reason != reason {
				return fmt.Errorf("the condition is %+v, the message %q", c, now.Status.Message)
			}
			return nil
		})
		return c
	}
	if c := imported(dsv1.ReasonImportFollowing); c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "import of db:3306: follows, ") || !strings.Contains(c.Message, " s behind (at binlog.") {
		t.Errorf("the condition is %+v", c)
	}
	do("INSERT INTO app.t (v) VALUES ('later')")
	if now := s.DataService(clone); now.Status.Phase != dsv1.PhaseCreating || !strings.HasPrefix(now.Status.Message, "mysql: import of db:3306: ") {
		t.Errorf("the phase is %s, the message %q", now.Status.Phase, now.Status.Message)
	}
	const rows = "SELECT COUNT(*), SUM(CRC32(CONCAT(id, v))) FROM app.t"
	want, err := s.ask(user, password, rows, "--host="+s.address())
	s.Must(err)
	s.ChangeReady(clone, fields{"mysql": fields{"importFrom": fields{"cutOver": true}}})
	pod := harness.Lookup[*corev1.Pod](s.Journal, "copy-0")
	got, err := s.ask(s.password("copy-credentials", "username"), s.password("copy-credentials", "password"), rows, "--host="+pod.Status.PodIP)
	s.Must(err)
	if got != want {
		t.Errorf("the copy has %q, want %q", got, want)
	}
	if c := imported(dsv1.ReasonImported); c.Status != metav1.ConditionTrue {
		t.Errorf("the condition is %+v", c)
	}
}
