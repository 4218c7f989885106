// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"d3os.com/d3os-operator/config/crd"
	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
)

// A part that is not ready for an unknown cause gets the cause from the events about its pod: after 10 seconds, and then at most once a
// minute. Events before the pod's present state do not count. A part that is ready again needs no events.
func TestCausesFromEvents(t *testing.T) {
	t.Parallel()
	owner := object.Owner{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Book"), Namespace: "ns", Name: "platform", UID: "u"}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(after time.Duration) metav1.Time { return metav1.NewTime(now.Add(after)) }
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "auth-1", UID: "p"}, Status: corev1.PodStatus{
		Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: at(0)}},
		ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(0)}}}},
	}}
	var events []corev1.Event
	var failure error
	lists := 0
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme.Scheme).Build(), interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			switch list := list.(type) {
			case *corev1.PodList:
				list.Items = []corev1.Pod{pod}
			case *corev1.EventList:
				lists++
				list.Items = events
				return failure
			}
			return nil
		},
	})
	types, err := apply.NewTypes(crd.Files)
	assert.NilError(t, err)
	engine := NewEngine(c, apply.New(c, c, types, "1.2.3"))
	pass := func(after time.Duration, kind string) PartSeen {
		t.Helper()
		seen := PlanSeen{Parts: []PartSeen{{Name: "auth", Kind: kind}, {Name: "web", Health: health.State{Settled: true}}}}
		seen.Parts[0].Health = health.State{Hint: "pod auth-1: not ready", HintCulprit: health.Culprit{Kind: "Pod", Name: "auth-1", Reason: "ContainersNotReady"}}
		assert.NilError(t, engine.explain(t.Context(), owner, &seen, now.Add(after)))
		assert.Equal(t, seen.Parts[1].LookAgain, time.Duration(0))
		return seen.Parts[0]
	}
	about := func(reason, message string, after time.Duration) corev1.Event {
		return corev1.Event{
			Type: corev1.EventTypeWarning, Reason: reason, Message: message, LastTimestamp: at(after),
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "auth-1", UID: "p"},
		}
	}
	part := pass(0, "Deployment")
	assert.Equal(t, part.LookAgain, explainAfter)
	assert.Equal(t, lists, 0, "a pod that starts is not ready for some seconds")

	events = []corev1.Event{about("FailedMount", "an earlier fault", -time.Minute), about("Unhealthy", "Readiness probe failed: 503", 5*time.Second)}
	assert.Equal(t, pass(explainAfter, "Deployment").Health.Hint, "pod auth-1: not ready", "the container starts")
	assert.Equal(t, lists, 1)
	part = pass(70*time.Second, "Deployment")
	assert.Equal(t, part.Health.Hint, "pod auth-1: Unhealthy: Readiness probe failed: 503")
	assert.Assert(t, part.Health.Explained)
	assert.Equal(t, part.LookAgain, explainAgain)
	failure = errors.New("events are forbidden")
	for _, after := range []time.Duration{80 * time.Second, 130 * time.Second} {
		assert.Equal(t, pass(after, "Deployment").Health.Hint, "pod auth-1: Unhealthy: Readiness probe failed: 503")
	}
	assert.Equal(t, lists, 3)
	events, failure = nil, nil
	assert.Equal(t, pass(190*time.Second, "Deployment").Health.Hint, "pod auth-1: not ready")
	assert.Equal(t, lists, 4)

	assert.NilError(t, engine.explain(t.Context(), owner, &PlanSeen{Parts: []PartSeen{{Name: "auth", Health: health.State{Settled: true}}}}, now))
	events = []corev1.Event{about("Unhealthy", "Readiness probe failed: 503", 5*time.Second)}
	pass(0, thirdParty)
	assert.Equal(t, pass(explainAfter, thirdParty).Health.Hint, "pod auth-1: Unhealthy: Readiness probe failed: 503", "a check of a third party does not start slowly")
}
