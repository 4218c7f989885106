// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"os"
	"testing"

	"gotest.tools/v3/assert"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// ReadCRD reads a CRD, which has one version.
func ReadCRD(t *testing.T, file string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	data, err := os.ReadFile(file)
	assert.NilError(t, err)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	assert.NilError(t, yaml.UnmarshalStrict(data, crd))
	assert.Equal(t, len(crd.Spec.Versions), 1)
	return crd
}

// CRDFits fails the test unless a CRD takes at most these percents of its annotations, in one of which a client-side
// kubectl apply keeps the whole of it as compact JSON: all annotations together, keys included, may have 256 KiB.
func CRDFits(t *testing.T, file string, percents int) {
	t.Helper()
	data, err := os.ReadFile(file)
	assert.NilError(t, err)
	data, err = yaml.YAMLToJSON(data)
	assert.NilError(t, err)
	size := len("kubectl.kubernetes.io/last-applied-configuration") + len(data) + len("\n")
	assert.Assert(t, size < 256<<10*percents/100, "%d bytes", size)
}

// Columns are those that kubectl shows, with their paths.
func Columns(crd *apiextensionsv1.CustomResourceDefinition) []string {
	var columns []string
	for _, c := range crd.Spec.Versions[0].AdditionalPrinterColumns {
		columns = append(columns, c.Name+" "+c.JSONPath)
	}
	return columns
}

// ResourceOf is a resource with a spec in YAML.
func ResourceOf(t *testing.T, kind schema.GroupVersionKind, name, spec string) *unstructured.Unstructured {
	t.Helper()
	content := map[string]any{}
	assert.NilError(t, yaml.Unmarshal([]byte(spec), &content), "%s", spec)
	object := &unstructured.Unstructured{Object: map[string]any{"spec": content}}
	object.SetGroupVersionKind(kind)
	object.SetName(name)
	object.SetNamespace("default")
	return object
}

// ReadResource reads a resource as a user would create it.
func ReadResource(t *testing.T, file string) *unstructured.Unstructured {
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
