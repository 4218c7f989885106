// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"gotest.tools/v3/assert"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// crds holds every CRD of the operator and of config/compat by its file.
var crds = sync.OnceValues(func() (map[string]*apiextensionsv1.CustomResourceDefinition, error) {
	files, err := filepath.Glob("../../config/c*/bases/*.yaml")
	found := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		found[file] = &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(data, found[file]); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return found, err
})

// readCRD returns the CRD of a file, with its only version. Tests share it and must not change it.
func readCRD(t *testing.T, file string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	all, err := crds()
	assert.NilError(t, err)
	assert.Assert(t, all[file] != nil, file)
	assert.Equal(t, len(all[file].Spec.Versions), 1)
	return all[file]
}

// allCRDs returns all CRDs, in the order of their files.
func allCRDs(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	all, err := crds()
	assert.NilError(t, err)
	var sorted []*apiextensionsv1.CustomResourceDefinition
	for _, file := range slices.Sorted(maps.Keys(all)) {
		sorted = append(sorted, all[file])
	}
	return sorted
}

// crdFits fails the test unless a CRD takes at most this percentage of the allowed size of annotations. A client-side kubectl apply stores
// the whole CRD as compact JSON in one annotation. All annotations of an object, with their keys, may have 256 KiB together.
func crdFits(t *testing.T, file string, percents int) {
	t.Helper()
	data, err := os.ReadFile(file)
	assert.NilError(t, err)
	data, err = yaml.YAMLToJSON(data)
	assert.NilError(t, err)
	size := len("kubectl.kubernetes.io/last-applied-configuration") + len(data) + len("\n")
	assert.Assert(t, size < 256<<10*percents/100, "%d bytes", size)
}

// columns returns the columns that kubectl shows, with the paths of their fields.
func columns(crd *apiextensionsv1.CustomResourceDefinition) []string {
	var columns []string
	for _, c := range crd.Spec.Versions[0].AdditionalPrinterColumns {
		columns = append(columns, c.Name+" "+c.JSONPath)
	}
	return columns
}

// newResource returns a resource with a spec in YAML.
func newResource(t *testing.T, kind schema.GroupVersionKind, name, spec string) *unstructured.Unstructured {
	t.Helper()
	content := map[string]any{}
	assert.NilError(t, yaml.Unmarshal([]byte(spec), &content), "%s", spec)
	object := &unstructured.Unstructured{Object: map[string]any{"spec": content}}
	object.SetGroupVersionKind(kind)
	object.SetName(name)
	object.SetNamespace("default")
	return object
}

// readResource reads a resource from a file in the form in which a user creates it.
func readResource(t *testing.T, file string) *unstructured.Unstructured {
	t.Helper()
	data, err := os.ReadFile(file)
	assert.NilError(t, err)
	object := &unstructured.Unstructured{}
	assert.NilError(t, yaml.UnmarshalStrict(data, &object.Object))
	object.SetNamespace("default")
	object.SetUID("")
	object.SetGeneration(0)
	return object
}
