// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"errors"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	mysqlv1 "d3os.com/d3os-operator/api/mysql/v1alpha1"
	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

// Each observation determines the phase of the backup, and whether the Job is created.
func TestVerdictsOfBackups(t *testing.T) {
	t.Parallel()
	good, bad := &contract.Result{OK: true, ID: "id"}, &contract.Result{Reason: "StoreFull", Message: "the store is full"}
	for name, c := range map[string]struct {
		known    string // Job in the status
		began    string // UID in the annotation
		observed DataBackupObservation
		phase    backupv1.Phase
		reason   string
		makes    bool
	}{
		"no source":                        {observed: DataBackupObservation{Problem: "none"}, phase: backupv1.PhasePending, reason: backupv1.ReasonSourceNotFound},
		"a source, not started":            {observed: DataBackupObservation{Source: &Source{Name: "cron"}}, phase: backupv1.PhasePending, reason: backupv1.ReasonRunning, makes: true},
		"started, without a Job":           {began: "own", observed: DataBackupObservation{Source: &Source{Name: "cron"}}, phase: backupv1.PhasePending, reason: backupv1.ReasonRunning, makes: true},
		"a copy without a status":          {began: "other", observed: DataBackupObservation{Source: &Source{Name: "cron"}}, phase: backupv1.PhaseFailed, reason: backupv1.ReasonCopied},
		"a copy, and the original's Job":   {began: "other", observed: DataBackupObservation{Conflict: "DataBackup backup"}, phase: backupv1.PhaseFailed, reason: backupv1.ReasonCopied},
		"a Job of another controller":      {observed: DataBackupObservation{Conflict: "CronJob a"}, phase: backupv1.PhasePending, reason: backupv1.ReasonJobConflict},
		"at work":                          {observed: DataBackupObservation{Job: &Job{UID: "1"}}, phase: backupv1.PhaseRunning, reason: backupv1.ReasonRunning},
		"does not start":                   {observed: DataBackupObservation{Job: &Job{UID: "1", Waiting: "ImagePullBackOff"}}, phase: backupv1.PhaseRunning, reason: backupv1.ReasonPodNotStarting},
		"suspended":                        {observed: DataBackupObservation{Job: &Job{UID: "1", IsSuspended: true, Stuck: "it is suspended"}}, phase: backupv1.PhaseRunning, reason: backupv1.ReasonJobSuspended},
		"its pod is refused":               {observed: DataBackupObservation{Job: &Job{UID: "1", Stuck: "exceeded quota"}}, phase: backupv1.PhaseRunning, reason: backupv1.ReasonPodNotStarting},
		"succeeded, and a sidecar runs on": {observed: DataBackupObservation{Job: &Job{UID: "1", Held: []string{"istio-proxy"}, HasReported: true, Result: good}}, phase: backupv1.PhaseSucceeded, reason: backupv1.ReasonSucceeded},
		"failed, and a sidecar runs on":    {observed: DataBackupObservation{Job: &Job{UID: "1", Held: []string{"istio-proxy"}, HasReported: true, Result: bad, Exit: 22}}, phase: backupv1.PhaseFailed, reason: "StoreFull"},
		"has just failed, and a sidecar runs on": {
			observed: DataBackupObservation{Job: &Job{UID: "1", Held: []string{"istio-proxy"}, HasReported: true, Result: bad, Exit: 22, HeldSince: metav1.Now()}}, phase: backupv1.PhaseRunning, reason: backupv1.ReasonRunning,
		},
		"tried again":                      {observed: DataBackupObservation{Job: &Job{UID: "1", Result: bad}}, phase: backupv1.PhaseRunning, reason: backupv1.ReasonRunning},
		"reported, not done":               {observed: DataBackupObservation{Job: &Job{UID: "1", Result: good}}, phase: backupv1.PhaseRunning, reason: backupv1.ReasonRunning},
		"succeeded":                        {observed: DataBackupObservation{Job: &Job{UID: "1", Done: true, Succeeded: true, Result: good}}, phase: backupv1.PhaseSucceeded, reason: backupv1.ReasonSucceeded},
		"succeeded, no report":             {observed: DataBackupObservation{Job: &Job{UID: "1", Done: true, Succeeded: true}}, phase: backupv1.PhaseSucceeded, reason: backupv1.ReasonResultLost},
		"failed":                           {observed: DataBackupObservation{Job: &Job{UID: "1", Done: true, Result: bad}}, phase: backupv1.PhaseFailed, reason: "StoreFull"},
		"failed, no report":                {observed: DataBackupObservation{Job: &Job{UID: "1", Done: true, Reason: "DeadlineExceeded"}}, phase: backupv1.PhaseFailed, reason: backupv1.ReasonJobFailed},
		"failed after a report of success": {observed: DataBackupObservation{Job: &Job{UID: "1", Done: true, Result: good}}, phase: backupv1.PhaseFailed, reason: backupv1.ReasonJobFailed},
		"the Job was deleted":              {known: "1", observed: DataBackupObservation{Source: &Source{Name: "cron"}}, phase: backupv1.PhaseFailed, reason: backupv1.ReasonJobDeleted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, k := &backupv1.DataBackup{}, &DataBackups{}
			b.Name, b.UID, b.Status.Job = "backup", "own", c.known
			if c.began != "" {
				b.Annotations = map[string]string{object.AnnotationStarted: c.began}
			}
			decided := k.Decide(b, reconcile.PlanSeen{}, &c.observed)
			assert.Equal(t, len(decided.Steps) > 0, c.makes)
			k.Status(b, reconcile.Seen[DataBackupObservation]{Generation: 1, Observed: &c.observed}, metav1.Now())
			assert.Equal(t, b.Status.Phase, c.phase)
			assert.Equal(t, b.Status.Reason, c.reason)
			assert.Assert(t, b.Status.Message != "")
			assert.Equal(t, isFinalBackup(c.phase), b.Status.CompletedAt != nil)
			assert.Equal(t, decided.LookAgain == 0, isFinalBackup(c.phase))
			ready := meta.IsStatusConditionTrue(b.Status.Conditions, backupv1.ConditionReady)
			assert.Equal(t, ready, c.phase == backupv1.PhaseSucceeded)
			one := meta.IsStatusConditionTrue(b.Status.Conditions, backupv1.ConditionReconciling) != meta.IsStatusConditionTrue(b.Status.Conditions, backupv1.ConditionStalled)
			assert.Equal(t, one, !ready, "%+v", b.Status.Conditions)
		})
	}
}

// A final status does not change, whatever is observed later. The same observation gives the same status, including
// times.
func TestTheStatusSettles(t *testing.T) {
	t.Parallel()
	b, k := &backupv1.DataBackup{}, &DataBackups{}
	now, later := metav1.NewTime(time.Unix(1000, 0)), metav1.NewTime(time.Unix(2000, 0))
	running := DataBackupObservation{Job: &Job{UID: "1", Created: now}}
	k.Status(b, reconcile.Seen[DataBackupObservation]{Generation: 1, Observed: &running}, now)
	before := b.DeepCopy()
	k.Status(b, reconcile.Seen[DataBackupObservation]{Generation: 1, Observed: &running}, later)
	assert.DeepEqual(t, b, before)
	done := DataBackupObservation{Job: &Job{UID: "1", Created: now, Ended: &later, Done: true, Succeeded: true, Result: &contract.Result{OK: true, ID: "id", StoredBytes: 1536}}}
	k.Status(b, reconcile.Seen[DataBackupObservation]{Generation: 1, Observed: &done}, later)
	assert.Equal(t, b.Status.Size, "1.5 KiB")
	assert.Assert(t, len(b.Status.Conditions) > 0)
	assert.DeepEqual(t, k.Summary(b).Conditions, b.Status.Conditions)
	before = b.DeepCopy()
	for _, seen := range []reconcile.Seen[DataBackupObservation]{
		{Generation: 1, Observed: &DataBackupObservation{}}, {Generation: 1, Deleting: true}, {Generation: 1, Failure: &reconcile.Failure{Reason: "ApplyFailed", Message: "no"}},
	} {
		k.Status(b, seen, metav1.NewTime(time.Unix(3000, 0)))
		assert.DeepEqual(t, b, before)
	}
}

// The names of the kinds with backups equal the names in their APIs.
func TestSources(t *testing.T) {
	t.Parallel()
	for _, gvk := range []schema.GroupVersionKind{
		dsv1.GroupVersion.WithKind(dsv1.Kind), etcdv1.GroupVersion.WithKind(etcdv1.Kind), mysqlv1.GroupVersion.WithKind(mysqlv1.Kind), redisv1.GroupVersion.WithKind(redisv1.Kind),
	} {
		assert.Equal(t, sources[gvk.Kind].kind, gvk)
	}
	assert.Equal(t, len(sources), 4)
}

// The source of a DataService with several members is the CronJob of the MySQLCluster that the DataService
// controls. A MySQLCluster of another DataService does not count.
func TestSourceOfMembers(t *testing.T) {
	t.Parallel()
	types := runtime.NewScheme()
	assert.NilError(t, errors.Join(batchv1.AddToScheme(types), mysqlv1.AddToScheme(types)))
	by := func(kind, name string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{Kind: kind, Name: name, APIVersion: sources[kind].kind.GroupVersion().String(), Controller: ptr.To(true)}}
	}
	byOwner := func(o client.Object) []string {
		owner := metav1.GetControllerOf(o)
		return []string{object.Owner{GroupVersionKind: sources[owner.Kind].kind, Name: owner.Name}.Key()}
	}
	var objects []client.Object
	for _, name := range []string{"a", "b"} {
		objects = append(objects,
			&mysqlv1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "data", Name: "mysql-" + name, OwnerReferences: by("DataService", name)}},
			&batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "data", Name: "cron-" + name, OwnerReferences: by("MySQLCluster", "mysql-"+name),
				Labels: map[string]string{object.LabelBackup: sources["MySQLCluster"].part}}})
	}
	c := fake.NewClientBuilder().WithScheme(types).WithObjects(objects...).WithIndex(&batchv1.CronJob{}, object.IndexOwner, byOwner).Build()
	for name, cron := range map[string]string{"a": "cron-a", "b": "cron-b", "c": ""} {
		source, err := Reader{Client: c}.membersSource(t.Context(), Of{Kind: sources["DataService"].kind, Namespace: "data", Name: name})
		assert.NilError(t, err)
		assert.Equal(t, ptr.Deref(source, Source{}).Name, cron, name)
	}
}

// Runs are overdue if none has succeeded for longer than the schedule allows: the last run has not ended, has not
// started, or was not created.
func TestOverdue(t *testing.T) {
	t.Parallel()
	last := time.Unix(1_800_000_000, 0)
	pod := func(after time.Duration, state corev1.ContainerState) []*corev1.Pod {
		return []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "p", CreationTimestamp: metav1.NewTime(last.Add(after)), Labels: map[string]string{object.LabelBackup: "mysql"}},
			Status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{Name: Container, State: state}}}}}
	}
	running, ended := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	for name, c := range map[string]struct {
		pods     []*corev1.Pod
		schedule string
		after    time.Duration
		want     string
	}{
		"in time":                   {pod(20*time.Hour, running), "@daily", 25 * time.Hour, ""},
		"never ends":                {pod(24*time.Hour, running), "@daily", 27 * time.Hour, "has not ended"},
		"never starts":              {pod(24*time.Hour, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}), "@daily", 27 * time.Hour, "does not work"},
		"no pod since the last run": {pod(-time.Hour, ended), "@daily", 27 * time.Hour, "started no pod"},
		"no pod is left":            {nil, "@daily", 27 * time.Hour, "started no pod"},
		"ended without success":     {pod(24*time.Hour, ended), "@daily", 27 * time.Hour, "ended without success"},
		"no schedule":               {pod(24*time.Hour, running), "", 999 * time.Hour, ""},
		"every minute":              {pod(time.Hour, running), "* * * * *", 25 * time.Hour, ""},
		"weekly":                    {pod(time.Hour, running), "0 5 * * 0", 8 * 24 * time.Hour, "has not ended"},
		"on the 31st of each month": {pod(-time.Hour, ended), "0 3 31 * *", 61 * 24 * time.Hour, ""},
	} {
		at := metav1.NewTime(last)
		got := Overdue(c.pods, "mysql", c.schedule, "", &at, last.Add(c.after))
		if !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	at := metav1.NewTime(last)
	assert.Equal(t, Overdue(nil, "mysql", "30 2 * * *", "Europe/Berlin", &at, last.Add(50*time.Hour)), "", "the clocks may have skipped a run")
	assert.Assert(t, Overdue(nil, "mysql", "30 2 * * *", "Europe/Berlin", &at, last.Add(51*time.Hour)) != "")
	assert.Equal(t, Overdue(nil, "mysql", "@daily", "", nil, last), "", "before the first good run, another reason applies")
}
