// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/etcd/membership"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/reconcile"
)

// A cluster that refuses writes for lack of space has the reason SpaceUsedUp.
func TestNoSpaceHasAReason(t *testing.T) {
	t.Parallel()
	k, ec := &Kind{planner: testPlanner(t)}, read(t, "minimal")
	ec.Status.Phase = etcdv1.PhaseRunning
	answer := membership.Answer{
		Cluster: 1, Member: 2, Leader: 2, Version: "3.6.16", Linear: true, Members: []membership.Member{{ID: 2, PeerURLs: wanted(ec).PeerURLs[:1]}},
		Alarms: []membership.Alarm{{Member: 2, Kind: membership.AlarmNoSpace}},
	}
	for _, alarms := range [][]membership.Alarm{answer.Alarms, nil} {
		answer.Alarms = alarms
		obs := Observation{View: membership.View{
			Live: 1, Record: membership.Record{Cluster: 1, Replicas: 1, Version: "3.6.16"},
			Pods: []membership.Pod{{Name: ec.Name + "-0", UID: "u", IP: "192.0.2.1", Running: true, Ready: true, Answer: &answer}},
		}}
		report(k, ec, &obs, metav1.NewTime(time.Unix(1000, 0)))
		degraded := meta.FindStatusCondition(ec.Status.Conditions, etcdv1.ConditionDegraded)
		assert.Equal(t, ec.Status.Reason == etcdv1.ReasonSpaceUsedUp, alarms != nil, "%s: %s", ec.Status.Reason, ec.Status.Message)
		assert.Equal(t, degraded.Reason == etcdv1.ReasonSpaceUsedUp, alarms != nil, "%s: %s", degraded.Reason, degraded.Message)
	}
}

// report decides about an observation, and writes the status.
func report(k *Kind, ec *etcdv1.EtcdCluster, obs *Observation, now metav1.Time) {
	seen := reconcile.Seen[Observation]{Generation: 1, Observed: obs}
	k.Decide(ec, seen.PlanSeen, obs)
	k.Status(ec, seen, now)
}

// The number of running members is odd. If the spec has an even number, a note reports the difference, and READY counts the members that
// run.
func TestOddNumberOfMembers(t *testing.T) {
	t.Parallel()
	for wish, runs := range []int{0, 1, 3, 3, 5, 5, 7, 7, 9, 9} {
		k, ec := &Kind{planner: testPlanner(t)}, read(t, "minimal")
		ec.Spec.Replicas = ptr.To(int32(wish))
		assert.Equal(t, wanted(ec).Replicas, runs, "spec.replicas: %d", wish)
		report(k, ec, &Observation{}, metav1.NewTime(time.Unix(1000, 0)))
		assert.Equal(t, ec.Status.Ready, fmt.Sprintf("0/%d", runs))
		if wish == runs {
			assert.Equal(t, len(ec.Status.Notes), 0, "%v", ec.Status.Notes)
			continue
		}
		assert.DeepEqual(t, ec.Status.Notes, []string{fmt.Sprintf(
			"spec.replicas is %d, but %d members run: an even number survives no more losses than the odd number below it", wish, runs)})
	}
}

// The status names the volume with the most former data before that data fills the volume.
func TestKeptDataIsNamed(t *testing.T) {
	t.Parallel()
	for kept, want := range map[[2]int64]string{
		{0, 0}:  "",
		{0, 12}: "the volume of store-1 keeps 12 MiB of former data (etcd.set-aside-*): remove the unneeded files before they fill the volume",
		{9, 12}: "the volume of store-1 keeps 12 MiB of former data (etcd.set-aside-*) (1 more volumes keep some): remove the unneeded files before they fill the volume",
	} {
		k, ec := &Kind{planner: testPlanner(t)}, read(t, "minimal")
		report(k, ec, &Observation{View: membership.View{Pods: []membership.Pod{
			{Name: "store-0", Kept: kept[0]}, {Name: "store-1", Ordinal: 1, Kept: kept[1]},
		}}}, metav1.NewTime(time.Unix(1000, 0)))
		found := ""
		for _, note := range ec.Status.Notes {
			if strings.Contains(note, "set-aside") {
				found = note
			}
		}
		assert.Equal(t, found, want)
	}
}

// If members do not come up within spec.progressDeadlineSeconds, the cluster becomes Degraded, with the cause. Without
// the field, there is no deadline.
func TestProgressDeadline(t *testing.T) {
	t.Parallel()
	began := time.Unix(1000, 0)
	for _, deadline := range []*int32{nil, ptr.To[int32](600)} {
		k, ec := &Kind{planner: testPlanner(t)}, read(t, "minimal")
		ec.Spec.ProgressDeadlineSeconds = deadline
		for _, passed := range []time.Duration{0, 599 * time.Second, 600 * time.Second} {
			obs := Observation{Problems: map[string]string{"store-0": "ErrImagePull: no such image"}}
			report(k, ec, &obs, metav1.NewTime(began.Add(passed)))
			isOver := deadline != nil && passed == 600*time.Second
			progressing := meta.FindStatusCondition(ec.Status.Conditions, etcdv1.ConditionProgressing)
			degraded := meta.FindStatusCondition(ec.Status.Conditions, etcdv1.ConditionDegraded)
			assert.Equal(t, progressing.Status == metav1.ConditionFalse && progressing.Reason == etcdv1.ReasonProgressDeadlineExceeded, isOver, "%s: %+v", passed, progressing)
			assert.Equal(t, degraded.Status == metav1.ConditionTrue, isOver, "%s: %+v", passed, degraded)
			if isOver {
				assert.Equal(t, degraded.Reason, etcdv1.ReasonProgressDeadlineExceeded)
				assert.Equal(t, degraded.Message, "pod store-0: ErrImagePull: no such image; not finished within 10m0s (spec.progressDeadlineSeconds)")
			}
		}
	}
}

// The summary for events and metrics matches the status and its conditions.
func TestSummary(t *testing.T) {
	t.Parallel()
	k, ec := &Kind{planner: testPlanner(t)}, read(t, "minimal")
	failed := reconcile.Seen[Observation]{Generation: 1, Failure: &reconcile.Failure{Reason: reconcile.ReasonStepFailed, Message: "it broke"}}
	k.Status(ec, failed, metav1.NewTime(time.Unix(1000, 0)))
	s := k.Summary(ec)
	assert.Assert(t, !s.Ready)
	assert.Equal(t, s.ProblemReason+": "+s.Problem, "StepFailed: it broke")
	assert.Assert(t, meta.IsStatusConditionTrue(s.Conditions, etcdv1.ConditionDegraded))
	assert.DeepEqual(t, s.Conditions, ec.Status.Conditions)
	ec.Status.Members = []etcdv1.MemberStatus{{Ordinal: -1}, {Ordinal: 1}}
	assert.DeepEqual(t, k.Summary(ec).Claims, []string{"data-" + ec.Name + "-1"})
}

// A parked cluster gets the phase Scaling when it starts, although its last status still counts a ready member. A running cluster that
// loses its members gets the phase QuorumLost.
func TestStarts(t *testing.T) {
	t.Parallel()
	for before, after := range map[etcdv1.Phase]etcdv1.Phase{etcdv1.PhaseParked: etcdv1.PhaseScaling, etcdv1.PhaseRunning: etcdv1.PhaseQuorumLost} {
		k, ec := &Kind{planner: testPlanner(t)}, read(t, "minimal")
		ec.Status.Phase, ec.Status.ReadyReplicas = before, 1
		obs := Observation{View: membership.View{
			Live: 1, Record: membership.Record{Cluster: 1, Replicas: 1, Version: "3.6.16"},
			Claims: []membership.Claim{{Name: "data-" + ec.Name + "-0", Cluster: 1, Member: 2, Version: "3.6.16"}},
		}}
		report(k, ec, &obs, metav1.NewTime(time.Unix(1000, 0)))
		assert.Equal(t, ec.Status.Phase, after, "after %s: %s", before, ec.Status.Message)
	}
}

// While a StatefulSet is replaced and its pods run, Decide returns no step.
func TestNoStepWhileTheStatefulSetIsReplaced(t *testing.T) {
	t.Parallel()
	decided := (&Kind{now: time.Now}).Decide(read(t, "minimal"), reconcile.PlanSeen{}, &Observation{Replacing: true})
	assert.Assert(t, len(decided.Steps) == 0 && decided.LookAgain > 0)
}

// If etcd's container has ended but runs again, the agent's report replaces the problem about that end. A problem of
// another container stays.
func TestReportsOutliveTheLastEnd(t *testing.T) {
	t.Parallel()
	etcd := corev1.ContainerStatus{
		Name: container, RestartCount: 1, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error"}},
	}
	mesh := corev1.ContainerStatus{Name: "mesh", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "InvalidImageName"}}}
	const ended = "CrashLoopBackOff: container etcd ended with exit code 137"
	for name, c := range map[string]struct {
		report     *membership.Report
		containers []corev1.ContainerStatus
		want       string
	}{
		"it runs, and reports":                            {&membership.Report{Waiting: "its data is damaged"}, []corev1.ContainerStatus{etcd}, ""},
		"it does not report":                              {nil, []corev1.ContainerStatus{etcd}, ended},
		"another container does not start":                {&membership.Report{}, []corev1.ContainerStatus{etcd, mesh}, "InvalidImageName"},
		"another container does not start, and no report": {nil, []corev1.ContainerStatus{etcd, mesh}, ended},
	} {
		obs := Observation{Problems: map[string]string{}, others: map[string]string{}}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "store-0"}}
		pod.Status.ContainerStatuses = c.containers
		(&Kind{now: time.Now}).seePod(database.Pod{Pod: pod, Problem: health.PodProblem(pod)}, &obs)
		obs.View.Pods[0].Report = c.report
		obs.outlive()
		assert.Equal(t, obs.Problems["store-0"], c.want, name)
		assert.Equal(t, obs.View.Pods[0].Problem, c.want, name)
	}
}
