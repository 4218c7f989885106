// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"net/http"
	"path"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/platform/plan"
)

func newNamespace(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}
	assert.NilError(t, user.Create(t.Context(), ns))
	return ns.Name
}

// platform is a DataService with the operator that applies its objects.
type platform struct {
	*testing.T
	*Applier
	ds *dsv1.DataService
}

// start returns a platform with a spec in a new namespace, without any objects.
func start(t *testing.T, spec string) *platform {
	t.Helper()
	p := &platform{T: t, ds: &dsv1.DataService{ObjectMeta: metav1.ObjectMeta{Namespace: newNamespace(t), UID: uuid.NewUUID()}}}
	p.declare(spec)
	p.restart()
	return p
}

// declare gives the DataService another spec.
func (p *platform) declare(spec string) {
	p.Helper()
	p.declareAll([]byte("apiVersion: d3os-product.com.d3os/v1\nkind: DataService\nmetadata: {name: platform}\nspec: " + spec))
}

// declareAll gives the DataService another name and another spec.
func (p *platform) declareAll(resource []byte) {
	p.Helper()
	ds, err := plan.Parse(resource)
	assert.NilError(p, err)
	ds.Namespace, ds.UID = p.ds.Namespace, p.ds.UID
	p.ds = ds
}

// restart replaces the operator by an operator with empty caches.
func (p *platform) restart() { p.Applier = newApplier(operator) }

// newApplier returns the Applier of an operator that watches all kinds.
func newApplier(c client.Client) *Applier {
	a := New(c, apiReader, ownTypes, ownVersion)
	for _, gvk := range object.Optional {
		a.AddWatched(gvk)
	}
	return a
}

// by returns the same platform with another operator.
func (p *platform) by(a *Applier) *platform { return &platform{p.T, a, p.ds} }

func (p *platform) owner() object.Owner { return ownerOf(p.ds) }

func ownerOf(ds *dsv1.DataService) object.Owner {
	return object.Owner{GroupVersionKind: dsv1.GroupVersion.WithKind(dsv1.Kind), Namespace: ds.Namespace, Name: ds.Name, UID: ds.UID}
}

func (p *platform) objects() []*unstructured.Unstructured {
	p.Helper()
	objects, err := plan.Objects(p.ds, kubeVersion)
	assert.NilError(p, err)
	return objects
}

// planned returns the planned object with a kind and name, such as Deployment/proxy.
func (p *platform) planned(id string) *unstructured.Unstructured {
	p.Helper()
	for _, obj := range p.objects() {
		if obj.GetKind()+"/"+obj.GetName() == id {
			return obj
		}
	}
	p.Fatalf("there is no %s", id)
	return nil
}

// running returns a platform with one applied object.
func running(t *testing.T, spec, id string) (*platform, *unstructured.Unstructured) {
	t.Helper()
	p := start(t, spec)
	planned := p.planned(id)
	assert.Equal(t, p.apply(planned).Action, Created)
	traffic.take(p.ds.Namespace)
	return p, planned
}

func (p *platform) apply(planned *unstructured.Unstructured) Result {
	p.Helper()
	result, err := p.try(planned)
	assert.NilError(p, err)
	return result
}

// try applies a planned object to the cached live object. Apply must not change the planned object.
func (p *platform) try(planned *unstructured.Unstructured) (Result, error) {
	p.Helper()
	before, foreseen := planned.DeepCopy(), p.foresee(planned)
	live, err := p.Get(p.Context(), planned)
	assert.NilError(p, err)
	result, err := p.Apply(p.Context(), p.owner(), planned, live)
	foreseen(result, err)
	assert.DeepEqual(p, planned, before)
	return result, err
}

// atRest checks that another apply of an object changes nothing and sends no request.
func (p *platform) atRest(planned *unstructured.Unstructured) {
	p.Helper()
	traffic.take(p.ds.Namespace)
	assert.Equal(p, p.apply(planned).Action, Unchanged)
	assert.Equal(p, len(traffic.take(p.ds.Namespace)), 0)
}

// writes returns the write requests of the operator since the last call.
func (p *platform) writes() []string {
	found := []string{}
	for _, r := range traffic.take(p.ds.Namespace) {
		if r.method != http.MethodGet {
			found = append(found, r.method+" "+path.Base(path.Dir(r.path))+"/"+path.Base(r.path))
		}
	}
	return found
}

// fetch reads an object from the API server.
func fetch(t *testing.T, like *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	obj := object.Empty(like.GroupVersionKind())
	assert.NilError(t, user.Get(t.Context(), client.ObjectKeyFromObject(like), obj))
	return obj
}

// edit changes a live object as a user, and waits until the operator's cache shows it.
func edit(t *testing.T, like *unstructured.Unstructured, change change) *unstructured.Unstructured {
	t.Helper()
	obj := fetch(t, like)
	change(t, obj.Object)
	assert.NilError(t, user.Update(t.Context(), obj))
	await(t, obj)
	return obj
}

// create creates an object as a user, and waits until the operator's cache shows it.
func create(t *testing.T, obj *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	created := obj.DeepCopy()
	assert.NilError(t, user.Create(t.Context(), created, client.FieldOwner("somebody")))
	await(t, created)
	return created
}

// await waits until the operator's cache shows this version of an object. If the object lacks the operator's label, it waits until the
// cache does not show the object.
func await(t *testing.T, obj *unstructured.Unstructured) {
	t.Helper()
	managed := obj.GetLabels()[object.LabelManagedBy] == object.ManagedBy
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		cached, err := get(t.Context(), operator, obj)
		switch {
		case err != nil:
			return poll.Error(err)
		case managed && cached != nil && cached.GetResourceVersion() == obj.GetResourceVersion(), !managed && cached == nil:
			return poll.Success()
		}
		return poll.Continue("the cache does not show %s yet", describe(obj))
	}, poll.WithDelay(2*time.Millisecond), poll.WithTimeout(5*time.Minute))
}

// awaitGone waits until neither the API server nor the operator's cache has an object.
func awaitGone(t *testing.T, obj *unstructured.Unstructured) {
	t.Helper()
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		for _, reader := range []client.Reader{user, operator} {
			found, err := get(t.Context(), reader, obj)
			if err != nil {
				return poll.Error(err)
			}
			if found != nil {
				return poll.Continue("%s is still there", describe(obj))
			}
		}
		return poll.Success()
	}, poll.WithDelay(2*time.Millisecond), poll.WithTimeout(5*time.Minute))
}

// change edits an object as a user does.
type change func(t *testing.T, obj map[string]any)

func setting(value any, fields ...string) change {
	return func(t *testing.T, obj map[string]any) {
		t.Helper()
		set(t, obj, value, fields...)
	}
}

func removing(fields ...string) change {
	return func(_ *testing.T, obj map[string]any) { unstructured.RemoveNestedField(obj, fields...) }
}

// adding returns a change that appends an item to a list.
func adding(item map[string]any, fields ...string) change {
	return func(t *testing.T, obj map[string]any) {
		t.Helper()
		list, _, err := unstructured.NestedSlice(obj, fields...)
		assert.NilError(t, err)
		set(t, obj, append(list, item), fields...)
	}
}

// inContainer returns a change of the first container of a workload.
func inContainer(do change) change {
	return func(t *testing.T, obj map[string]any) {
		t.Helper()
		do(t, container(obj))
	}
}

func set(t *testing.T, obj map[string]any, value any, fields ...string) {
	t.Helper()
	assert.NilError(t, unstructured.SetNestedField(obj, value, fields...))
}

func field(t *testing.T, obj *unstructured.Unstructured, fields ...string) any {
	t.Helper()
	value, _, err := unstructured.NestedFieldCopy(obj.Object, fields...)
	assert.NilError(t, err)
	return value
}

// container returns the first container of a workload. Changes of the result change the workload.
func container(obj map[string]any) map[string]any {
	return items(obj, "spec", "template", "spec", "containers")[0]
}
