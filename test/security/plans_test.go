// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package security_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"d3os.com/d3os-operator/internal/kinds/dataservice/credentials"
	dsplan "d3os.com/d3os-operator/internal/kinds/dataservice/plan"
	"d3os.com/d3os-operator/internal/kinds/dataservice/preview"
	"d3os.com/d3os-operator/internal/render"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/fields"
)

// dataServices returns the samples, the bases of test/fields, and each of its changes.
func dataServices(t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	found := map[string]*unstructured.Unstructured{}
	samples, err := filepath.Glob(filepath.Join(cluster.Root(), "config/samples/*.yaml"))
	assert.NilError(t, err)
	for _, file := range samples {
		for _, object := range objectsIn(t, file) {
			if object.GetKind() == "DataService" {
				found[filepath.Base(file)] = object
			}
		}
	}
	bases, err := fields.Bases()
	assert.NilError(t, err)
	for _, name := range bases {
		found["base "+name], err = fields.Load(name)
		assert.NilError(t, err)
	}
	cases, err := fields.Cases()
	assert.NilError(t, err)
	for _, c := range cases {
		found["case "+c.Name()], err = c.Changed()
		assert.NilError(t, err)
	}
	return found
}

func objectsIn(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	data, err := os.ReadFile(file)
	assert.NilError(t, err)
	var found []*unstructured.Unstructured
	for decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096); ; {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return found
		}
		assert.NilError(t, err, file)
		found = append(found, object)
	}
}

// plan returns what the operator would apply, or why it would not.
func plan(ds *unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	data, err := ds.MarshalJSON()
	if err != nil {
		return nil, err
	}
	parsed, err := preview.Parse(data)
	if err != nil {
		return nil, err
	}
	parsed.Namespace = "data"
	renderer, err := newRenderer()
	if err != nil {
		return nil, err
	}
	nothing := func(string, string) (*unstructured.Unstructured, error) { return nil, nil }
	return preview.Planned(parsed, dsplan.NewPlanner(renderer, nil), credentials.NewPreview(), nothing)
}

// newRenderer loads the charts, once for all tests.
var newRenderer = sync.OnceValues(func() (*render.Renderer, error) { return render.New(kubeVersion) })

var (
	plansMu sync.Mutex
	plans   map[string][]*unstructured.Unstructured
)

// planned returns what the operator would apply for each of dataServices. The tests that read it share it: it takes seconds.
func planned(t *testing.T) map[string][]*unstructured.Unstructured {
	t.Helper()
	plansMu.Lock()
	defer plansMu.Unlock()
	if plans != nil {
		return plans
	}
	made := map[string][]*unstructured.Unstructured{}
	for name, ds := range dataServices(t) {
		objects, err := plan(ds)
		assert.NilError(t, err, name)
		made[name] = objects
	}
	plans = made
	return plans
}
