// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"errors"
	"slices"
	"testing"

	"gotest.tools/v3/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
)

// oneOfEach is an object of every kind in object.Kinds.
func oneOfEach(t *testing.T, namespace string) (*dsv1.DataService, map[string]*unstructured.Unstructured) {
	t.Helper()
	ds := platform(t, namespace, `{proxy: {replica: 2, autoscaling: {max: 3}}, mysql: {kind: Deployment, storage: {retention: Delete}}, eureka: {kind: StatefulSet, replica: 2},
		uuc: {kind: DaemonSet, image: x, port: 80}, web: {ingress: {host: a.example.com}}, networkPolicy: {enabled: true},
		cronJobs: [{name: job, schedule: '@daily', image: x}]}`)
	found := map[string]*unstructured.Unstructured{}
	for _, obj := range objectsOf(t, ds) {
		found[obj.GetKind()] = obj
	}
	for _, gvk := range object.Kinds {
		assert.Assert(t, found[gvk.Kind] != nil, "no %s is rendered", gvk.Kind)
	}
	return ds, found
}

// An object of that name that belongs to somebody else is left exactly as it is.
func TestForeignObjectsAreConflicts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		disguise func(obj *unstructured.Unstructured)
		holder   string
	}{
		"no mark at all": {func(o *unstructured.Unstructured) {
			o.SetLabels(nil)
			o.SetAnnotations(nil)
			o.SetOwnerReferences(nil)
		}, "somebody else"},
		"made by Helm": {func(o *unstructured.Unstructured) {
			o.SetLabels(map[string]string{object.LabelManagedBy: "Helm", object.LabelInstance: "platform"})
			o.SetAnnotations(nil)
			o.SetOwnerReferences(nil)
		}, "Helm"},
		"of another DataService": {func(o *unstructured.Unstructured) {
			o.SetOwnerReferences([]metav1.OwnerReference{{
				APIVersion: "d3os-product.com.d3os/v1", Kind: "DataService", Name: "other", UID: "other", Controller: ptr.To(true),
			}})
		}, "DataService other"},
		"of an earlier DataService of the same name": {func(o *unstructured.Unstructured) {
			o.SetOwnerReferences([]metav1.OwnerReference{{
				APIVersion: "d3os-product.com.d3os/v1", Kind: "DataService", Name: "platform", UID: "earlier", Controller: ptr.To(true),
			}})
		}, "DataService platform"},
		"left behind by another DataService": {func(o *unstructured.Unstructured) {
			labels := o.GetLabels()
			labels[object.LabelInstance] = "other"
			o.SetLabels(labels)
			o.SetOwnerReferences(nil)
		}, "DataService other"},
	} {
		for _, gvk := range object.Kinds {
			t.Run(name+"/"+gvk.Kind, func(t *testing.T) {
				t.Parallel()
				namespace := newNamespace(t)
				ds, objects := oneOfEach(t, namespace)
				planned := objects[gvk.Kind]
				theirs := planned.DeepCopy()
				test.disguise(theirs)
				theirs = create(t, theirs)

				a := New(operator, apiReader, ownTypes, ownVersion)
				_, err := applied(t, a, ownerOf(ds), planned)
				assert.DeepEqual(t, err, &ConflictError{Kind: gvk.Kind, Name: planned.GetName(), Holder: test.holder})
				assert.ErrorContains(t, err, gvk.Kind+" "+planned.GetName()+" exists and belongs to "+test.holder)
				assert.DeepEqual(t, fetch(t, planned), theirs)
			})
		}
	}
}

// An object that the cache does not show yet is not written over, whoever made it.
func TestCreateIsNeverDoneOverAnExistingObject(t *testing.T) {
	t.Parallel()
	for _, gvk := range object.Kinds {
		t.Run(gvk.Kind, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			ds, objects := oneOfEach(t, namespace)
			planned := objects[gvk.Kind]
			a := New(operator, apiReader, ownTypes, ownVersion)
			mustApply(t, a, ownerOf(ds), planned)
			edit(t, planned, func(o map[string]any) {
				unstructured.RemoveNestedField(o, "metadata", "labels", object.LabelManagedBy)
			})
			hidden := fetch(t, planned)
			traffic.take(namespace)

			// The request that creates changes nothing by itself: that is the API server's doing.
			obj := planned.DeepCopy()
			obj.SetResourceVersion("1")
			err := a.apply(t.Context(), obj)
			assert.Assert(t, apierrors.IsConflict(err), "%v", err)
			assert.DeepEqual(t, fetch(t, planned), hidden)
			traffic.take(namespace)

			// It is the owner's all the same, and comes back as it was.
			assert.Equal(t, mustApply(t, a, ownerOf(ds), planned).Action, Corrected)
			assert.Equal(t, fetch(t, planned).GetUID(), hidden.GetUID())
			await(t, fetch(t, planned))
			atRest(t, a, ds, planned)
		})
	}
}

// Values of a Secret that the cache does not show are not written over: they may have been generated.
func TestUnseenValuesStay(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	ds, objects := oneOfEach(t, namespace)
	planned := objects["Secret"]
	a := New(operator, apiReader, ownTypes, ownVersion)
	mustApply(t, a, ownerOf(ds), planned)
	edit(t, planned, func(o map[string]any) {
		unstructured.RemoveNestedField(o, "metadata", "labels", object.LabelManagedBy)
	})
	before := fetch(t, planned)
	other := planned.DeepCopy()
	data, _, err := unstructured.NestedStringMap(other.Object, "data")
	assert.NilError(t, err)
	for key := range data {
		data[key] = "b3RoZXI="
	}
	assert.NilError(t, unstructured.SetNestedStringMap(other.Object, data, "data"))
	_, err = applied(t, a, ownerOf(ds), other)
	var unseen *UnseenError
	assert.Assert(t, errors.As(err, &unseen), "%v", err)
	assert.DeepEqual(t, unseen.Live.Object["data"], before.Object["data"])
	assert.DeepEqual(t, fetch(t, planned), before)
	_, err = a.Apply(t.Context(), ownerOf(ds), other, unseen.Live)
	assert.NilError(t, err)
	assert.DeepEqual(t, fetch(t, planned).Object["data"], other.Object["data"])
}

// Retained data and the credentials that open it are taken up by a DataService of the same name.
func TestRetainedObjectsAreTakenUp(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"Secret/mysql-dataservice-credentials", "PersistentVolumeClaim/data-mysql-dataservice-0"} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			const spec = "{mysql: {kind: Deployment}}"
			earlier := platform(t, namespace, spec)
			a := New(operator, apiReader, ownTypes, ownVersion)
			first := mustApply(t, a, ownerOf(earlier), pick(t, objectsOf(t, earlier), id))
			assert.Equal(t, first.Action, Created)
			assert.Equal(t, len(first.Object.GetOwnerReferences()), 0)
			traffic.take(namespace)

			later := platform(t, namespace, spec)
			second := mustApply(t, New(operator, apiReader, ownTypes, ownVersion), ownerOf(later), pick(t, objectsOf(t, later), id))
			assert.Equal(t, second.Action, Unchanged)
			assert.Equal(t, second.Object.GetUID(), first.Object.GetUID())
			assert.Equal(t, len(traffic.take(namespace)), 0)

			// Once they are to go with it, they get an owner.
			later.Spec.MySQL.Storage.Retention = dsv1.RetentionDelete
			third := mustApply(t, a, ownerOf(later), pick(t, objectsOf(t, later), id))
			assert.Equal(t, third.Action, Updated)
			live := fetch(t, third.Object)
			assert.Equal(t, live.GetUID(), first.Object.GetUID())
			assert.Equal(t, metav1.GetControllerOf(live).UID, later.UID)
			assert.Assert(t, !object.OutlivesOwner(live))

			// And lose it when they are to stay after all.
			later.Spec.MySQL.Storage.Retention = dsv1.RetentionRetain
			mustApply(t, a, ownerOf(later), pick(t, objectsOf(t, later), id))
			assert.Equal(t, len(fetch(t, third.Object).GetOwnerReferences()), 0)
		})
	}
}

// A claim that a StatefulSet made has the labels but no digest; the Deployment that takes its
// place uses it, and does not shrink it.
func TestAClaimOfAStatefulSetIsTakenUp(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	ds := platform(t, namespace, "{mysql: {kind: Deployment, storage: {size: 10Gi}}}")
	planned := pick(t, objectsOf(t, ds), "PersistentVolumeClaim/data-mysql-dataservice-0")
	theirs := planned.DeepCopy()
	theirs.SetAnnotations(nil)
	set(t, theirs.Object, "20Gi", storageRequest...)
	theirs = create(t, theirs)

	a := New(operator, apiReader, ownTypes, ownVersion)
	result := mustApply(t, a, ownerOf(ds), planned)
	assert.Equal(t, result.Action, Updated)
	live := fetch(t, planned)
	assert.Equal(t, live.GetUID(), theirs.GetUID())
	assert.Equal(t, field(t, live, storageRequest...), "20Gi")
	assert.Assert(t, object.OutlivesOwner(live))
	atRest(t, a, ds, planned)
}

func TestDeleteSparesANamesake(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	ds := platform(t, namespace, "{proxy: {}, mysql: {}, eureka: {}}")
	planned := pick(t, objectsOf(t, ds), "ConfigMap/proxy")
	a := New(operator, apiReader, ownTypes, ownVersion)
	first := mustApply(t, a, ownerOf(ds), planned).Object
	assert.NilError(t, user.Delete(t.Context(), first.DeepCopy()))
	awaitGone(t, planned)
	assert.NilError(t, a.Delete(t.Context(), first), "what is gone already is no error")
	second := mustApply(t, a, ownerOf(ds), planned).Object
	assert.ErrorContains(t, a.Delete(t.Context(), first), "delete ConfigMap "+namespace+"/proxy")
	assert.Equal(t, fetch(t, planned).GetUID(), second.GetUID())
	assert.NilError(t, a.Delete(t.Context(), second))
	awaitGone(t, planned)
}

func TestOwned(t *testing.T) {
	t.Parallel()
	namespace, elsewhere := newNamespace(t), newNamespace(t)
	a := New(operator, apiReader, ownTypes, ownVersion)
	mine := platform(t, namespace, "{mysql: {kind: Deployment}, eureka: {kind: StatefulSet}, uuc: {kind: DaemonSet, image: x, port: 80}}")
	other := platform(t, namespace, "{eureka: {name: registry}}")
	other.Name = "other"
	abroad := platform(t, elsewhere, "{eureka: {}}")
	abroad.UID = mine.UID
	want := []string{}
	for _, ds := range []*dsv1.DataService{mine, other, abroad} {
		for _, obj := range objectsOf(t, ds) {
			mustApply(t, a, ownerOf(ds), obj)
			if ds == mine && !object.OutlivesOwner(obj) {
				want = append(want, obj.GetKind()+"/"+obj.GetName())
			}
		}
	}
	for _, obj := range objectsOf(t, mine) { // a list may lag
		await(t, fetch(t, obj))
	}
	owned, err := a.Owned(t.Context(), ownerOf(mine))
	assert.NilError(t, err)
	got := []string{}
	for _, obj := range owned {
		got = append(got, obj.GetKind()+"/"+obj.GetName())
	}
	slices.Sort(want)
	slices.Sort(got)
	assert.DeepEqual(t, got, want)

	late := ownerOf(mine)
	late.UID = "another life"
	owned, err = a.Owned(t.Context(), late)
	assert.NilError(t, err)
	assert.Equal(t, len(owned), 0)
}
