// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"os"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// CRDFits fails the test unless a CRD takes at most half of the annotation of 256 KiB in which a client-side kubectl apply
// keeps the whole of it.
func CRDFits(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	assert.NilError(t, err)
	data, err = yaml.YAMLToJSON(data)
	assert.NilError(t, err)
	assert.Assert(t, len(data) < 256<<10/2, "%d bytes", len(data))
}

// Columns are those that kubectl shows, with their paths.
func Columns(crd *apiextensionsv1.CustomResourceDefinition) []string {
	var columns []string
	for _, c := range crd.Spec.Versions[0].AdditionalPrinterColumns {
		columns = append(columns, c.Name+" "+c.JSONPath)
	}
	return columns
}

// EveryFieldIsDescribed fails the test unless each field at the top of the spec and of the status is described.
func EveryFieldIsDescribed(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	for _, top := range []string{"spec", "status"} {
		for name, property := range crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties[top].Properties {
			assert.Assert(t, strings.HasPrefix(property.Description, name+" "), "%s.%s: %s", top, name, property.Description)
		}
	}
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

// Rules tries specs that the API server takes, specs that it refuses with a message, and names: those of a cluster's pods are
// built from its own, which has 44 letters at most.
func Rules(t *testing.T, api client.Client, kind schema.GroupVersionKind, accepted []string, refused map[string]string) {
	t.Helper()
	for _, spec := range accepted {
		assert.NilError(t, api.Create(t.Context(), ResourceOf(t, kind, "a", spec), client.DryRunAll), "%s", spec)
	}
	for spec, message := range refused {
		err := api.Create(t.Context(), ResourceOf(t, kind, "a", spec), client.DryRunAll)
		assert.ErrorContains(t, err, message, "%s", spec)
	}
	for name, ok := range map[string]bool{"a": true, "a-1": true, "1a": false, "a.b": false, strings.Repeat("a", 44): true, strings.Repeat("a", 45): false} {
		err := api.Create(t.Context(), ResourceOf(t, kind, name, "{}"), client.DryRunAll)
		assert.Equal(t, err == nil, ok, "%s: %v", name, err)
	}
}

// Transitions makes each change of a spec, of a resource of its own. Message is what the API server says to it; nothing if it
// takes it.
func Transitions(t *testing.T, api client.Client, kind schema.GroupVersionKind, changes map[string]struct{ From, To, Message string }) {
	t.Helper()
	for name, c := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := ResourceOf(t, kind, strings.ReplaceAll(strings.ToLower(name), " ", "-"), c.From)
			assert.NilError(t, api.Create(t.Context(), object))
			object.Object["spec"] = ResourceOf(t, kind, "", c.To).Object["spec"]
			err := api.Update(t.Context(), object)
			if c.Message == "" {
				assert.NilError(t, err)
				return
			}
			assert.ErrorContains(t, err, c.Message)
		})
	}
}
