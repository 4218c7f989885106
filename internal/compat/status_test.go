// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"context"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	appv1 "d3os.com/d3os-operator/api/app/v1"
	shared "d3os.com/d3os-operator/api/compat"
	stablev1 "d3os.com/d3os-operator/api/stable/v1"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/reconcile"
)

var now = metav1.NewTime(time.Unix(1_800_000_000, 0))

func live(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	data, err := yaml.YAMLToJSON([]byte(text))
	assert.NilError(t, err)
	assert.NilError(t, o.UnmarshalJSON(data))
	return o
}

// seenOf returns the observation of a reconciliation that has applied the workload and assessed its health.
func seenOf(workload *unstructured.Unstructured) reconcile.Seen[Observation] {
	seen := reconcile.Seen[Observation]{Generation: 2, Observed: &Observation{Workload: workload}}
	part := reconcile.PartSeen{Applied: true, Health: health.State{Settled: false, Hint: "Deployment a does not exist"}}
	if workload != nil {
		part.Health = health.Assess([]*unstructured.Unstructured{workload}, nil)
	}
	seen.Parts = []reconcile.PartSeen{part}
	return seen
}

const deployment = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, generation: 1}, spec: {replicas: 2}, status: {observedGeneration: 1, replicas: 2, updatedReplicas: 2, `

// Status takes the numbers from the Deployment's status, and derives the phase and the conditions. A second call with
// the same observation changes nothing.
func TestStatus(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		seen                   reconcile.Seen[Observation]
		phase, ready, message  string
		isReady, isReconciling bool
		stalled                bool
	}{
		"well": {
			seen:  seenOf(live(t, deployment+`readyReplicas: 2, availableReplicas: 2, conditions: [{type: Available, status: "True"}]}}`)),
			phase: phaseRunning, ready: "2/2", message: "2/2 pods are ready", isReady: true,
		},
		"a pod starts": {
			seen:  seenOf(live(t, deployment+`readyReplicas: 1, availableReplicas: 1, unavailableReplicas: 1}}`)),
			phase: phaseCreating, ready: "1/2", message: "Deployment a: Available: 1/2", isReconciling: true,
		},
		"a pod is refused": {
			seen:  seenOf(live(t, deployment+`unavailableReplicas: 2, conditions: [{type: ReplicaFailure, status: "True", reason: FailedCreate, message: no quota}]}}`)),
			phase: phaseDegraded, ready: "0/2", message: "Deployment a: FailedCreate: no quota", isReconciling: true,
		},
		"nothing yet": {seen: seenOf(nil), phase: phaseCreating, message: "Deployment a does not exist", isReconciling: true},
		"a mistake": {
			seen:  reconcile.Seen[Observation]{Generation: 2, Failure: &reconcile.Failure{Reason: reconcile.ReasonInvalidSpec, Message: "spec.image: no", Stalled: true}},
			phase: phaseFailed, message: "spec.image: no", stalled: true,
		},
	} {
		k, a := NewAppServices(renderer, nil), &appv1.AppService{}
		a.Name, a.Namespace = "a", "default"
		k.Status(a, row.seen, now)
		s := a.Status
		assert.Equal(t, s.Phase, row.phase, "%s: %s", name, s.Message)
		assert.Equal(t, s.Ready, row.ready, name)
		assert.Equal(t, s.Message, row.message, name)
		assert.Equal(t, s.ObservedGeneration, int64(2), name)
		is := map[string]bool{}
		for _, c := range s.Conditions {
			is[c.Type] = c.Status == metav1.ConditionTrue
		}
		assert.Equal(t, is["Ready"], row.isReady, name)
		assert.Equal(t, is["Reconciling"], row.isReconciling, name)
		assert.Equal(t, is["Stalled"], row.stalled, name)
		assert.Equal(t, is["Degraded"], row.phase == phaseDegraded || row.phase == phaseFailed, name)
		before := a.DeepCopy()
		k.Status(a, row.seen, metav1.NewTime(now.Add(time.Hour)))
		assert.Assert(t, equality.Semantic.DeepEqual(before, a) || row.phase == phaseCreating, name)
	}
}

// If the last run of a schedule with seconds failed, the CronTab is degraded, and its message contains the run's exit code.
func TestStatusOfAFailedRun(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a-1", UID: "p"}, Status: corev1.PodStatus{
		Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}},
	}}
	event := func(name, message string, at metav1.Time) *corev1.Event {
		return &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, InvolvedObject: corev1.ObjectReference{UID: pod.UID}, LastTimestamp: at,
			Reason: "Unhealthy", Message: message,
		}
	}
	d := live(t, deployment+`readyReplicas: 1}}`)
	d.SetNamespace("default")
	byUID := func(o client.Object) []string { return []string{string(o.(*corev1.Event).InvolvedObject.UID)} }
	api := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithIndex(&corev1.Event{}, "involvedObject.uid", byUID).WithObjects(
		event("old", "Readiness probe failed: RunFailed: the run of A, which took 1s: exit code 1", metav1.NewTime(now.Add(-time.Minute))),
		event("new", "Readiness probe failed: RunFailed: the run of B, which took 2s: exit code 3\n", now),
		event("other", "Liveness probe failed: no", metav1.NewTime(now.Add(time.Minute))),
	).Build()
	k, c := NewCronTabs(renderer, api, api, ""), &stablev1.CronTab{}
	c.Name, c.Namespace, c.UID = "a", "default", "u"
	d.SetOwnerReferences([]metav1.OwnerReference{reconcile.OwnerOf(k, c).Reference()})
	assert.NilError(t, api.Create(t.Context(), d))
	seen := seenOf(d)
	seen.Parts[0].Kind = "Deployment"
	obs := &Observation{}
	pods := func(context.Context, string) ([]*corev1.Pod, error) { return []*corev1.Pod{pod}, nil }
	assert.NilError(t, k.Observe(t.Context(), c, seen.PlanSeen, pods, obs))
	seen.Observed = obs
	assert.Equal(t, k.Decide(c, seen.PlanSeen, obs).LookAgain, lookAgain)
	k.Status(c, seen, now)
	assert.Equal(t, c.Status.Phase, phaseDegraded)
	assert.Equal(t, c.Status.Reason, shared.ReasonRunFailed)
	assert.Equal(t, c.Status.Message, "pod a-1: RunFailed: the run of B, which took 2s: exit code 3")
}

// The status of a CronTab without seconds contains the CronJob's parallelism, and the times of its last run and its last successful run.
func TestStatusOfRuns(t *testing.T) {
	t.Parallel()
	k, c := NewCronTabs(renderer, nil, nil, ""), &stablev1.CronTab{}
	c.Name, c.Namespace = "a", "default"
	k.Status(c, seenOf(live(t, `{apiVersion: batch/v1, kind: CronJob, metadata: {name: a}, spec: {schedule: "*/5 * * * *", jobTemplate: {spec: {parallelism: 3}}},
		status: {active: [{name: a-1}], lastScheduleTime: "2026-01-02T15:00:00Z", lastSuccessfulTime: "2026-01-02T14:55:02Z"}}`)), now)
	assert.Equal(t, c.Status.Phase, phaseRunning)
	assert.Equal(t, c.Status.Message, "runs at */5 * * * *; running since 2026-01-02 15:00 UTC")
	assert.Equal(t, c.Status.Replicas, int32(3))
	assert.Equal(t, c.Status.LastScheduleTime.UTC().Format(time.TimeOnly), "15:00:00")
	assert.Equal(t, c.Status.LastSuccessfulTime.UTC().Format(time.TimeOnly), "14:55:02")
}
