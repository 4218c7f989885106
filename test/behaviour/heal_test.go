// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/test/harness"
)

// prompt is how soon a deleted or edited object is back.
const prompt = time.Second

// reactions is how long the operator took.
type reactions struct {
	n       int
	slowest time.Duration
	late    []string
}

func (r *reactions) add(what string, took time.Duration) {
	r.n++
	r.slowest = max(r.slowest, took)
	if took > prompt {
		r.late = append(r.late, fmt.Sprintf("%s took %s", what, took))
	}
}

// check allows for a machine that stumbles: an operator that is slow is so more than once in ten times.
func (r *reactions) check(t *testing.T) {
	t.Helper()
	t.Logf("%d reactions, the slowest after %s; late: %q", r.n, r.slowest, r.late)
	if len(r.late) > r.n/10 {
		t.Errorf("%d of %d reactions took more than %s", len(r.late), r.n, prompt)
	}
}

// Every object that is deleted comes back within a second, with what was in it, and nothing
// else is written.
func TestDeletedObjectsComeBack(t *testing.T) {
	e := alone(t)
	op := e.Start()
	name := e.CreateReady(sample())
	var healed reactions
	for _, object := range e.made() {
		id := harness.IDOf(object)
		mark, requests := e.Mark(), op.Mark()
		e.Must(api.Delete(e.Ctx, object.DeepCopyObject().(client.Object)))
		var back *harness.Change
		e.Until(id+" is back", func() error {
			if back = e.First(mark, id, func(c harness.Change) bool { return c.Event == watch.Added }); back == nil {
				return errors.New("it is missing")
			}
			return nil
		})
		if back.Object.GetUID() == object.GetUID() {
			t.Errorf("%s was not deleted", id)
		}
		gone := e.First(mark, id, func(c harness.Change) bool { return c.Event == watch.Deleted })
		healed.add(id, back.At.Sub(gone.At))
		if was, is := declared(object), declared(back.Object); was != is {
			t.Errorf("%s came back different:\n%s\n%s", id, was, is)
		}
		e.Ready(name)
		e.equal("written after "+id+" was deleted", harness.Objects(op.Since(requests, harness.Sent.WritesObject)), []string{id})
	}
	healed.check(t)
}

// edit is a change that somebody makes to an object.
type edit struct {
	name   string
	object client.Object
	of     string // name of the object
	change func(client.Object)
}

// One for each kind, and for each way in which an object leaves what the operator looks at. Which fields
// are put back is the concern of internal/apply.
var edits = []edit{
	{"image", &appsv1.Deployment{}, "ds-adapter", func(o client.Object) { pod(o.(*appsv1.Deployment)).Containers[0].Image = "registry.example/other:v1" }},
	{"managed-by label", &appsv1.Deployment{}, "es-adapter", func(o client.Object) { delete(o.GetLabels(), object.LabelManagedBy) }},
	{"instance label", &corev1.ConfigMap{}, "web", func(o client.Object) { delete(o.GetLabels(), object.LabelInstance) }},
	{"owner", &corev1.Service{}, "trd-adapter", func(o client.Object) { o.SetOwnerReferences(nil) }},
	{"digest", &appsv1.Deployment{}, "gateway-web", func(o client.Object) { delete(o.GetAnnotations(), object.AnnotationDigest) }},
	{"replicas", &appsv1.StatefulSet{}, "mysql-dataservice", func(o client.Object) { o.(*appsv1.StatefulSet).Spec.Replicas = ptr.To[int32](0) }},
	{"external name", &corev1.Service{}, "uuc", func(o client.Object) { o.(*corev1.Service).Spec.ExternalName = "example.org" }},
	{"added key", &corev1.ConfigMap{}, "mysql-dataservice-init", func(o client.Object) { o.(*corev1.ConfigMap).Data["99-more.sql"] = "drop database sdh_auth" }},
	{"removed key", &corev1.Secret{}, "mysql-dataservice-credentials", func(o client.Object) { delete(o.(*corev1.Secret).Data, "password") }},
	{"owner", &corev1.Secret{}, "dataservice-sample-platform", func(o client.Object) { o.SetOwnerReferences(nil) }},
}

// An edit of what the DataService declares is undone within a second, and nothing else is
// written.
func TestEditedObjectsArePutBack(t *testing.T) {
	e := alone(t)
	op := e.Start()
	name := e.CreateReady(sample())
	var healed reactions
	for _, edit := range edits {
		id := harness.KindOf(edit.object) + "/" + edit.of
		what := id + ": " + edit.name
		mark, requests := e.Mark(), op.Mark()
		var live client.Object
		var before string
		e.Must(retry.RetryOnConflict(retry.DefaultRetry, func() error { // its status changes at times
			live = get(e, edit.object, edit.of)
			before = declared(live)
			edit.change(live)
			return api.Update(e.Ctx, live, client.FieldOwner("somebody-else"))
		}))
		if declared(live) == before {
			t.Fatalf("%s changes nothing", what)
		}
		edited := live.GetResourceVersion()
		var seen, back *harness.Change
		if err := e.Within(5*time.Second, func() error {
			seen = e.First(mark, id, func(c harness.Change) bool { return c.Object.GetResourceVersion() == edited })
			if seen == nil {
				return errors.New("the edit was not seen")
			}
			back = e.First(mark, id, func(c harness.Change) bool {
				return !c.At.Before(seen.At) && c.Object.GetResourceVersion() != edited && declared(c.Object) == before
			})
			if back == nil {
				return fmt.Errorf("it is not as before, and the DataService says %q:\n%s\n%s",
					e.DataService(name).Status.Message, before, declared(e.Object(id)))
			}
			return nil
		}); err != nil {
			t.Errorf("%s: %v", what, err)
			e.Must(api.Delete(e.Ctx, live)) // so that the next edits have a fair start
			e.Ready(name)
			continue
		}
		healed.add(what, back.At.Sub(seen.At))
		e.Ready(name)
		e.equal("written after the edit "+what, harness.Objects(op.Since(requests, harness.Sent.WritesObject)), []string{id})
	}
	healed.check(t)
}

func pod(d *appsv1.Deployment) *corev1.PodSpec { return &d.Spec.Template.Spec }

func variable(d *appsv1.Deployment, name string) *corev1.EnvVar {
	env := pod(d).Containers[0].Env
	return &env[slices.IndexFunc(env, func(v corev1.EnvVar) bool { return v.Name == name })]
}

// declared is an object without its identity and what controllers add.
func declared(object client.Object) string {
	if object == nil {
		return "(missing)"
	}
	object = object.DeepCopyObject().(client.Object)
	annotations := object.GetAnnotations()
	delete(annotations, "deployment.kubernetes.io/revision")
	parts := fields{"labels": object.GetLabels(), "owners": owners(object)}
	if len(annotations) > 0 {
		parts["annotations"] = annotations
	}
	switch o := object.(type) {
	case *appsv1.Deployment:
		parts["spec"] = o.Spec
	case *appsv1.StatefulSet:
		parts["spec"] = o.Spec
	case *appsv1.DaemonSet:
		parts["spec"] = o.Spec
	case *corev1.Service:
		o.Spec.ClusterIP, o.Spec.ClusterIPs = "", nil
		parts["spec"] = o.Spec
	case *corev1.ConfigMap:
		parts["data"], parts["binary"] = o.Data, o.BinaryData
	case *corev1.Secret:
		parts["data"] = o.Data
	}
	text, err := json.Marshal(parts)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func owners(object metav1.Object) []string {
	var found []string
	for _, ref := range object.GetOwnerReferences() {
		found = append(found, fmt.Sprintf("%s %s %s %v", ref.Kind, ref.Name, ref.UID, ptr.Deref(ref.Controller, false)))
	}
	return found
}
