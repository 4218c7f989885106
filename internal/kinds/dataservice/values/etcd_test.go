// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/config/crd"
	"d3os.com/d3os-operator/internal/kinds/dataservice/component"
)

// All of the EtcdCluster is planned, what the API server fills in as well: the rest is taken for what somebody else wrote.
func TestEverythingOfEtcdIsPlanned(t *testing.T) {
	t.Parallel()
	file, err := crd.Files.ReadFile("bases/etcd.database.coreos.com_etcdclusters.yaml")
	assert.NilError(t, err)
	definition, schema := &apiextensionsv1.CustomResourceDefinition{}, &apiextensions.JSONSchemaProps{}
	assert.NilError(t, yaml.Unmarshal(file, definition))
	assert.NilError(t, apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(definition.Spec.Versions[0].Schema.OpenAPIV3Schema, schema, nil))
	structural, err := structuralschema.NewStructural(schema)
	assert.NilError(t, err)
	for _, spec := range []string{"{replicas: 0}", "{tls: {mode: Auto, additionalNames: [etcd.example.com], rotation: a}}", "{tls: {mode: Secrets, serverSecret: a, peerSecret: b, clientSecret: c}, storage: {size: 1Gi}}"} {
		etcd, err := try(t, "{etcd: "+spec+"}", component.Etcd)
		assert.NilError(t, err)
		completed := map[string]any{"spec": runtime.DeepCopyJSONValue(etcd["spec"])}
		defaulting.Default(completed, structural)
		filled := completed["spec"].(map[string]any)
		// False is told by the plan, for every kind.
		assert.DeepEqual(t, filled["networkPolicy"], map[string]any{"enabled": false})
		assert.Equal(t, filled["paused"], false)
		delete(filled, "networkPolicy")
		delete(filled, "paused")
		assert.DeepEqual(t, filled, etcd["spec"])
	}
}
