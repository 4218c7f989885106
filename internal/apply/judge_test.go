// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// foresee asks a Judge what an apply will do. What it returns fails the test unless the apply did that. Every test of
// this package that applies an object asks it.
func (p *platform) foresee(planned *unstructured.Unstructured) func(Result, error) {
	p.Helper()
	live, err := get(p.Context(), user, planned)
	assert.NilError(p, err)
	before := live.DeepCopy()
	verdict, refused := NewJudge(ownTypes, p.version).Judge(p.owner(), planned, live)
	return func(result Result, err error) {
		p.Helper()
		var foreign *ConflictError
		var newer *NewerError
		if errors.As(err, &foreign) || errors.As(err, &newer) {
			assert.DeepEqual(p, refused, err)
		}
		if err != nil {
			return // most of what the API server refuses a Judge does not know
		}
		assert.NilError(p, refused)
		assert.Equal(p, verdict.Action, result.Action, "foreseen for %s; fields %v", describe(planned), verdict.Fields)
		if verdict.Action != Updated && verdict.Action != Corrected {
			return
		}
		after := fetch(p.T, planned)
		assert.Assert(p, len(verdict.Fields) > 0 || reflect.DeepEqual(content(before), content(after)), "%s changed", describe(planned))
		for field, want := range content(verdict.Result) {
			if planned.GetKind() == "Service" {
				break // the API server drops and chooses fields by the type
			}
			assert.Assert(p, has(after.Object[field], want), "%s of %s: foreseen %v, is %v", field, describe(planned), want, after.Object[field])
		}
		was, _, _ := unstructured.NestedMap(before.Object, "spec", "template")
		is, _, _ := unstructured.NestedMap(after.Object, "spec", "template")
		if podTemplate(planned) != nil {
			assert.Equal(p, verdict.NewPods, !reflect.DeepEqual(was, is), "new pods of %s; fields %v", describe(planned), verdict.Fields)
		}
	}
}

// has reports whether an object of the API server's has every foreseen value: it fills in more.
func has(live, foreseen any) bool {
	switch want := foreseen.(type) {
	case map[string]any:
		there, ok := live.(map[string]any)
		for key, value := range want {
			if !empty(value) && (!ok || !has(there[key], value)) {
				return false
			}
		}
		return true
	case []any:
		there, ok := live.([]any)
		return ok && slices.EqualFunc(there, want, has)
	}
	return live == foreseen
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
	const id = "Deployment/auth"
	p, planned := running(t, "{mysql: {}, eureka: {}, auth: {image: 'a:1', envs: [{name: MORE, value: x}], annotations: {team: a}}}", id)
	edit(t, planned, setting("y", "metadata", "annotations", "somebody"))
	p.ds.Spec.Auth.Envs, p.ds.Spec.Auth.Annotations = nil, nil
	planned = p.planned(id)
	verdict, err := NewJudge(ownTypes, ownVersion).Judge(p.owner(), planned, fetch(t, planned))
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
	p.apply(planned)
}

// What holds data is not replaced: a Judge names the field that would need that.
func TestAJudgeRefusesToReplaceData(t *testing.T) {
	t.Parallel()
	p, planned := running(t, "{mysql: {kind: Deployment}}", "PersistentVolumeClaim/data-mysql-dataservice-0")
	other := planned.DeepCopy()
	set(t, other.Object, "fast", "spec", "storageClassName")
	_, err := NewJudge(ownTypes, ownVersion).Judge(p.owner(), other, fetch(t, planned))
	assert.ErrorContains(t, err, "take the change of spec.storageClassName back")
}
