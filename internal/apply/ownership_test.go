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

// oneOfEach returns a platform whose plan contains every kind in object.Kinds, and one planned object of each kind.
func oneOfEach(t *testing.T) (*platform, map[string]*unstructured.Unstructured) {
	t.Helper()
	p := start(t, `{proxy: {replica: 2, autoscaling: {max: 3}}, mysql: {kind: Deployment, storage: {retention: Delete}}, eureka: {kind: StatefulSet, replica: 2},
		uuc: {kind: DaemonSet, image: x, port: 80}, web: {ingress: {host: a.example.com}}, networkPolicy: {enabled: true},
		cronJobs: [{name: job, schedule: '@daily', image: x}]}`)
	found := map[string]*unstructured.Unstructured{}
	for _, obj := range p.objects() {
		found[obj.GetKind()] = obj
	}
	for _, gvk := range object.Kinds {
		assert.Assert(t, found[gvk.Kind] != nil, "no %s is rendered", gvk.Kind)
	}
	return p, found
}

// An object of another owner is not changed, although it has the planned name. TestCheckOwner tests the rules of ownership.
func TestForeignObjectsAreConflicts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		disguise func(obj *unstructured.Unstructured)
		holder   string
	}{
		"no labels, digest or owner": {func(o *unstructured.Unstructured) {
			o.SetLabels(nil)
			o.SetAnnotations(nil)
			o.SetOwnerReferences(nil)
		}, "another owner"},
		"of an earlier DataService of the same name": {func(o *unstructured.Unstructured) {
			o.SetOwnerReferences([]metav1.OwnerReference{{
				APIVersion: "d3os-product.com.d3os/v1", Kind: "DataService", Name: "platform", UID: "earlier", Controller: ptr.To(true),
			}})
		}, "DataService platform"},
	} {
		for _, gvk := range object.Kinds {
			t.Run(name+"/"+gvk.Kind, func(t *testing.T) {
				t.Parallel()
				p, objects := oneOfEach(t)
				planned := objects[gvk.Kind]
				theirs := planned.DeepCopy()
				test.disguise(theirs)
				theirs = create(t, theirs)

				_, err := p.try(planned)
				assert.DeepEqual(t, err, &ConflictError{Kind: gvk.Kind, Name: planned.GetName(), Holder: test.holder})
				assert.ErrorContains(t, err, gvk.Kind+" "+planned.GetName()+" exists and belongs to "+test.holder)
				assert.DeepEqual(t, fetch(t, planned), theirs)
			})
		}
	}
}

// hide removes the label by which the cache selects an object.
func hide(t *testing.T, obj *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	return edit(t, obj, removing("metadata", "labels", object.LabelManagedBy))
}

// An existing object that the cache does not show yet is not replaced, regardless of its owner.
func TestCreateIsNeverDoneOverAnExistingObject(t *testing.T) {
	t.Parallel()
	for _, gvk := range object.Kinds {
		t.Run(gvk.Kind, func(t *testing.T) {
			t.Parallel()
			p, objects := oneOfEach(t)
			planned := objects[gvk.Kind]
			p.apply(planned)
			hidden := hide(t, planned)

			// The create request itself changes nothing, because the API server refuses it.
			obj := planned.DeepCopy()
			obj.SetResourceVersion("1")
			err := p.Applier.apply(t.Context(), obj, nil)
			assert.Assert(t, apierrors.IsConflict(err), "%v", err)
			assert.DeepEqual(t, fetch(t, planned), hidden)

			// The object still belongs to the owner, and is corrected.
			assert.Equal(t, p.apply(planned).Action, Corrected)
			assert.Equal(t, fetch(t, planned).GetUID(), hidden.GetUID())
			await(t, fetch(t, planned))
			p.atRest(planned)
		})
	}
}

// The values of a Secret that the cache does not show are kept: they may have been generated.
func TestUnseenValuesStay(t *testing.T) {
	t.Parallel()
	p, planned := running(t, "{mysql: {}}", "Secret/mysql-dataservice-credentials")
	before := hide(t, planned)
	other := planned.DeepCopy()
	set(t, other.Object, "b3RoZXI=", "data", "password")
	_, err := p.try(other)
	var unseen *UnseenError
	assert.Assert(t, errors.As(err, &unseen), "%v", err)
	assert.DeepEqual(t, unseen.Live.Object["data"], before.Object["data"])
	assert.DeepEqual(t, fetch(t, planned), before)
	_, err = p.Apply(t.Context(), p.owner(), other, unseen.Live)
	assert.NilError(t, err)
	assert.DeepEqual(t, fetch(t, planned).Object["data"], other.Object["data"])
}

// A DataService of the same name adopts retained data and the credentials for that data.
func TestRetainedObjectsAreTakenUp(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"Secret/mysql-dataservice-credentials", "PersistentVolumeClaim/data-mysql-dataservice-0"} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			p, planned := running(t, "{mysql: {kind: Deployment}}", id)
			first := fetch(t, planned)
			assert.Equal(t, len(first.GetOwnerReferences()), 0)

			p.ds.UID = "of its next life"
			p.restart()
			p.atRest(p.planned(id))

			// With the retention Delete, the objects get an owner.
			p.ds.Spec.MySQL.Storage.Retention = dsv1.RetentionDelete
			assert.Equal(t, p.apply(p.planned(id)).Action, Updated)
			live := fetch(t, planned)
			assert.Equal(t, live.GetUID(), first.GetUID())
			assert.Equal(t, metav1.GetControllerOf(live).UID, p.ds.UID)
			assert.Assert(t, !object.OutlivesOwner(live))

			// With the retention Retain, the objects lose their owner.
			p.ds.Spec.MySQL.Storage.Retention = dsv1.RetentionRetain
			p.apply(p.planned(id))
			assert.Equal(t, len(fetch(t, planned).GetOwnerReferences()), 0)
		})
	}
}

// A claim that a StatefulSet created has the labels, but no digest. A Deployment that replaces the StatefulSet uses the claim and does not
// shrink it.
func TestAClaimOfAStatefulSetIsTakenUp(t *testing.T) {
	t.Parallel()
	p := start(t, "{mysql: {kind: Deployment, storage: {size: 10Gi}}}")
	planned := p.planned("PersistentVolumeClaim/data-mysql-dataservice-0")
	theirs := planned.DeepCopy()
	theirs.SetAnnotations(nil)
	set(t, theirs.Object, "20Gi", storageRequest...)
	theirs = create(t, theirs)

	assert.Equal(t, p.apply(planned).Action, Updated)
	live := fetch(t, planned)
	assert.Equal(t, live.GetUID(), theirs.GetUID())
	assert.Equal(t, field(t, live, storageRequest...), "20Gi")
	assert.Assert(t, object.OutlivesOwner(live))
	p.atRest(planned)
}

func TestDeleteSparesANamesake(t *testing.T) {
	t.Parallel()
	p := start(t, "{proxy: {}, mysql: {}, eureka: {}}")
	planned := p.planned("ConfigMap/proxy")
	first := p.apply(planned).Object
	assert.NilError(t, user.Delete(t.Context(), first.DeepCopy()))
	awaitGone(t, planned)
	assert.NilError(t, p.Delete(t.Context(), first), "a repeated deletion succeeds")
	second := p.apply(planned).Object
	assert.ErrorContains(t, p.Delete(t.Context(), first), "delete "+describe(planned))
	assert.Equal(t, fetch(t, planned).GetUID(), second.GetUID())
	assert.NilError(t, p.Delete(t.Context(), second))
	awaitGone(t, planned)
}

func TestOwned(t *testing.T) {
	t.Parallel()
	p := start(t, "{mysql: {kind: Deployment}, eureka: {kind: StatefulSet}, uuc: {kind: DaemonSet, image: x, port: 80}}")
	other := p.by(p.Applier)
	other.declare("{eureka: {name: registry}}")
	other.ds.Name, other.ds.UID = "other", "other"
	abroad := start(t, "{eureka: {}}")
	abroad.ds.UID = p.ds.UID
	want := []string{}
	for _, platform := range []*platform{p, other, abroad} {
		for _, obj := range platform.objects() {
			platform.apply(obj)
			if platform == p && !object.OutlivesOwner(obj) {
				want = append(want, obj.GetKind()+"/"+obj.GetName())
			}
		}
	}
	for _, obj := range p.objects() { // the cache may lag
		await(t, fetch(t, obj))
	}
	owned, err := p.Owned(t.Context(), p.owner())
	assert.NilError(t, err)
	got := []string{}
	for _, obj := range owned {
		got = append(got, obj.GetKind()+"/"+obj.GetName())
	}
	slices.Sort(want)
	slices.Sort(got)
	assert.DeepEqual(t, got, want)

	late := p.owner()
	late.UID = "another life"
	owned, err = p.Owned(t.Context(), late)
	assert.NilError(t, err)
	assert.Equal(t, len(owned), 0)
}

// An annotation of each object contains the version of the operator that wrote the object. Objects of a newer operator are not changed.
func TestObjectsOfANewerOperator(t *testing.T) {
	t.Parallel()
	p := start(t, "{proxy: {replica: 1}, mysql: {}, eureka: {}}")
	newer, older := p.by(New(operator, apiReader, ownTypes, "1.3.0")), p.by(New(operator, apiReader, ownTypes, "1.2.2"))
	developers := p.by(New(operator, apiReader, ownTypes, "0.0.0-dev"))
	objects, proxy, config := p.objects(), p.planned("Deployment/proxy"), p.planned("ConfigMap/proxy")
	for _, obj := range objects {
		newer.apply(obj)
		live := fetch(t, obj)
		assert.Equal(t, live.GetAnnotations()[object.AnnotationWriter], "1.3.0")
		assert.Equal(t, object.Digest(live), object.Digest(obj), "the digest does not include the version")
		if template, found, _ := unstructured.NestedMap(live.Object, "spec", "template", "metadata", "annotations"); found {
			_, signed := template[object.AnnotationWriter]
			assert.Assert(t, !signed, "a version on pods would restart them")
		}
		await(t, live)
	}
	p.writes()
	_, err := p.Owned(t.Context(), p.owner())
	assert.DeepEqual(t, err, &NewerError{Kind: "ConfigMap", Name: "mysql-dataservice", Writer: "1.3.0", Version: ownVersion})
	assert.ErrorContains(t, err, "written by version 1.3.0 of the operator, but this operator has version 1.2.3")
	_, err = p.try(proxy)
	assert.DeepEqual(t, err, &NewerError{Kind: "Deployment", Name: "proxy", Writer: "1.3.0", Version: ownVersion})
	assert.DeepEqual(t, p.writes(), []string{})

	// A version that cannot be ordered, such as a developer's, does not block an operator.
	for _, unordered := range []*platform{developers, newer} {
		owned, err := unordered.Owned(t.Context(), p.owner())
		assert.NilError(t, err)
		assert.Equal(t, len(owned), len(slices.DeleteFunc(slices.Clone(objects), object.OutlivesOwner)))
		assert.Equal(t, unordered.apply(proxy).Action, Unchanged)
	}

	// An object without a version may be written by any operator. An unchanged object keeps its version.
	for _, obj := range objects {
		edit(t, obj, removing("metadata", "annotations", object.AnnotationWriter))
		p.atRest(obj)
	}
	edit(t, proxy, setting(int64(7), "spec", "replicas"))
	await(t, p.apply(proxy).Object)
	assert.Equal(t, fetch(t, proxy).GetAnnotations()[object.AnnotationWriter], ownVersion)
	_, err = older.Owned(t.Context(), p.owner())
	assert.DeepEqual(t, err, &NewerError{Kind: "Deployment", Name: "proxy", Writer: ownVersion, Version: "1.2.2"})

	// An update removes the foreign entry, and also writes the version.
	edit(t, config, setting("x", "data", "more"))
	p.apply(config)
	assert.Equal(t, fetch(t, config).GetAnnotations()[object.AnnotationWriter], ownVersion)
}
