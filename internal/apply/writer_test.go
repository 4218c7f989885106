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
	p := start(t, "{proxy: {}, mysql: {}, eureka: {}}")
	newer, older := p.by(New(operator, apiReader, ownTypes, "1.3.0")), p.by(New(operator, apiReader, ownTypes, "1.2.2"))
	developers := p.by(New(operator, apiReader, ownTypes, "0.0.0-dev"))
	objects, proxy, config := p.objects(), p.planned("Deployment/proxy"), p.planned("ConfigMap/proxy")
	for _, obj := range objects {
		newer.apply(obj)
		live := fetch(t, obj)
		assert.Equal(t, live.GetAnnotations()[object.AnnotationWriter], "1.3.0")
		assert.Equal(t, object.Digest(live), object.Digest(obj), "the version is no part of the digest")
		if template, found, _ := unstructured.NestedMap(live.Object, "spec", "template", "metadata", "annotations"); found {
			_, signed := template[object.AnnotationWriter]
			assert.Assert(t, !signed, "a version on pods would restart them")
		}
		await(t, live)
	}
	p.writes()
	_, err := p.Owned(t.Context(), p.owner())
	assert.DeepEqual(t, err, &NewerError{Kind: "ConfigMap", Name: "mysql-dataservice", Writer: "1.3.0", Version: ownVersion})
	assert.ErrorContains(t, err, "written by version 1.3.0 of the operator, and this is 1.2.3")
	_, err = p.try(proxy)
	assert.DeepEqual(t, err, &NewerError{Kind: "Deployment", Name: "proxy", Writer: "1.3.0", Version: ownVersion})
	assert.DeepEqual(t, p.writes(), []string{})

	// A version that has no place in the order, such as a developer's, stops nobody.
	for _, unordered := range []*platform{developers, newer} {
		owned, err := unordered.Owned(t.Context(), p.owner())
		assert.NilError(t, err)
		assert.Equal(t, len(owned), len(slices.DeleteFunc(slices.Clone(objects), object.OutlivesOwner)))
		assert.Equal(t, unordered.apply(proxy).Action, Unchanged)
	}

	// What an operator has not written does not bind it to a version, nor does an unchanged object.
	for _, obj := range objects {
		edit(t, obj, removing("metadata", "annotations", object.AnnotationWriter))
		p.atRest(obj)
	}
	edit(t, proxy, setting(int64(7), "spec", "replicas"))
	await(t, p.apply(proxy).Object)
	assert.Equal(t, fetch(t, proxy).GetAnnotations()[object.AnnotationWriter], ownVersion)
	_, err = older.Owned(t.Context(), p.owner())
	assert.DeepEqual(t, err, &NewerError{Kind: "Deployment", Name: "proxy", Writer: ownVersion, Version: "1.2.2"})

	// A foreign entry is taken out by an update, which signs as well.
	edit(t, config, setting("x", "data", "more"))
	p.apply(config)
	assert.Equal(t, fetch(t, config).GetAnnotations()[object.AnnotationWriter], ownVersion)
}
