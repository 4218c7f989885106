// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An event about a pod explains the pod's state while that state lasts. A probe that fails while a container starts, or
// while a pod ends, is no fault.
func TestEventsOfAPod(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	pod := func(ready corev1.ConditionStatus, runs time.Duration) *corev1.Pod {
		return &corev1.Pod{Status: corev1.PodStatus{
			Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: ready}},
			ContainerStatuses: []corev1.ContainerStatus{{Ready: ready == corev1.ConditionTrue, State: corev1.ContainerState{
				Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now.Add(-runs))},
			}}},
		}}
	}
	probe, mount := &corev1.Event{Reason: "Unhealthy"}, &corev1.Event{Reason: "FailedMount"}
	assert.Assert(t, AppliesTo(probe, pod(corev1.ConditionFalse, time.Hour)))
	assert.Assert(t, !AppliesTo(probe, pod(corev1.ConditionTrue, time.Hour)))
	assert.Assert(t, !AppliesTo(&corev1.Event{Reason: "FailedScheduling"}, pod(corev1.ConditionFalse, time.Hour)))
	ending := pod(corev1.ConditionFalse, time.Hour)
	ending.DeletionTimestamp = &metav1.Time{Time: now}
	assert.Assert(t, !AppliesTo(probe, ending))
	assert.Assert(t, AppliesTo(mount, ending))

	assert.Assert(t, MayBeStarting(pod(corev1.ConditionFalse, 30*time.Second), now))
	assert.Assert(t, !MayBeStarting(pod(corev1.ConditionFalse, 90*time.Second), now))
	assert.Assert(t, !MayBeStarting(pod(corev1.ConditionTrue, 30*time.Second), now))
}

// Decisive returns the warning whose reason is closest to the cause. Of several such warnings, it returns the one about the object whose
// name sorts first. It ignores normal events.
func TestDecisive(t *testing.T) {
	t.Parallel()
	event := func(reason, name, kind string) corev1.Event {
		return corev1.Event{Type: kind, Reason: reason, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: name}, Message: name + ": " + reason}
	}
	events := []corev1.Event{
		event("FailedMount", "b", corev1.EventTypeWarning), event("Unhealthy", "a", corev1.EventTypeWarning), event("FailedMount", "a", corev1.EventTypeWarning),
		event("Pulled", "a", corev1.EventTypeNormal), event("BackOff", "a", corev1.EventTypeWarning), event("FailedCreate", "a", corev1.EventTypeNormal),
	}
	always := func(*corev1.Event) bool { return true }
	e := Decisive(events, always)
	assert.Equal(t, e.Message, "a: FailedMount")
	culprit, text := CulpritOf("Pod", "a", e)
	assert.DeepEqual(t, culprit, Culprit{Kind: "Pod", Name: "a", Reason: "FailedMount", Message: "a: FailedMount"})
	assert.Equal(t, text, "pod a: FailedMount: a: FailedMount")
	assert.Assert(t, Decisive(events, func(e *corev1.Event) bool { return e.Reason == "Pulled" }) == nil)
	assert.Assert(t, Decisive(nil, always) == nil)
}

// An event about a write conflict is no cause: the controller repeats its request at once.
func TestConflictIsNoCause(t *testing.T) {
	t.Parallel()
	conflicting := corev1.Event{Type: corev1.EventTypeWarning, Reason: "ProvisioningFailed", Message: `failed to bind: Operation cannot be fulfilled on ` +
		`persistentvolumeclaims "data-a-0": the object has been modified; please apply your changes to the latest version and try again`}
	waits := corev1.Event{Type: corev1.EventTypeNormal, Reason: "WaitForFirstConsumer", Message: "waiting for first consumer"}
	full := corev1.Event{Type: corev1.EventTypeWarning, Reason: "ProvisioningFailed", Message: "no capacity left"}
	for _, row := range []struct {
		events          []corev1.Event
		reason, message string
	}{
		{[]corev1.Event{conflicting}, "", ""},
		{[]corev1.Event{waits, conflicting}, ReasonNotBound, "waiting for first consumer"},
		{[]corev1.Event{full, conflicting}, "ProvisioningFailed", "no capacity left"},
	} {
		reason, message := Unbound(row.events)
		assert.Equal(t, reason, row.reason)
		assert.Equal(t, message, row.message)
	}
	always := func(*corev1.Event) bool { return true }
	assert.Assert(t, Decisive([]corev1.Event{conflicting}, always) == nil)
	assert.Equal(t, Decisive([]corev1.Event{full, conflicting}, always).Message, full.Message)
}

// Events replace a vague problem and a vague hint. They do not replace a problem with a cause.
func TestExplain(t *testing.T) {
	t.Parallel()
	pod := Culprit{Kind: "Pod", Name: "a", Reason: "ContainersNotReady"}
	late := Culprit{Kind: "Deployment", Name: "a", Reason: "ProgressDeadlineExceeded"}
	state := State{Problem: "late", Culprit: late, HintCulprit: pod}
	assert.DeepEqual(t, state.Unexplained(), pod)
	state.Explain(Culprit{Kind: "Pod", Name: "a", Reason: "Unhealthy"}, "pod a: Unhealthy: 503")
	assert.Equal(t, state.Problem, "pod a: Unhealthy: 503")
	assert.Equal(t, state.Unexplained(), Culprit{})

	assert.Equal(t, (&State{HintCulprit: late}).Unexplained(), Culprit{}, "its ReplicaSet has the events")
	assert.Equal(t, (&State{Settled: true, HintCulprit: pod}).Unexplained(), Culprit{})
	assert.Equal(t, (&State{Problem: "x", Culprit: Culprit{Reason: "ImagePullBackOff"}, HintCulprit: pod}).Unexplained(), Culprit{})
}
