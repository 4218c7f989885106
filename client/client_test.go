// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/client/applyconfiguration"
	"d3os.com/d3os-operator/client/clientset/versioned/fake"
	"d3os.com/d3os-operator/client/clientset/versioned/scheme"
	"d3os.com/d3os-operator/client/informers/externalversions"
)

// Each kind and version of the CRDs has a client, under the group and the plural name that the API server serves.
func TestEveryKindHasAClient(t *testing.T) {
	files, err := filepath.Glob("../config/crd/bases/*.yaml")
	assert.NilError(t, err)
	assert.Assert(t, len(files) > 5)
	informers := externalversions.NewSharedInformerFactory(fake.NewSimpleClientset(), 0)
	for _, file := range files {
		data, err := os.ReadFile(file)
		assert.NilError(t, err)
		var crd struct {
			Spec struct {
				Group    string
				Names    struct{ Kind, Plural string }
				Versions []struct{ Name string }
			}
		}
		assert.NilError(t, yaml.Unmarshal(data, &crd))
		for _, version := range crd.Spec.Versions {
			group := schema.GroupVersion{Group: crd.Spec.Group, Version: version.Name}
			_, err := informers.ForResource(group.WithResource(crd.Spec.Names.Plural))
			assert.NilError(t, err)
			assert.Assert(t, scheme.Scheme.Recognizes(group.WithKind(crd.Spec.Names.Kind)), "%s: %s", group, crd.Spec.Names.Kind)
			assert.Assert(t, applyconfiguration.ForKind(group.WithKind(crd.Spec.Names.Kind)) != nil, "%s: %s", group, crd.Spec.Names.Kind)
		}
	}
}

// The apply configuration of a kind sends each field of a resource unchanged, also fields that the CRD does not describe.
func TestApplyConfigurationsAreWhole(t *testing.T) {
	for _, file := range []string{"everything.yaml", "etcd/production.yaml", "mysql/production.yaml", "redis/cache.yaml", "backup/restore.yaml"} {
		data, err := os.ReadFile("../config/samples/" + file)
		assert.NilError(t, err)
		var head metav1.TypeMeta
		assert.NilError(t, yaml.Unmarshal(data, &head))
		configuration := applyconfiguration.ForKind(head.GroupVersionKind())
		assert.NilError(t, yaml.UnmarshalStrict(data, configuration), file)
		sent, err := json.Marshal(configuration)
		assert.NilError(t, err)
		var want, got map[string]any
		assert.NilError(t, yaml.Unmarshal(data, &want))
		assert.NilError(t, json.Unmarshal(sent, &got))
		assert.DeepEqual(t, got, withoutNull(want))
	}
}

// withoutNull removes fields that are null, which count as not given.
func withoutNull(fields map[string]any) map[string]any {
	for name, value := range fields {
		if value == nil {
			delete(fields, name)
		}
		if inner, ok := value.(map[string]any); ok {
			withoutNull(inner)
		}
	}
	return fields
}
