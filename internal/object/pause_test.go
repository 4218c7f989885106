// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package object_test

import (
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/test/apiserver"
)

// Each kind that can be a part of a resource has the field that pauses it.
func TestResourcesCanBePaused(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../config/crd/bases/*.yaml")
	assert.NilError(t, err)
	fields := map[schema.GroupVersionKind]apiextensionsv1.JSONSchemaProps{}
	for _, file := range files {
		crd := apiserver.ReadCRD(t, file)
		version := crd.Spec.Versions[0]
		fields[schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind}] = version.Schema.OpenAPIV3Schema.Properties["spec"]
	}
	for _, kind := range object.Resources {
		assert.Equal(t, fields[kind].Properties[object.PauseField(object.Empty(kind))].Type, "boolean", "%s", kind)
	}
}
