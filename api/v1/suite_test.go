// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/test/apiserver"
)

const crdFile = "../../config/crd/bases/d3os-product.com.d3os_dataservices.yaml"

// api is a client of a real API server that has the CRD. It refuses unknown fields.
var api client.Client

func TestMain(m *testing.M) {
	apiserver.Main(m, []string{crdFile}, apiserver.StrictInto(&api, AddToScheme, scheme.AddToScheme))
}

func readCRD(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	return apiserver.ReadCRD(t, crdFile)
}

func specSchema(t *testing.T) apiextensionsv1.JSONSchemaProps {
	t.Helper()
	return readCRD(t).Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
}

func newNamespace(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}
	assert.NilError(t, api.Create(t.Context(), ns))
	return ns.Name
}

// resourceOf is a DataService with a spec in YAML, such as "mysql: {kind: 0}".
func resourceOf(t *testing.T, spec string) *unstructured.Unstructured {
	t.Helper()
	return apiserver.ResourceOf(t, GroupVersion.WithKind(Kind), "platform", spec)
}

func withSpec(spec map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(GroupVersion.WithKind(Kind))
	object.SetName("platform")
	object.SetNamespace("default")
	return object
}

// validate asks the API server whether it would take a resource.
func validate(t *testing.T, object *unstructured.Unstructured) error {
	t.Helper()
	return api.Create(t.Context(), object, client.DryRunAll)
}

// everything is a valid spec with every component.
func everything(t *testing.T) map[string]any {
	t.Helper()
	return resourceOf(t, `{
		mysql: {}, uuc: {thirdParty: {url: "http://uuc.example.com"}}, eureka: {}, redis: {},
		etcd: {tls: {mode: Secrets, serverSecret: a, peerSecret: b, clientSecret: c}, recovery: {from: Best, token: a}, thirdParty: {url: "https://a"}},
		api-manager: {}, auth: {}, ds-adapter: {}, es-adapter: {},
		trd-adapter: {}, gateway-master: {}, gateway-web: {}, proxy: {}, web: {},
		additionalServices: [{name: reports, image: reports}], cronJobs: [{name: clean-up, image: busybox, schedule: "@daily"}]}`).Object["spec"].(map[string]any)
}
