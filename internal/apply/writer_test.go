// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"slices"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/object"
)

// Objects carry the version of the operator that wrote them; those of a newer one are left alone.
func TestObjectsOfANewerOperator(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	ds := platform(t, namespace, "{proxy: {}, mysql: {}, eureka: {}}")
	newer, same := New(operator, apiReader, ownTypes, "1.3.0"), New(operator, apiReader, ownTypes, ownVersion)
	older := New(operator, apiReader, ownTypes, "1.2.2")
	objects := objectsOf(t, ds)
	for _, obj := range objects {
		mustApply(t, newer, ownerOf(ds), obj)
		live := fetch(t, obj)
		assert.Equal(t, live.GetAnnotations()[object.AnnotationWriter], "1.3.0")
		assert.Equal(t, object.Digest(live), object.Digest(obj), "the version is no part of the digest")
		if template, found, _ := unstructured.NestedMap(live.Object, "spec", "template", "metadata", "annotations"); found {
			_, signed := template[object.AnnotationWriter]
			assert.Assert(t, !signed, "a version on pods would restart them")
		}
		await(t, live)
	}
	traffic.take(namespace)
	proxy := pick(t, objects, "Deployment/proxy")
	want := &NewerError{Kind: "ConfigMap", Name: "mysql-dataservice", Writer: "1.3.0", Version: ownVersion}
	_, err := same.Owned(t.Context(), ownerOf(ds))
	assert.DeepEqual(t, err, want)
	assert.ErrorContains(t, err, "written by version 1.3.0 of the operator, and this is 1.2.3")
	_, err = applied(t, same, ownerOf(ds), proxy)
	assert.DeepEqual(t, err, &NewerError{Kind: "Deployment", Name: "proxy", Writer: "1.3.0", Version: ownVersion})
	assert.DeepEqual(t, writes(namespace), []string{})

	// A version that has no place in the order, such as a developer's, stops nobody.
	for _, unordered := range []*Applier{New(operator, apiReader, ownTypes, "0.0.0-dev"), newer} {
		owned, err := unordered.Owned(t.Context(), ownerOf(ds))
		assert.NilError(t, err)
		assert.Equal(t, len(owned), len(slices.DeleteFunc(slices.Clone(objects), object.OutlivesOwner)))
		assert.Equal(t, mustApply(t, unordered, ownerOf(ds), proxy).Action, Unchanged)
	}

	// What an operator has not written does not bind it to a version, nor does an unchanged object.
	for _, obj := range objects {
		edit(t, obj, func(o map[string]any) {
			unstructured.RemoveNestedField(o, "metadata", "annotations", object.AnnotationWriter)
		})
	}
	traffic.take(namespace)
	for _, obj := range objects {
		assert.Equal(t, mustApply(t, same, ownerOf(ds), obj).Action, Unchanged)
	}
	assert.DeepEqual(t, writes(namespace), []string{})
	edit(t, proxy, func(o map[string]any) { set(t, o, int64(7), "spec", "replicas") })
	await(t, mustApply(t, same, ownerOf(ds), proxy).Object)
	assert.Equal(t, fetch(t, proxy).GetAnnotations()[object.AnnotationWriter], ownVersion)
	_, err = older.Owned(t.Context(), ownerOf(ds))
	assert.DeepEqual(t, err, &NewerError{Kind: "Deployment", Name: "proxy", Writer: ownVersion, Version: "1.2.2"})

	// A foreign entry is taken out by an update, which signs as well.
	config := pick(t, objects, "ConfigMap/proxy")
	edit(t, config, func(o map[string]any) { set(t, o, "x", "data", "more") })
	mustApply(t, same, ownerOf(ds), config)
	assert.Equal(t, fetch(t, config).GetAnnotations()[object.AnnotationWriter], ownVersion)
}
