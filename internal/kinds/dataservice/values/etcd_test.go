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

const locks = "additionalServices: [{name: reports, image: a, dependsOn: [etcd]}]"

// A service finds etcd by one address, whichever members come and go, and the Secret with its certificate.
func TestConnectionsToEtcd(t *testing.T) {
	t.Parallel()
	const secrets = "serverSecret: a, peerSecret: b, clientSecret: c"
	for spec, want := range map[string]struct{ urls, secret string }{
		"{}":                                      {"http://etcd.data.svc:2379", ""},
		"{name: store, replicas: 7}":              {"http://store.data.svc:2379", ""},
		"{tls: {mode: 'Off'}}":                    {"http://etcd.data.svc:2379", ""},
		"{name: store, tls: {mode: Auto}}":        {"https://store.data.svc:2379", "store-client-tls"},
		"{tls: {mode: Secrets, " + secrets + "}}": {"https://etcd.data.svc:2379", "c"},
		"{kind: ThirdParty, tls: {mode: Auto}, thirdParty: {url: 'http://a,b:7000,[2001:db8::1]'}}": {"http://a:2379,http://b:7000,http://[2001:db8::1]:2379", ""},
		"{kind: ThirdParty, thirdParty: {url: 'https://a', tlsSecret: d}}":                          {"https://a:2379", "d"},
	} {
		_, service, err := buildOf(t, component.Etcd, "{etcd: "+spec+", "+locks+"}", Credentials{})
		assert.NilError(t, err, spec)
		assert.DeepEqual(t, service["endpoints"], map[string]any{"etcd": map[string]any{"urls": want.urls}})
		if want.secret == "" {
			assert.Assert(t, service["credentials"] == nil, spec)
			continue
		}
		assert.DeepEqual(t, service["credentials"], map[string]any{"etcd": map[string]any{"secretName": want.secret}})
		assert.Assert(t, service["annotations"] == nil, "a renewed certificate restarts nothing")
	}
	_, service, err := buildOf(t, component.Etcd, "{etcd: {tls: {mode: Auto}}, additionalServices: [{name: reports, image: a}]}", Credentials{})
	assert.NilError(t, err)
	assert.Assert(t, service["endpoints"] == nil && service["credentials"] == nil, "a service that does not name etcd gets nothing of it")
	named, _, err := buildOf(t, component.Etcd, "{additionalServices: [{name: etcd, image: a}]}", Credentials{})
	assert.NilError(t, err)
	assert.Equal(t, named["image"], "a", "a service of the user's own may be called etcd")
}

// What an EtcdCluster has no field for is in its podTemplate, below what the author writes there.
func TestPodsOfEtcd(t *testing.T) {
	t.Parallel()
	etcd, _, err := buildOf(t, component.Etcd, `{defaults: {labels: {team: data, tier: other}}, etcd: {priorityClassName: high, annotations: {a: b},
		podTemplate: {metadata: {labels: {tier: locks}}, spec: {$patch: merge}}}}`, Credentials{})
	assert.NilError(t, err)
	assert.DeepEqual(t, etcd["spec"].(map[string]any)["podTemplate"], map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"team": "data", "tier": "locks"}, "annotations": map[string]any{"a": "b"}},
		"spec":     map[string]any{"$patch": "merge", "priorityClassName": "high"},
	})
}

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
	for _, spec := range []string{"{replicas: 0}", "{tls: {mode: Auto}}", "{tls: {mode: Secrets, serverSecret: a, peerSecret: b, clientSecret: c}, storage: {size: 1Gi}}"} {
		etcd, _, err := buildOf(t, component.Etcd, "{etcd: "+spec+"}", Credentials{})
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

// The probe connects: a request over TLS would take a certificate.
func TestEtcdElsewhere(t *testing.T) {
	t.Parallel()
	etcd, _, err := buildOf(t, component.Etcd,
		"{etcd: {kind: ThirdParty, image: x, replicas: 5, config: {a: b}, thirdParty: {url: 'https://a.example.com,b.example.com:7000', tlsSecret: c, checkCMD: 'exit 0'}}}", Credentials{})
	assert.NilError(t, err)
	assert.Equal(t, etcd["name"], "etcd-external")
	assert.Equal(t, etcd["url"], "tcp://a.example.com:2379,b.example.com:7000")
	assert.Equal(t, etcd["checkCommand"], "exit 0")
	assert.DeepEqual(t, etcd["credentials"], map[string]any{"etcd": map[string]any{"secretName": "c"}})
	for _, name := range []string{"replicas", "config", "storage", "size", "tls", "recovery"} {
		assert.Assert(t, etcd[name] == nil, "%s is not the probe's", name)
	}
}

func TestMistakesInEtcd(t *testing.T) {
	t.Parallel()
	for text, field := range map[string]string{
		"{etcd: {resources: {limit: {}}, size: custom}}":                      "spec.etcd.resources.limit",
		"{etcd: {size: custom}}":                                              "spec.etcd.resources",
		"{etcd: {affinity: {nodeAffinities: {}}}}":                            "spec.etcd.affinity.nodeAffinities",
		"{etcd: {podTemplate: {spec: {container: []}}}}":                      "spec.etcd.podTemplate.spec.container",
		"{etcd: {kind: ThirdParty}}":                                          "spec.etcd.thirdParty",
		"{etcd: {kind: ThirdParty, thirdParty: {url: 'http://a:70000'}}}":     "spec.etcd.thirdParty.url",
		"{etcd: {kind: ThirdParty, thirdParty: {url: 'http://a,'}}}":          "spec.etcd.thirdParty.url",
		"{networkPolicy: {enabled: true, allowFrom: [{pods: {}}]}, etcd: {}}": "spec.networkPolicy.allowFrom[0].pods",
		"{etcd: {}, redis: {name: etcd}}":                                     "spec.etcd.name",
		"{etcd: {podTemplate: {metadata: {labels: {$patch: replace}}}}}":      "",
	} {
		mistakeIn(t, component.Etcd, text, field)
	}
}
