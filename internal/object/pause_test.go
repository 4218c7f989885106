// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package object_test

import (
	"testing"

	"gotest.tools/v3/assert"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/config/crd"
	"d3os.com/d3os-operator/internal/object"
)

// Each kind that can be a part of a resource has the field that pauses it.
func TestResourcesCanBePaused(t *testing.T) {
	t.Parallel()
	entries, err := crd.Files.ReadDir("bases")
	assert.NilError(t, err)
	fields := map[string]apiextensionsv1.JSONSchemaProps{}
	for _, entry := range entries {
		file, err := crd.Files.ReadFile("bases/" + entry.Name())
		assert.NilError(t, err)
		definition := &apiextensionsv1.CustomResourceDefinition{}
		assert.NilError(t, yaml.Unmarshal(file, definition))
		for _, version := range definition.Spec.Versions {
			fields[definition.Spec.Group+"/"+version.Name+"/"+definition.Spec.Names.Kind] = version.Schema.OpenAPIV3Schema.Properties["spec"]
		}
	}
	for _, kind := range object.Resources {
		o := object.Empty(kind)
		spec, ok := fields[kind.Group+"/"+kind.Version+"/"+kind.Kind]
		assert.Assert(t, ok, kind)
		assert.Equal(t, spec.Properties[object.PauseField(o)].Type, "boolean", "%s", kind)
	}
}
