// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/test/apiserver"
)

const crdFile = "../../../config/crd/bases/etcd.database.coreos.com_etcdclusters.yaml"

// api is a client of a real API server that has the CRD. It refuses unknown fields.
var api client.Client

func TestMain(m *testing.M) {
	apiserver.Main(m, []string{crdFile}, apiserver.StrictInto(&api, AddToScheme))
}

var gvk = GroupVersion.WithKind(Kind)

func resourceOf(t *testing.T, name, spec string) *unstructured.Unstructured {
	t.Helper()
	return apiserver.ResourceOf(t, gvk, name, spec)
}
