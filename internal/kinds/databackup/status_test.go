// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package databackup

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/kinds/agentjob"
	"d3os.com/d3os-operator/internal/object"
)

// What follows from what is seen: where the backup stands, and whether the Job is made.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	good, bad := &agentjob.Result{OK: true, ID: "id"}, &agentjob.Result{Reason: "StoreFull", Message: "the store is full"}
	for name, c := range map[string]struct {
		known  string // the Job in the status
		began  string // the UID that the annotation names
		world  World
		phase  backupv1.Phase
		reason string
		makes  bool
	}{
		"no source":                        {world: World{Problem: "none"}, phase: backupv1.PhasePending, reason: backupv1.ReasonSourceNotFound},
		"a source":                         {world: World{Source: &agentjob.Source{Name: "cron"}}, phase: backupv1.PhasePending, reason: backupv1.ReasonRunning, makes: true},
		"begun":                            {began: "own", world: World{Source: &agentjob.Source{Name: "cron"}}, phase: backupv1.PhasePending, reason: backupv1.ReasonRunning, makes: true},
		"a copy without a status":          {began: "other", world: World{Source: &agentjob.Source{Name: "cron"}}, phase: backupv1.PhaseFailed, reason: backupv1.ReasonCopied},
		"a copy beside the Job":            {began: "other", world: World{Conflict: "DataBackup backup"}, phase: backupv1.PhaseFailed, reason: backupv1.ReasonCopied},
		"another's Job":                    {world: World{Conflict: "CronJob a"}, phase: backupv1.PhasePending, reason: backupv1.ReasonJobConflict},
		"at work":                          {world: World{Job: &agentjob.Job{UID: "1"}}, phase: backupv1.PhaseRunning, reason: backupv1.ReasonRunning},
		"does not start":                   {world: World{Job: &agentjob.Job{UID: "1", Waiting: "ImagePullBackOff"}}, phase: backupv1.PhaseRunning, reason: backupv1.ReasonPodNotStarting},
		"suspended":                        {world: World{Job: &agentjob.Job{UID: "1", IsSuspended: true, Stuck: "it is suspended"}}, phase: backupv1.PhaseRunning, reason: backupv1.ReasonJobSuspended},
		"its pod is refused":               {world: World{Job: &agentjob.Job{UID: "1", Stuck: "exceeded quota"}}, phase: backupv1.PhaseRunning, reason: backupv1.ReasonPodNotStarting},
		"succeeded, and a sidecar runs on": {world: World{Job: &agentjob.Job{UID: "1", Held: []string{"istio-proxy"}, HasReported: true, Result: good}}, phase: backupv1.PhaseSucceeded, reason: backupv1.ReasonSucceeded},
		"failed, and a sidecar runs on":    {world: World{Job: &agentjob.Job{UID: "1", Held: []string{"istio-proxy"}, HasReported: true, Result: bad, Exit: 22}}, phase: backupv1.PhaseFailed, reason: "StoreFull"},
		"has just failed, and a sidecar runs on": {
			world: World{Job: &agentjob.Job{UID: "1", Held: []string{"istio-proxy"}, HasReported: true, Result: bad, Exit: 22, HeldSince: metav1.Now()}}, phase: backupv1.PhaseRunning, reason: backupv1.ReasonRunning,
		},
		"tried again":          {world: World{Job: &agentjob.Job{UID: "1", Result: bad}}, phase: backupv1.PhaseRunning, reason: backupv1.ReasonRunning},
		"reported, not done":   {world: World{Job: &agentjob.Job{UID: "1", Result: good}}, phase: backupv1.PhaseRunning, reason: backupv1.ReasonRunning},
		"succeeded":            {world: World{Job: &agentjob.Job{UID: "1", Done: true, Succeeded: true, Result: good}}, phase: backupv1.PhaseSucceeded, reason: backupv1.ReasonSucceeded},
		"succeeded, no report": {world: World{Job: &agentjob.Job{UID: "1", Done: true, Succeeded: true}}, phase: backupv1.PhaseSucceeded, reason: backupv1.ReasonResultLost},
		"failed":               {world: World{Job: &agentjob.Job{UID: "1", Done: true, Result: bad}}, phase: backupv1.PhaseFailed, reason: "StoreFull"},
		"failed, no report":    {world: World{Job: &agentjob.Job{UID: "1", Done: true, Reason: "DeadlineExceeded"}}, phase: backupv1.PhaseFailed, reason: backupv1.ReasonJobFailed},
		"failed all the same":  {world: World{Job: &agentjob.Job{UID: "1", Done: true, Result: good}}, phase: backupv1.PhaseFailed, reason: backupv1.ReasonJobFailed},
		"the Job was deleted":  {known: "1", world: World{Source: &agentjob.Source{Name: "cron"}}, phase: backupv1.PhaseFailed, reason: backupv1.ReasonJobDeleted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, k := &backupv1.DataBackup{}, &Kind{}
			b.Name, b.UID, b.Status.Job = "backup", "own", c.known
			if c.began != "" {
				b.Annotations = map[string]string{object.AnnotationStarted: c.began}
			}
			decided := k.Decide(b, kinds.Seen[World]{}.Seen, c.world)
			assert.Equal(t, len(decided.Steps) > 0, c.makes)
			k.Status(b, kinds.Seen[World]{Generation: 1, Observed: &c.world}, metav1.Now())
			assert.Equal(t, b.Status.Phase, c.phase)
			assert.Equal(t, b.Status.Reason, c.reason)
			assert.Assert(t, b.Status.Message != "")
			assert.Equal(t, isFinal(c.phase), b.Status.CompletedAt != nil)
			assert.Equal(t, decided.LookAgain == 0, isFinal(c.phase))
			ready := meta.IsStatusConditionTrue(b.Status.Conditions, backupv1.ConditionReady)
			assert.Equal(t, ready, c.phase == backupv1.PhaseSucceeded)
			one := meta.IsStatusConditionTrue(b.Status.Conditions, backupv1.ConditionReconciling) != meta.IsStatusConditionTrue(b.Status.Conditions, backupv1.ConditionStalled)
			assert.Equal(t, one, !ready, "%+v", b.Status.Conditions)
		})
	}
}

// What has ended stays as it is, whatever is seen later; the same is seen with the same status, times included.
func TestTheStatusSettles(t *testing.T) {
	t.Parallel()
	b, k := &backupv1.DataBackup{}, &Kind{}
	now, later := metav1.NewTime(time.Unix(1000, 0)), metav1.NewTime(time.Unix(2000, 0))
	running := World{Job: &agentjob.Job{UID: "1", Created: now}}
	k.Status(b, kinds.Seen[World]{Generation: 1, Observed: &running}, now)
	before := b.DeepCopy()
	k.Status(b, kinds.Seen[World]{Generation: 1, Observed: &running}, later)
	assert.DeepEqual(t, b, before)
	done := World{Job: &agentjob.Job{UID: "1", Created: now, Ended: &later, Done: true, Succeeded: true, Result: &agentjob.Result{OK: true, ID: "id", StoredBytes: 1536}}}
	k.Status(b, kinds.Seen[World]{Generation: 1, Observed: &done}, later)
	assert.Equal(t, b.Status.Size, "1.5 KiB")
	assert.Assert(t, len(b.Status.Conditions) > 0)
	assert.DeepEqual(t, k.Summary(b).Conditions, b.Status.Conditions)
	before = b.DeepCopy()
	for _, seen := range []kinds.Seen[World]{
		{Generation: 1, Observed: &World{}}, {Generation: 1, Deleting: true}, {Generation: 1, Failure: &kinds.Failure{Reason: "ApplyFailed", Message: "no"}},
	} {
		k.Status(b, seen, metav1.NewTime(time.Unix(3000, 0)))
		assert.DeepEqual(t, b, before)
	}
}

// The kinds whose data is backed up have the names that their APIs have.
func TestSources(t *testing.T) {
	t.Parallel()
	for _, gvk := range []schema.GroupVersionKind{dsv1.GroupVersion.WithKind(dsv1.Kind), etcdv1.GroupVersion.WithKind(etcdv1.Kind), redisv1.GroupVersion.WithKind(redisv1.Kind)} {
		assert.Equal(t, sources[gvk.Kind].kind, gvk)
	}
	assert.Equal(t, len(sources), 3)
}
