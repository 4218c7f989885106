// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/test/apiserver"
)

const crdFile = "../../../config/crd/bases/etcd.database.coreos.com_etcdclusters.yaml"

// api is a client of a real API server that has the CRD. It refuses unknown fields.
var api client.Client

func TestMain(m *testing.M) {
	apiserver.Main(m, []string{crdFile}, apiserver.StrictInto(&api, AddToScheme))
}

// resourceOf is a EtcdCluster with a spec in YAML.
func resourceOf(t *testing.T, name, spec string) *unstructured.Unstructured {
	t.Helper()
	content := map[string]any{}
	assert.NilError(t, yaml.Unmarshal([]byte(spec), &content), "%s", spec)
	object := &unstructured.Unstructured{Object: map[string]any{"spec": content}}
	object.SetGroupVersionKind(GroupVersion.WithKind(Kind))
	object.SetName(name)
	object.SetNamespace("default")
	return object
}
