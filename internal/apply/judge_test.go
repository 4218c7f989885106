// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"reflect"
	"testing"

	"gotest.tools/v3/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/object"
)

// foresee asks a Judge what an apply will do. What it returns fails the test unless the apply did that. Every test of
// this package that applies an object asks it.
func foresee(t *testing.T, a *Applier, owner object.Owner, planned *unstructured.Unstructured) func(Result) {
	t.Helper()
	live := object.Empty(planned.GroupVersionKind())
	if err := user.Get(t.Context(), client.ObjectKeyFromObject(planned), live); apierrors.IsNotFound(err) {
		live = nil
	} else {
		assert.NilError(t, err)
	}
	before := live.DeepCopy()
	verdict, err := NewJudge(ownTypes, a.version).Judge(owner, planned, live)
	assert.NilError(t, err)
	return func(result Result) {
		t.Helper()
		assert.Equal(t, verdict.Action, result.Action, "foreseen for %s; fields %v", describe(planned), verdict.Fields)
		if verdict.Action != Updated && verdict.Action != Corrected {
			return
		}
		after := fetch(t, planned)
		assert.Assert(t, len(verdict.Fields) > 0 || reflect.DeepEqual(content(before), content(after)), "%s changed", describe(planned))
		for field, want := range content(verdict.Result) {
			if planned.GetKind() == "Service" {
				break // the API server drops and chooses fields by the type
			}
			assert.Assert(t, covers(after.Object[field], want), "%s of %s: foreseen %v, is %v", field, describe(planned), want, after.Object[field])
		}
		was, _, _ := unstructured.NestedMap(before.Object, "spec", "template")
		is, _, _ := unstructured.NestedMap(after.Object, "spec", "template")
		if podTemplate(planned) != nil {
			assert.Equal(t, verdict.NewPods, !reflect.DeepEqual(was, is), "new pods of %s; fields %v", describe(planned), verdict.Fields)
		}
	}
}

// content is an object without what the API server notes about it.
func content(o *unstructured.Unstructured) map[string]any {
	found := o.DeepCopy().Object
	delete(found, "metadata")
	delete(found, "status")
	return found
}

// A field that the plan has no longer is removed, with the value that it had; one of somebody else's stays.
func TestAJudgeSeesWhatIsRemoved(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	ds := platform(t, namespace, "{mysql: {}, eureka: {}, auth: {image: 'a:1', envs: [{name: MORE, value: x}], annotations: {team: a}}}")
	a := New(operator, apiReader, ownTypes, ownVersion)
	const id = "Deployment/auth"
	mustApply(t, a, ownerOf(ds), pick(t, objectsOf(t, ds), id))
	edit(t, pick(t, objectsOf(t, ds), id), func(o map[string]any) {
		assert.NilError(t, unstructured.SetNestedField(o, "y", "metadata", "annotations", "somebody"))
	})
	ds.Spec.Auth.Envs, ds.Spec.Auth.Annotations = nil, nil
	planned := pick(t, objectsOf(t, ds), id)
	verdict, err := NewJudge(ownTypes, ownVersion).Judge(ownerOf(ds), planned, fetch(t, planned))
	assert.NilError(t, err)
	assert.Equal(t, verdict.Result.GetAnnotations()["somebody"], "y")
	var paths []string
	for _, f := range verdict.Fields {
		paths = append(paths, f.Path)
	}
	assert.DeepEqual(t, paths, []string{
		`spec.template.metadata.annotations.team`,
		`spec.template.spec.containers[name="auth"].env[name="MORE"].name`,
		`spec.template.spec.containers[name="auth"].env[name="MORE"].value`,
	})
	assert.Assert(t, verdict.NewPods)
	mustApply(t, a, ownerOf(ds), planned)
}

// What holds data is not replaced, and what was written by a newer operator is not touched.
func TestAJudgeRefusesAsApplyDoes(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	ds := platform(t, namespace, "{mysql: {kind: Deployment}}")
	a := New(operator, apiReader, ownTypes, ownVersion)
	planned := pick(t, objectsOf(t, ds), "PersistentVolumeClaim/data-mysql-dataservice-0")
	mustApply(t, a, ownerOf(ds), planned)
	other := planned.DeepCopy()
	assert.NilError(t, unstructured.SetNestedField(other.Object, "fast", "spec", "storageClassName"))
	_, err := NewJudge(ownTypes, ownVersion).Judge(ownerOf(ds), other, fetch(t, planned))
	assert.ErrorContains(t, err, "take the change of spec.storageClassName back")
	_, err = NewJudge(ownTypes, "1.0.0").Judge(ownerOf(ds), planned, fetch(t, planned))
	assert.ErrorContains(t, err, "was written by version")
	stranger := ownerOf(ds)
	stranger.UID, stranger.Name = "other", "other"
	_, err = NewJudge(ownTypes, ownVersion).Judge(stranger, planned, fetch(t, planned))
	assert.ErrorContains(t, err, "left alone")
}
