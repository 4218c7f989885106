// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
)

// counted selects the number of rows, and a sum that changes with any row.
const counted = "SELECT COUNT(*), SUM(CRC32(CONCAT(id, v))) FROM app.t"

// A running database is restored to a point in time on a second volume. No object changes until a user switches, as in docs/backup.md. The
// switch loses the transactions that the status named, and the switch back restores them.
func TestRestoreToASecondVolumeAndSwitch(t *testing.T) {
	harness.Long(t)
	t.Parallel()
	s := newReal(t)
	s.start()
	s.Create(archived("db", nil))
	s.Ready(platform)
	s.sql("db", "CREATE DATABASE app; USE app; CREATE TABLE app.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(100)); "+
		"INSERT INTO app.t (v) SELECT CONCAT('row ', seq, ' ', UUID()) FROM seq_1_to_1000")
	s.back(name)
	s.has(name, backupv1.PhaseSucceeded, backupv1.ReasonSucceeded)
	s.sql("db", "INSERT INTO app.t (v) VALUES ('after the backup'), ('and this')")
	wanted := s.sql("db", counted)
	s.aSecond()
	moment := time.Now().UTC().Truncate(time.Second)
	s.aSecond() // MariaDB's binary log contains times in whole seconds
	s.sql("db", "DELETE FROM app.t WHERE id < 500")
	s.sql("db", "INSERT INTO app.t (v) VALUES ('lost by the switch')")
	all := s.sql("db", counted)
	s.archived()
	uid, restarts := s.pod("db")

	s.restore("back", func(spec *backupv1.DataRestoreSpec) {
		spec.ToTime, spec.DatabaseName, spec.Storage = moment.Format(time.RFC3339), "db-back", nil
	})
	r := s.comes("back", backupv1.PhasePrepared, backupv1.ReasonPrepared)
	t.Logf("restored in %s to %s: %d tables, %d rows, %d transactions; loses %s", r.Status.Duration, r.Status.RestoredTo, r.Status.Tables, r.Status.Rows, r.Status.Transactions, r.Status.Loses.Summary)
	if l := r.Status.Loses; l.Transactions == nil || *l.Transactions != 2 || l.Since == nil || l.Since.Time.Before(moment) || r.Status.RestoredTo.After(moment) {
		t.Errorf("the loss is %+v, want two transactions after %s", l, moment)
	}
	if now, again := s.pod("db"); now != uid || again != restarts || s.sql("db", counted) != all {
		t.Error("the running database was touched")
	}

	s.switches("db", "db-back", r.Status.Loses.Accept)
	if got := s.sql("db-back", counted); got != wanted {
		t.Errorf("after the switch the database has %q, want %q", got, wanted)
	}
	s.sql("db-back", "INSERT INTO app.t (v) VALUES ('written after the switch')")
	s.switches("db-back", "db", "")
	if got := s.sql("db", counted); got != all {
		t.Errorf("after the switch back the database has %q, want %q", got, all)
	}
	for _, claim := range []string{"data-db-0", "data-db-back-0"} {
		if harness.Lookup[*corev1.PersistentVolumeClaim](s.Journal, claim) == nil {
			t.Errorf("claim %s was deleted", claim)
		}
	}
	s.wrongs()
}

// wrongs requests impossible restores. The status reports each within a minute.
func (s *realScene) wrongs() {
	s.Helper()
	for what, c := range map[string]struct {
		change func(*backupv1.DataRestoreSpec)
		reason string
	}{
		"too-early": {func(spec *backupv1.DataRestoreSpec) { spec.ToTime = "2001-01-01T00:00:00Z" }, "NotFound"},
		"too-late":  {func(spec *backupv1.DataRestoreSpec) { spec.ToTime = "2101-01-01T00:00:00Z" }, "NotFound"},
		"no-such":   {func(spec *backupv1.DataRestoreSpec) { spec.Backup = "20010101T000000Z-00000000" }, "NotFound"},
	} {
		s.restore(what, c.change)
		r := s.comes(what, backupv1.PhaseFailed, c.reason)
		took := r.Status.CompletedAt.Sub(r.CreationTimestamp.Time)
		s.Logf("%s: %s after %s: %s", what, r.Status.Reason, took, r.Status.Message)
		if took > time.Minute {
			s.Errorf("%s: the message took %s", what, took)
		}
	}
}

// aSecond waits until the next second has begun.
func (s *realScene) aSecond() {
	s.Helper()
	now := time.Now().Truncate(time.Second)
	s.Must(harness.Within(10*time.Second, 50*time.Millisecond, s.Next, func() error {
		if !time.Now().Truncate(time.Second).After(now) {
			return fmt.Errorf("the time is still %s", now)
		}
		return nil
	}))
}

// sql runs SQL at a database, with the account of the services.
func (s *realScene) sql(database, statement string) string {
	s.Helper()
	answer, err := s.ask(s.password("db-credentials", "username"), s.password("db-credentials", "password"), statement, "--host="+s.addressOf(database))
	s.Must(err)
	return answer
}

// pod returns the UID of a database's pod, and the number of restarts of its containers.
func (s *realScene) pod(database string) (uid string, restarts int32) {
	s.Helper()
	pod := harness.Lookup[*corev1.Pod](s.Journal, database+"-0")
	for _, c := range pod.Status.ContainerStatuses {
		restarts += c.RestartCount
	}
	return string(pod.UID), restarts
}

// archived returns a DataService with a database whose binary log is archived. more changes the database's fields; nil removes a field.
func archived(database string, more fields) *unstructured.Unstructured {
	mysql := fields{
		"name": database, "image": "example/mysql:10.11", "backup": fields{
			"destination": fields{"claim": fields{"name": store}}, "pointInTime": fields{"interval": "5s"},
		},
		"envs":   []any{fields{"name": "POD_IP", "valueFrom": fields{"fieldRef": fields{"fieldPath": "status.podIP"}}}},
		"probes": fields{"startup": fields{"periodSeconds": int64(1)}, "readiness": fields{"periodSeconds": int64(1)}},
	}
	harness.Merge(mysql, more)
	return &unstructured.Unstructured{Object: fields{
		"apiVersion": "d3os-product.com.d3os/v1", "kind": "DataService", "metadata": fields{"name": platform}, "spec": fields{"mysql": mysql},
	}}
}

// hold sets the finalizers of a pod, so that a deleted pod remains. Without arguments, hold removes all finalizers.
func (s *realScene) hold(name string, finalizers ...string) {
	s.Helper()
	pod := &corev1.Pod{}
	s.Must(suite.API.Get(s.Ctx, client.ObjectKey{Namespace: s.Namespace, Name: name}, pod))
	before := pod.DeepCopy()
	pod.Finalizers = finalizers
	s.Must(suite.API.Patch(s.Ctx, pod, client.MergeFrom(before)))
}

// switches changes the name of the database in the spec, and then accepts the loss; "" stands for the loss that the
// status names. Nothing may change before the loss is accepted. While the pod of the former database exists, the new
// database must have no pod.
func (s *realScene) switches(from, to, accept string) {
	s.Helper()
	mark := s.Mark()
	uid, _ := s.pod(from)
	s.Change(platform, fields{"mysql": fields{"name": to}})
	told := s.condition(dsv1.ConditionDatabaseSwitch, dsv1.ReasonLossNotAccepted)
	message := meta.FindStatusCondition(told.Status.Conditions, dsv1.ConditionDatabaseSwitch).Message
	if accept == "" {
		_, accept, _ = strings.Cut(message, `acceptLoss: "`)
		accept, _, _ = strings.Cut(accept, `"`)
	}
	if !strings.Contains(message, `"`+accept+`"`) {
		s.Errorf("the DataService names the loss %q, want %q", message, accept)
	}
	if now, _ := s.pod(from); now != uid {
		s.Error("the running database was touched before the consent")
	}
	s.hold(from+"-0", "d3os-product.com.d3os/test")
	generation := s.Change(platform, fields{"mysql": fields{"acceptLoss": accept}})
	s.Eventually("the new database waits", func() bool { return harness.Lookup[*appsv1.StatefulSet](s.Journal, to) != nil })
	if set := harness.Lookup[*appsv1.StatefulSet](s.Journal, to); *set.Spec.Replicas != 0 {
		s.Errorf("%s has %d replicas while the pod of %s exists", to, *set.Spec.Replicas, from)
	}
	s.hold(from + "-0")
	s.Until("the switch is made", func() error { return s.IsReady(platform, generation) })
	gone := false
	for _, c := range s.Since(mark) {
		switch {
		case c.ID == "Pod/"+from+"-0" && c.Event == watch.Deleted:
			gone = true
		case c.ID == "Pod/"+to+"-0" && c.Event == watch.Added && !gone:
			s.Errorf("a pod of %s existed before that of %s was deleted", to, from)
		}
	}
	if !gone {
		s.Errorf("the pod of %s still exists", from)
	}
}
