// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// A platform that hibernates has no pods, and keeps its data and addresses, also through changes of the spec and the loss of an operator. Services
// stop before middleware, and start after it with their former number of pods.
func TestHibernate(t *testing.T) {
	e := parallel(t)
	op := e.Start()
	name := e.CreateReady(small(fields{
		"web":                fields{"autoscaling": fields{"min": 1, "max": 5}},
		"additionalServices": []any{fields{"name": "each", "image": "registry.example/each:v1", "port": 8080, "kind": "DaemonSet"}},
		"cronJobs":           []any{fields{"name": "clean-up", "schedule": "30 2 1 1 *", "image": "registry.example/clean-up:v1"}},
	}))
	web := &appsv1.Deployment{}
	web.Namespace, web.Name = e.Namespace, "web"
	e.Must(api.Patch(e.Ctx, web, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":3}}`)), client.FieldOwner("an-autoscaler")))
	e.Until("web has three pods", func() error { return stage.Unless(len(e.pods("web")) == 3, "it has not") })
	kept := e.addresses()

	e.Change(name, fields{"hibernate": true})
	e.hibernated(name)
	e.equal("data and addresses", harness.IDs(e.changedSince(kept)), nil)
	e.stoppedBefore("mysql-dataservice", "auth", "proxy", "web", "each")
	if cron := harness.Lookup[*batchv1.CronJob](e.Journal, "clean-up"); !*cron.Spec.Suspend {
		t.Error("the cron job is not suspended")
	}
	e.Until("the event Hibernated is recorded once", func() error { // the operator may record the event after it has written the status
		return stage.Unless(e.eventCount("Hibernated") == 1, strconv.Itoa(e.eventCount("Hibernated"))+" times")
	})
	before := versions(e.made()...)
	op.Stop()
	e.Start()
	e.passes(name)
	e.equal("changed by the next operator", e.touchedOrNew(before), nil)
	e.hibernated(name)

	e.Change(name, fields{"auth": fields{"image": "registry.example/auth:v2"}})
	e.Must(api.Delete(e.Ctx, harness.Lookup[*corev1.Service](e.Journal, "proxy").DeepCopy()))
	e.Until("the change is planned, and the Service is back", func() error {
		proxy, auth := harness.Lookup[*corev1.Service](e.Journal, "proxy"), harness.Lookup[*appsv1.Deployment](e.Journal, "auth")
		return stage.Unless(proxy != nil && auth.Spec.Template.Spec.Containers[0].Image == "registry.example/auth:v2", "it is not")
	})
	e.hibernated(name)

	mark := len(e.Since(0))
	e.ChangeReady(name, fields{"hibernate": nil})
	e.Until("auth runs its new image, and web has as many pods as before", func() error {
		return stage.Unless(e.runs("auth", "registry.example/auth:v2") && len(e.pods("web")) == 3 && len(e.pods("each")) > 0, "not yet")
	})
	e.startedAfter(mark, "mysql-dataservice", "auth", "proxy", "web")
	delete(kept, "Service/proxy")
	e.equal("data and addresses", harness.IDs(e.changedSince(kept)), nil)
	if cron := harness.Lookup[*batchv1.CronJob](e.Journal, "clean-up"); *cron.Spec.Suspend {
		t.Error("the cron job is still suspended")
	}

	e.Change(name, fields{"hibernate": true})
	e.hibernated(name)
	e.remove(name)
	claim := harness.Lookup[*corev1.PersistentVolumeClaim](e.Journal, "data-mysql-dataservice-0")
	if claim == nil || claim.UID != kept["PersistentVolumeClaim/data-mysql-dataservice-0"] {
		t.Error("the claim was deleted with the hibernated platform")
	}
	e.CreateReady(small())
}

// A platform that is created hibernated has no pod until it is woken.
func TestBornHibernated(t *testing.T) {
	e := parallel(t)
	e.Start()
	name := e.Create(small(fields{"hibernate": true}))
	e.hibernated(name)
	if slices.ContainsFunc(e.InOrder(0), func(c harness.Change) bool { return strings.HasPrefix(c.ID, "Pod/") }) {
		t.Error("the hibernated platform had pods")
	}
	e.ChangeReady(name, fields{"hibernate": false})
}

// hibernated waits until a DataService is hibernated in its latest generation. It then fails the test if a pod is left.
func (e *env) hibernated(name string) {
	e.Helper()
	generation := get(e, &dsv1.DataService{}, name).Generation
	e.Until("hibernated", func() error {
		ds := e.DataService(name)
		if ds == nil {
			return errors.New("it is not seen yet")
		}
		return stage.Unless(ds.Status.ObservedGeneration == generation && ds.Status.Phase == dsv1.PhaseHibernated, string(ds.Status.Phase)+": "+ds.Status.Message)
	})
	for _, pod := range harness.Every[*corev1.Pod](e.Journal) {
		e.Errorf("Pod %s is still there", pod.Name)
	}
}

// addresses returns the UIDs of the objects that a hibernation must not replace.
func (e *env) addresses() map[string]types.UID {
	found := map[string]types.UID{}
	for _, o := range e.All() {
		switch o.(type) {
		case *corev1.Service, *corev1.Secret, *corev1.PersistentVolumeClaim, *corev1.ConfigMap, *autoscalingv2.HorizontalPodAutoscaler, *appsv1.Deployment, *appsv1.StatefulSet:
			found[harness.IDOf(o)] = o.GetUID()
		}
	}
	return found
}

// changedSince returns the objects of before that were replaced. A deleted object fails the test.
func (e *env) changedSince(before map[string]types.UID) (changed []client.Object) {
	e.Helper()
	left := len(before)
	for _, o := range e.All() {
		uid, was := before[harness.IDOf(o)]
		if !was {
			continue
		}
		left--
		if uid != o.GetUID() {
			changed = append(changed, o)
		}
	}
	if left > 0 {
		e.Errorf("%d objects were deleted", left)
	}
	return changed
}

// stoppedBefore expects that the last pod of each component was deleted before a StatefulSet was scaled to 0.
func (e *env) stoppedBefore(set string, components ...string) {
	e.Helper()
	changes := e.InOrder(0)
	stopped := slices.IndexFunc(changes, func(c harness.Change) bool {
		o, is := c.Object.(*appsv1.StatefulSet)
		return is && o.Name == set && *o.Spec.Replicas == 0
	})
	if stopped < 0 {
		e.Fatalf("StatefulSet %s was never stopped", set)
	}
	for _, c := range changes[stopped:] {
		if pod, is := c.Object.(*corev1.Pod); is && slices.Contains(components, pod.Labels["app.kubernetes.io/name"]) {
			e.Errorf("Pod %s was still there when %s was stopped", pod.Name, set)
		}
	}
}

// startedAfter expects that, after a mark, no pod of the components was created before a StatefulSet was ready.
func (e *env) startedAfter(mark int, set string, components ...string) {
	e.Helper()
	for _, c := range e.InOrder(mark) {
		if o, is := c.Object.(*appsv1.StatefulSet); is && o.Name == set && o.Status.ReadyReplicas > 0 {
			return
		}
		if pod, is := c.Object.(*corev1.Pod); is && c.Event == watch.Added && slices.Contains(components, pod.Labels["app.kubernetes.io/name"]) {
			e.Errorf("Pod %s was started before %s was ready", pod.Name, set)
		}
	}
}
