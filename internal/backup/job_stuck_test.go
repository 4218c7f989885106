// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"d3os.com/d3os-operator/internal/object"
)

// jobAt returns a CronJob's Job of the given age.
func jobAt(ago time.Duration) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: "data", Name: "db-backup-1", UID: "job", CreationTimestamp: metav1.NewTime(time.Now().Add(-ago)),
		Labels:          map[string]string{object.LabelInstance: "platform", object.LabelComponent: "mysql.backup"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "CronJob", Name: "db-backup", UID: "cron", Controller: ptr.To(true)}},
	}}
}

// podOf returns a pod of the Job of jobAt. The pod's working container ended the given time ago, and the other
// given containers still run.
func podOf(name string, code int32, ago time.Duration, others ...string) *corev1.Pod {
	end := &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.NewTime(time.Now().Add(-ago)), Message: `{"ok":true,"id":"a"}`}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "data", Name: name, Labels: map[string]string{labelJob: "db-backup-1"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "db-backup-1", UID: "job", Controller: ptr.To(true)}},
	}, Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: Container, State: corev1.ContainerState{Terminated: end}}}}}
	for _, other := range others {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses,
			corev1.ContainerStatus{Name: other, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	}
	return pod
}

func readerOf(objects ...client.Object) Reader {
	byUID := func(o client.Object) []string { return []string{string(o.(*corev1.Event).InvolvedObject.UID)} }
	c := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).WithIndex(&corev1.Event{}, "involvedObject.uid", byUID).Build()
	return Reader{Client: c, Live: c}
}

// If a Job is suspended, or the API server refuses its pod, the state of the Job shows the reason within seconds. The
// reason names the quota or policy.
func TestJobsWithoutAPodSayWhy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, jobsWithoutAPodSayWhy) // the clock only moves while all goroutines wait
}

func jobsWithoutAPodSayWhy(t *testing.T) {
	t.Helper()
	suspended := jobAt(0)
	suspended.Spec.Suspend = ptr.To(true)
	refused := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "data", Name: "e"}, Reason: "FailedCreate", LastTimestamp: metav1.Now(), InvolvedObject: corev1.ObjectReference{UID: "job"},
		Message: `Error creating: pods "db-backup-1-" is forbidden: exceeded quota: tiny`,
	}
	for name, c := range map[string]struct {
		job  *batchv1.Job
		with []client.Object
		says string
	}{
		"suspended":               {suspended, nil, "it is suspended"},
		"refused":                 {jobAt(time.Minute), []client.Object{refused}, "exceeded quota: tiny"},
		"refused, no event":       {jobAt(time.Minute), nil, "it has no pod: `kubectl describe job db-backup-1` shows why"},
		"just refused":            {jobAt(4 * time.Second), []client.Object{refused}, "exceeded quota: tiny"},
		"a pod should start soon": {jobAt(4 * time.Second), nil, ""},
		"just created":            {jobAt(0), []client.Object{refused}, ""},
		"at work":                 {jobAt(time.Minute), []client.Object{refused, podOf("p", 0, 0)}, ""},
		"was refused earlier":     {jobAt(time.Hour), []client.Object{refused, ended(podOf("p", 1, 0))}, ""},
	} {
		j, err := readerOf(c.with...).Follow(context.Background(), c.job)
		assert.NilError(t, err, name)
		assert.Assert(t, is.Contains(j.Stuck, c.says), name)
		assert.Equal(t, j.Stuck == "", c.says == "", name)
	}
}

// A Job whose pod should start is observed every few seconds. So a refusal of the pod is reported within ten seconds.
func TestLookAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, lookAgain) // the clock only moves while all goroutines wait
}

func lookAgain(t *testing.T) {
	t.Helper()
	for name, c := range map[string]struct {
		job  Job
		want time.Duration
	}{
		"a pod should start soon": {Job{Created: metav1.Now()}, whileDue},
		"no pod":                  {Job{Created: metav1.NewTime(time.Now().Add(-time.Minute))}, time.Hour},
		"refused":                 {Job{Created: metav1.Now(), Stuck: "no"}, time.Hour},
		"at work":                 {Job{Created: metav1.Now(), IsAtWork: true}, time.Hour},
		"ended":                   {Job{Created: metav1.Now(), Done: true}, time.Hour},
	} {
		assert.Equal(t, c.job.LookAgain(time.Hour), c.want, name)
	}
	assert.Assert(t, refusalDue+whileDue < promised)
}

// promised is the maximum time until a fault is reported.
const promised = 10 * time.Second

// ended changes a pod into one that was created after all events and has failed.
func ended(pod *corev1.Pod) *corev1.Pod {
	pod.Status.Phase, pod.CreationTimestamp = corev1.PodFailed, metav1.NewTime(time.Now().Add(time.Hour))
	return pod
}

// A Job is deleted only if its working container ended more than a minute ago. Then the CronJob can create the next
// Job.
func TestJobThatASidecarKeepsIsEnded(t *testing.T) {
	t.Parallel()
	done, otherOwner := jobAt(time.Hour), jobAt(time.Hour)
	done.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	otherOwner.OwnerReferences[0].Kind = "DataBackup"
	works := podOf("p", 0, time.Hour, "istio-proxy")
	works.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	for name, c := range map[string]struct {
		job  *batchv1.Job
		pods []client.Object
		ends bool
	}{
		"succeeded, a sidecar runs":  {jobAt(time.Hour), []client.Object{podOf("p", 0, time.Hour, "istio-proxy")}, true},
		"failed, a sidecar runs":     {jobAt(time.Hour), []client.Object{podOf("p", 22, time.Hour, "istio-proxy")}, true},
		"has just ended":             {jobAt(time.Hour), []client.Object{podOf("p", 0, time.Second, "istio-proxy")}, false},
		"the working container runs": {jobAt(time.Hour), []client.Object{works}, false},
		"no other container runs":    {jobAt(time.Hour), []client.Object{podOf("p", 0, time.Hour)}, false},
		"another pod of it may work": {jobAt(time.Hour), []client.Object{podOf("a", 0, time.Hour, "istio-proxy"), podOf("b", 0, time.Hour, "istio-proxy")}, false},
		"the Job has ended":          {done, []client.Object{podOf("p", 0, time.Hour, "istio-proxy")}, false},
		"the Job is a DataBackup's":  {otherOwner, []client.Object{podOf("p", 0, time.Hour, "istio-proxy")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := readerOf(append(c.pods, c.job)...)
			found, err := r.Unfinished(context.Background(), "data", "platform", "mysql")
			assert.NilError(t, err)
			for _, u := range found {
				if u.IsHeld {
					assert.NilError(t, r.End(context.Background(), "data", u))
				}
			}
			err = r.Client.Get(context.Background(), client.ObjectKeyFromObject(c.job), &batchv1.Job{})
			assert.Equal(t, apierrors.IsNotFound(err), c.ends, "%v", err)
		})
	}
	r := readerOf(jobAt(time.Hour), podOf("p", 0, time.Hour, "istio-proxy"))
	assert.NilError(t, r.End(context.Background(), "data", Unfinished{Name: "db-backup-1", UID: "another"}))
	assert.NilError(t, r.Client.Get(context.Background(), client.ObjectKey{Namespace: "data", Name: "db-backup-1"}, &batchv1.Job{}))
}
