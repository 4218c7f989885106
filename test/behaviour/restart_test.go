// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// With restartOnChange, a changed Secret of a user restarts the pods that use it, and no others. An event names the
// Secret. Setting restartOnChange restarts nothing, and neither does a new Secret with the same content. A new operator
// reads all Secrets at its start, so the test restarts the operator instead of waiting a minute.
func TestRestartOnChange(t *testing.T) {
	e := parallel(t)
	op := e.Start()
	account := func(value string) {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "account"}, StringData: map[string]string{"PASSWORD": value}}
		e.Must(api.Create(e.Ctx, secret))
	}
	remove := func() {
		e.Must(api.Delete(e.Ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "account"}}))
	}
	account("a")
	uses := fields{"envFrom": []any{fields{"secretRef": fields{"name": "account"}}, fields{"configMapRef": fields{"name": "flags", "optional": true}}}}
	name := e.CreateReady(small(fields{"proxy": uses}))
	before := e.podsOf()
	e.ChangeReady(name, fields{"rollout": fields{"restartOnChange": true}})
	e.Rests(op, time.Second)
	e.samePods(before, "auth", "proxy", "web")

	restart := func() { op.Stop(); op = e.Start() }
	op.Stop()
	remove()
	account("a")
	op = e.Start()
	e.passes(name)
	e.samePods(before, "auth", "proxy", "web")
	op.Stop()
	remove()
	op = e.Start()
	e.passes(name)
	e.samePods(before, "auth", "proxy", "web")

	account("b")
	restart()
	e.restarted(name, before, "Secret account")
	e.samePods(before, "auth", "web")
	e.Rests(op, time.Second)

	before = e.podsOf()
	e.Must(api.Create(e.Ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "flags"}, Data: map[string]string{"A": "b"}}))
	restart()
	e.restarted(name, before, "ConfigMap flags")

	before = e.podsOf()
	e.ChangeReady(name, fields{"rollout": nil})
	e.passes(name)
	e.samePods(before, "auth", "proxy", "web")
}

// A rollout that another client starts, such as kubectl rollout restart, is an update: the phase is Updating, then Running, and no Warning is
// recorded. Scheduling gates hold the rollout until the status has the phase Updating.
func TestRestartByKubectl(t *testing.T) {
	e := parallel(t)
	op := e.Start()
	const name, annotation = "restarted", "kubectl.kubernetes.io/restartedAt"
	e.CreateReady(oneService(name, 2))
	mark, requests := e.Mark(), op.Mark()
	restart := `{"spec":{"template":{"metadata":{"annotations":{"` + annotation + `":"2026-01-02T15:04:05Z"}},"spec":{"schedulingGates":[{"name":"example.com/hold"}]}}}}`
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name}}
	e.Must(api.Patch(e.Ctx, deployment, client.RawPatch(types.StrategicMergePatchType, []byte(restart)), client.FieldOwner("kubectl-rollout")))
	e.Until("the status shows the update", func() error { return e.component(name, name, dsv1.PhaseUpdating) })

	ungate := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"schedulingGates":null}}`))
	e.Until("the new pods run", func() error {
		for _, pod := range e.pods(name) {
			if len(pod.Spec.SchedulingGates) > 0 {
				return errors.Join(errors.New(pod.Name+" is held"), api.Patch(e.Ctx, pod.DeepCopy(), ungate))
			}
			if pod.Annotations[annotation] == "" || !stage.IsReady(pod) {
				return errors.New(pod.Name + " is old, or not ready")
			}
		}
		return stage.Unless(len(e.pods(name)) == 2, "there are other pods")
	})
	e.Until("the status shows the end of the update", func() error { return e.component(name, name, dsv1.PhaseRunning) })
	e.passes(name)

	phases := []dsv1.Phase{dsv1.PhaseRunning}
	for _, c := range e.Since(mark) {
		if ds, is := c.Object.(*dsv1.DataService); is {
			phases = append(phases, ds.Status.Components[0].Phase)
		}
	}
	if !slices.Equal(slices.Compact(phases), []dsv1.Phase{dsv1.PhaseRunning, dsv1.PhaseUpdating, dsv1.PhaseRunning}) {
		t.Errorf("the component had the phases %v", phases)
	}
	for _, event := range e.Events() {
		if event.Type == corev1.EventTypeWarning && event.Regarding.Kind == dsv1.Kind {
			t.Errorf("a Warning: %s %s", event.Reason, event.Note)
		}
	}
	e.equal("written", harness.Objects(op.Since(requests, harness.Sent.WritesObject)), nil)
}

// podsOf returns the UIDs of the pods of all components.
func (e *env) podsOf() map[string][]types.UID {
	found := map[string][]types.UID{}
	for _, component := range []string{"auth", "proxy", "web"} {
		for _, pod := range e.pods(component) {
			found[component] = append(found[component], pod.UID)
		}
	}
	return found
}

// samePods expects components to have the same pods as before.
func (e *env) samePods(before map[string][]types.UID, components ...string) {
	e.Helper()
	now := e.podsOf()
	for _, component := range components {
		if !slices.Equal(now[component], before[component]) {
			e.Errorf("%s has other pods", component)
		}
	}
}

// restarted waits until proxy has new pods and is ready, and until an event names the cause.
func (e *env) restarted(name string, before map[string][]types.UID, cause string) {
	e.Helper()
	e.Until("proxy restarts", func() error {
		for _, pod := range e.pods("proxy") {
			if slices.Contains(before["proxy"], pod.UID) || !stage.IsReady(pod) {
				return fmt.Errorf("pod %s runs", pod.Name)
			}
		}
		return stage.Unless(len(e.pods("proxy")) > 0, "it has no pod")
	})
	e.Ready(name)
	note := "updated Deployment proxy: restarts because of a change of " + cause
	e.Until("an event names it", func() error {
		return stage.Unless(slices.ContainsFunc(harness.Every[*eventsv1.Event](e.Journal), func(event *eventsv1.Event) bool {
			return event.Reason == "ComponentUpdated" && event.Note == note
		}), "no event "+note)
	})
}
