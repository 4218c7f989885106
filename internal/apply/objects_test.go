// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
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
	"d3os.com/d3os-operator/internal/kinds/dataservice/preview"
	"d3os.com/d3os-operator/internal/object"
)

func newNamespace(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}
	assert.NilError(t, user.Create(t.Context(), ns))
	return ns.Name
}

// platform is a DataService of the given spec; nothing of it is in the cluster yet.
func platform(t *testing.T, namespace, spec string) *dsv1.DataService {
	t.Helper()
	text := "apiVersion: d3os-product.com.d3os/v1\nkind: DataService\nmetadata: {name: platform}\nspec: " + spec
	ds, err := preview.Parse([]byte(text))
	assert.NilError(t, err)
	ds.Namespace, ds.UID = namespace, uuid.NewUUID()
	return ds
}

func ownerOf(ds *dsv1.DataService) object.Owner {
	return object.Owner{GroupVersionKind: dsv1.GroupVersion.WithKind(dsv1.Kind), Namespace: ds.Namespace, Name: ds.Name, UID: ds.UID}
}

func objectsOf(t *testing.T, ds *dsv1.DataService) []*unstructured.Unstructured {
	t.Helper()
	objects, err := preview.Objects(ds, kubeVersion)
	assert.NilError(t, err)
	return objects
}

// pick returns the object of that kind and name, such as Deployment/proxy.
func pick(t *testing.T, objects []*unstructured.Unstructured, id string) *unstructured.Unstructured {
	t.Helper()
	for _, obj := range objects {
		if obj.GetKind()+"/"+obj.GetName() == id {
			return obj
		}
	}
	t.Fatalf("there is no %s", id)
	return nil
}

// running applies one object of a platform in a namespace of its own.
func running(t *testing.T, spec, id string) (*Applier, *dsv1.DataService, *unstructured.Unstructured) {
	t.Helper()
	ds := platform(t, newNamespace(t), spec)
	planned := pick(t, objectsOf(t, ds), id)
	a := New(operator, apiReader, ownTypes, ownVersion)
	mustApply(t, a, ownerOf(ds), planned)
	return a, ds, planned
}

func mustApply(t *testing.T, a *Applier, owner object.Owner, planned *unstructured.Unstructured) Result {
	t.Helper()
	foreseen := foresee(t, a, owner, planned)
	result, err := applied(t, a, owner, planned)
	assert.NilError(t, err)
	foreseen(result)
	return result
}

// atRest: applying an object once more changes nothing and asks the API server nothing.
func atRest(t *testing.T, a *Applier, ds *dsv1.DataService, planned *unstructured.Unstructured) {
	t.Helper()
	traffic.take(ds.Namespace)
	assert.Equal(t, mustApply(t, a, ownerOf(ds), planned).Action, Unchanged)
	assert.Equal(t, len(traffic.take(ds.Namespace)), 0)
}

// applied is Apply in the place of what the cache shows.
func applied(t *testing.T, a *Applier, owner object.Owner, planned *unstructured.Unstructured) (Result, error) {
	t.Helper()
	live, err := a.Get(t.Context(), planned)
	assert.NilError(t, err)
	return a.Apply(t.Context(), owner, planned, live)
}

// fetch reads an object as it is in the API server.
func fetch(t *testing.T, like *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	obj := object.Empty(like.GroupVersionKind())
	assert.NilError(t, user.Get(t.Context(), client.ObjectKeyFromObject(like), obj))
	return obj
}

// edit lets somebody else change a live object and waits until the operator's cache shows it.
func edit(t *testing.T, like *unstructured.Unstructured, change func(obj map[string]any)) *unstructured.Unstructured {
	t.Helper()
	obj := fetch(t, like)
	change(obj.Object)
	assert.NilError(t, user.Update(t.Context(), obj))
	await(t, obj)
	return obj
}

// create lets somebody else create an object and waits until the operator's cache shows it.
func create(t *testing.T, obj *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	created := obj.DeepCopy()
	assert.NilError(t, user.Create(t.Context(), created, client.FieldOwner("somebody")))
	await(t, created)
	return created
}

// await returns when the operator's cache shows an object as somebody else left it: not at
// all, when it lacks the operator's label.
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
	}, poll.WithDelay(2*time.Millisecond), poll.WithTimeout(20*time.Second))
}

// awaitGone returns when neither the API server nor the operator's cache has an object.
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
	}, poll.WithDelay(2*time.Millisecond), poll.WithTimeout(20*time.Second))
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

// container returns the first container of a workload, to be changed in place.
func container(obj map[string]any) map[string]any {
	return items(obj, "spec", "template", "spec", "containers")[0]
}
