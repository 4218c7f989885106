// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
	keeper "d3os.com/d3os-operator/internal/platform/plan"
	"d3os.com/d3os-operator/internal/render"
	"d3os.com/d3os-operator/test/admit"
	"d3os.com/d3os-operator/test/fields"
	"d3os.com/d3os-operator/test/inject"
)

// seeds returns the specs of the samples, of the inputs in testdata, and of every 24th case in the table of fields. (A separate test
// covers the whole table, and planning is slow.)
func seeds(f *testing.F) []map[string]any {
	f.Helper()
	var found []map[string]any
	add := func(obj map[string]any) {
		if spec, ok := obj["spec"].(map[string]any); ok {
			found = append(found, spec)
		}
	}
	samples, err := filepath.Glob("../../../config/samples/*.yaml")
	assert.NilError(f, err)
	inputs, err := filepath.Glob("testdata/*.yaml")
	assert.NilError(f, err)
	assert.Assert(f, len(samples) > 4 && len(inputs) > 10, "the DataServices are missing")
	for _, file := range append(samples, inputs...) {
		data, err := os.ReadFile(file)
		assert.NilError(f, err)
		obj := map[string]any{}
		assert.NilError(f, yaml.Unmarshal(data, &obj))
		add(obj)
	}
	cases, err := fields.Cases()
	assert.NilError(f, err)
	for i := 0; i < len(cases); i += 24 {
		changed, err := cases[i].Changed()
		assert.NilError(f, err)
		add(changed.Object)
	}
	return found
}

// fuzzer holds the common state of fuzz targets for whole specs.
type fuzzer struct {
	admitter *admit.Admitter
	planner  *keeper.Planner
	// latest caches the previous plan. Each spec is another generation.
	latest     *keeper.Planner
	generation int64
}

func newFuzzer(f *testing.F) *fuzzer {
	f.Helper()
	admitter, err := admit.New()
	assert.NilError(f, err)
	return &fuzzer{admitter: admitter, planner: newPlanner(&testing.T{}, nil), latest: newPlanner(&testing.T{}, nil)}
}

// admitted returns a DataService with this spec as the API server would store it, or the API server's error.
func (z *fuzzer) admitted(spec any) (*dsv1.DataService, error) {
	data, err := json.Marshal(map[string]any{
		"apiVersion": dsv1.GroupVersion.String(), "kind": dsv1.Kind, "spec": spec,
		"metadata": map[string]any{"name": "platform", "namespace": "data"},
	})
	if err != nil {
		return nil, err
	}
	obj := map[string]any{}
	if err := json.Unmarshal(data, &obj); err != nil { // decodes whole numbers as int64
		return nil, err
	}
	if err := z.admitter.Admit(obj); err != nil {
		return nil, err
	}
	ds := &dsv1.DataService{}
	return ds, runtime.DefaultUnstructuredConverter.FromUnstructured(obj, ds)
}

func (z *fuzzer) plan(ds *dsv1.DataService) ([]*unstructured.Unstructured, error) {
	return planned(ds, z.planner)
}

func planned(ds *dsv1.DataService, p *keeper.Planner) ([]*unstructured.Unstructured, error) {
	none := func(string, string) (*unstructured.Unstructured, error) { return nil, nil }
	return keeper.Planned(ds, p, keeper.NewPreview(), none)
}

// FuzzPlan: every spec that the API server would store yields a plan, or an error with the path of its field. The plan is deterministic,
// independent of earlier specs, and in one namespace. No input crashes the operator.
func FuzzPlan(f *testing.F) {
	z := newFuzzer(f)
	for _, spec := range seeds(f) {
		data, err := yaml.Marshal(spec)
		assert.NilError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var spec any
		if len(data) > 1<<16 || yaml.Unmarshal(data, &spec) != nil {
			t.Skip("no YAML, or too much of it")
		}
		ds, err := z.admitted(spec)
		if err != nil {
			raw := &dsv1.DataService{}
			if yaml.Unmarshal(data, &raw.Spec) == nil { // inputs that the API server refuses must not panic either
				raw.Name, raw.Namespace = "platform", "data"
				_, _ = z.plan(raw)
			}
			return
		}
		z.generation++
		ds.UID, ds.Generation = "uid", z.generation
		z.planner.Forget(ds.Namespace, ds.Name)
		objects, err := z.plan(ds)
		if err != nil {
			var mistake *render.Error
			assert.Assert(t, errors.As(err, &mistake), "it names no field: %v", err)
			assert.Assert(t, strings.HasPrefix(mistake.Field, "spec"), "%q is no field", mistake.Field)
			return
		}
		again, err := planned(ds, z.latest) // renders only the changed components
		assert.NilError(t, err)
		assert.Assert(t, reflect.DeepEqual(objects, again), "the second plan differs")
		seen := map[string]bool{}
		for _, obj := range objects {
			belongs(t, obj, ds)
			assert.Assert(t, !seen[fields.ID(obj)], "two of %s", fields.ID(obj))
			seen[fields.ID(obj)] = true
		}
	})
}

// belongs checks that an object has the labels and the owner of a DataService, and that its kind is watched.
func belongs(t *testing.T, obj *unstructured.Unstructured, ds *dsv1.DataService) {
	t.Helper()
	where, labels := fields.ID(obj), obj.GetLabels()
	assert.Equal(t, obj.GetNamespace(), ds.Namespace, where)
	assert.Equal(t, labels[object.LabelInstance], ds.Name, where)
	assert.Equal(t, labels[object.LabelManagedBy], "d3os-operator", where)
	assert.Equal(t, labels[object.LabelPartOf], "dataservice", where)
	assert.Assert(t, labels[object.LabelComponent] != "", where)
	assert.Equal(t, len(obj.GetAnnotations()[object.AnnotationDigest]), 24, where)
	isWatched := slices.Contains(slices.Concat(object.Kinds, object.Optional), obj.GroupVersionKind())
	assert.Assert(t, isWatched, "%s is of a kind that nothing watches", where)
	if object.OutlivesOwner(obj) {
		assert.Equal(t, len(obj.GetOwnerReferences()), 0, where)
		return
	}
	assert.DeepEqual(t, obj.GetOwnerReferences(), []metav1.OwnerReference{{
		APIVersion: "d3os-product.com.d3os/v1", Kind: "DataService", Name: ds.Name, UID: ds.UID,
		Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
	}})
}

// FuzzText replaces a text in a spec by another text. The manifests must contain the new text in the same places, and must
// not change otherwise.
func FuzzText(f *testing.F) {
	z := newFuzzer(f)
	all := seeds(f)
	for i, text := range []string{
		"{{ .Values }}", `{{ fail "x" }}`, "a\nkind: Secret\nmetadata: {name: injected}", "a\x00b", "a\u202eb", "---\na: b", "a: b # c", `"`, `'`, "\\", "\x7f",
		"\u0085", "\u2028", "\ufeff", "\uffff", "$(A)", "${A}", "@mysqlUrl@", "@port@", "%s", "true", "1", "~", " a", "a ", "\t", "- a", "|", "*a", "&a", "!!binary a", "\U0001f600",
	} {
		f.Add(text, uint16(i*37), uint16(i*17))
	}
	f.Fuzz(func(t *testing.T, text string, which, where uint16) {
		if len(text) > 1<<12 || text == inject.Neutral || strings.Contains(text, "NEUTRAL") {
			t.Skip("too much, or the text that it is compared with")
		}
		if text == "" {
			t.Skip("no text: a default, or a setting of mysql without a value, which FuzzPlan has")
		}
		text = strings.ToValidUTF8(text, "?") // JSON allows only valid UTF-8
		spec := all[int(which)%len(all)]
		texts := inject.Texts(spec)
		if texts == 0 {
			return
		}
		spec, _ = inject.At(spec, int(where)%texts).(map[string]any)
		ds, err := z.admitted(inject.Set(spec, text))
		if err != nil {
			return
		}
		with, err := z.plan(ds)
		if err != nil {
			var mistake *render.Error
			assert.Assert(t, errors.As(err, &mistake), "it names no field: %v", err)
			return
		}
		if ds, err = z.admitted(inject.Set(spec, inject.Neutral)); err != nil {
			return
		}
		neutral, err := z.plan(ds)
		if err != nil {
			return
		}
		assert.NilError(t, inject.Same(with, neutral, text))
	})
}
