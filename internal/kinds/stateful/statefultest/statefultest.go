// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package statefultest is what the tests of the kinds share that run servers in StatefulSets.
package statefultest

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/kinds/stateful"
	"d3os.com/d3os-operator/internal/object"
)

// There are live objects of a resource, as "Kind/name".
type There map[string]*unstructured.Unstructured

// Inputs are those of a plan beside these objects.
func (l There) Inputs() kinds.Inputs {
	lookup := func(kind, name string) (*unstructured.Unstructured, error) { return l[kind+"/"+name], nil }
	return kinds.Inputs{Lookup: lookup, LookupLive: lookup}
}

// Set adds a StatefulSet of so many pods, with the image in a container.
func (l There) Set(name string, pods int64, container, image string) There {
	o := object.Empty(object.StatefulSetKind)
	o.SetName(name)
	containers := []any{map[string]any{"name": container, "image": image}}
	o.Object["spec"] = map[string]any{"replicas": pods, "template": map[string]any{"spec": map[string]any{"containers": containers}}}
	l["StatefulSet/"+name] = o
	return l
}

// WithRecord adds the record of an owner, as the operator keeps it.
func WithRecord[R any](t *testing.T, l There, records stateful.Records[R], owner object.Owner, record R) There {
	t.Helper()
	data, err := json.Marshal(record)
	assert.NilError(t, err)
	o := Kept(records.Name(owner.Name), owner)
	o.SetAnnotations(map[string]string{records.Annotation: string(data), object.AnnotationDigest: "digest"})
	l["ConfigMap/"+o.GetName()] = o
	return l
}

// Kept is a ConfigMap of an owner that it does not control.
func Kept(name string, owner object.Owner) *unstructured.Unstructured {
	o := object.Empty(object.ConfigMapKind)
	o.SetNamespace(owner.Namespace)
	o.SetName(name)
	o.SetLabels(owner.Labels("data"))
	o.SetAnnotations(map[string]string{object.AnnotationDigest: "digest"})
	return o
}

// Manifests holds what each resource in testdata/*.yaml becomes against testdata/*.golden (go test . -update).
func Manifests(t *testing.T, atLeast int, plan func(t *testing.T, name string) []*unstructured.Unstructured) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.yaml")
	assert.NilError(t, err)
	assert.Assert(t, len(files) >= atLeast)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var text bytes.Buffer
			for _, o := range plan(t, name) {
				data, err := yaml.Marshal(o.Object)
				assert.NilError(t, err)
				text.WriteString("---\n")
				text.Write(data)
			}
			golden.Assert(t, text.String(), name+".golden")
		})
	}
}
