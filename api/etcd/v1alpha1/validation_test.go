// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"os"
	"reflect"
	"testing"

	"gotest.tools/v3/assert"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/test/apiserver"
)

// accepted are specs that the API server takes.
var accepted = []string{
	"{}",
	"{replicas: 3, storage: 10Gi}",
	"{replicas: 0}",
	"{replicas: 9, storage: 1}",
	"{version: 3.4.23, registry: registry.example.com:5000/mirror, storageClassName: fast}",
	"{image: registry.example.com/team/etcd:v3.6.16, imagePullSecrets: [{name: a}]}",
	"{size: large, resources: {limits: {memory: 4Gi}}, antiAffinity: Hard}",
	"{config: {quota-backend-bytes: '8589934592', heartbeat-interval: '100', experimental-compaction-batch-limit: '10', log-level: debug, enable-grpc-gateway: 'false'}}",
	"{tls: {mode: Auto}}",
	"{tls: {mode: Secrets, serverSecret: a, peerSecret: b, clientSecret: c}}",
	"{tls: {mode: 'Off', serverSecret: null}}",
	"{maintenance: {compaction: {mode: periodic, retention: 1h}, defragThreshold: 0%}}",
	"{maintenance: {compaction: {mode: periodic, retention: '8'}}}",
	"{maintenance: {compaction: {mode: revision, retention: '1000'}}}",
	"{recovery: {from: Best, token: '1'}}",
	"{recovery: {from: my-etcd-cluster-1, token: 2026-01-01.a}, replacement: {after: 1h30m}, paused: true}",
	"{networkPolicy: {enabled: true, allowFrom: [{podSelector: {}}]}}",
	"{storageClassName: null, version: null, registry: null, image: null, size: null, resources: null, config: null, recovery: null, podTemplate: null, affinity: null}",
	"{podTemplate: {spec: {priorityClassName: high}}}",
}

// refused are specs that it does not take, and what it says.
var refused = map[string]string{
	"{replicas: -1}":                                                "greater than or equal to 0",
	"{replicas: 10}":                                                "less than or equal to 9",
	"{storage: 0}":                                                  "storage must be a quantity above zero",
	"{storage: big}":                                                "storage must be a quantity",
	"{version: 3.6}":                                                "spec.version",
	"{version: v3.6.16}":                                            "spec.version",
	"{version: latest}":                                             "spec.version",
	"{registry: 'a b'}":                                             "spec.registry",
	"{size: custom}":                                                "spec.size",
	"{antiAffinity: Never}":                                         "spec.antiAffinity",
	"{config: {--quota-backend-bytes: '1'}}":                        "the name of a flag",
	"{config: {Quota: '1'}}":                                        "the name of a flag",
	"{config: {log-level: \"a\\nb\"}}":                              "spec.config.log-level",
	"{config: {data-dir: /a}}":                                      "a flag that the operator sets itself",
	"{config: {initial-cluster: a}}":                                "a flag that the operator sets itself",
	"{config: {initial-cluster-state: new}}":                        "a flag that the operator sets itself",
	"{config: {force-new-cluster: 'true'}}":                         "a flag that the operator sets itself",
	"{config: {listen-client-urls: a}}":                             "a flag that the operator sets itself",
	"{config: {peer-cert-file: a}}":                                 "a flag that the operator sets itself",
	"{config: {trusted-ca-file: a}}":                                "a flag that the operator sets itself",
	"{config: {client-cert-auth: 'false'}}":                         "a flag that the operator sets itself",
	"{config: {peer-auto-tls: 'true'}}":                             "a flag that the operator sets itself",
	"{config: {strict-reconfig-check: 'false'}}":                    "a flag that the operator sets itself",
	"{config: {max-learners: '3'}}":                                 "a flag that the operator sets itself",
	"{config: {auto-compaction-retention: '1'}}":                    "maintenance.compaction",
	"{config: {unsafe-no-fsync: 'true'}}":                           "a flag that the operator sets itself",
	"{config: {config-file: /a}}":                                   "a flag that the operator sets itself",
	"{tls: {mode: Other}}":                                          "spec.tls.mode",
	"{tls: {mode: Secrets, serverSecret: a}}":                       "must be given when mode is 'Secrets'",
	"{tls: {serverSecret: a}}":                                      "may not be given otherwise",
	"{tls: {mode: Auto, peerSecret: a}}":                            "may not be given otherwise",
	"{maintenance: {defragThreshold: '45'}}":                        "defragThreshold",
	"{maintenance: {compaction: {mode: hourly, retention: '1'}}}":   "mode",
	"{maintenance: {compaction: {mode: revision, retention: 1h}}}":  "a number of revisions",
	"{maintenance: {compaction: {mode: periodic, retention: 1 h}}}": "must be a duration",
	"{maintenance: {compaction: {mode: periodic}}}":                 "retention",
	"{recovery: {from: Best}}":                                      "token",
	"{recovery: {from: '', token: '1'}}":                            "from",
	"{recovery: {from: Worst, token: '1'}}":                         "from",
	"{recovery: {from: Best, token: 'a b'}}":                        "token",
	"{replacement: {after: soon}}":                                  "after",
	"{replacement: {after: '5'}}":                                   "after",
	"{nothing: 1}":                                                  "unknown field",
}

func TestRules(t *testing.T) {
	t.Parallel()
	apiserver.Rules(t, api, gvk, accepted, refused)
}

// What the repository shows people is accepted as it is, and so is what users of the earlier operator have.
func TestSamplesAreAccepted(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"config/samples/etcd/etcd.yaml", "config/samples/etcd/production.yaml", "internal/kinds/etcdcluster/testdata/sample.yaml"} {
		object := apiserver.ReadResource(t, "../../../"+file)
		assert.NilError(t, api.Create(t.Context(), object, client.DryRunAll), file)
	}
}

// What says where data is cannot change, and members that run are never told to talk in two ways.
func TestTransitions(t *testing.T) {
	t.Parallel()
	apiserver.Transitions(t, api, gvk, map[string]struct{ From, To, Message string }{
		"class":            {"{storageClassName: a}", "{storageClassName: b}", "a volume stays in its class"},
		"class removed":    {"{storageClassName: a}", "{}", "a volume stays in its class"},
		"class added":      {"{}", "{storageClassName: a}", "a volume stays in its class"},
		"storage grows":    {"{storage: 1Gi}", "{storage: 2Gi}", ""},
		"storage shrinks":  {"{storage: 2Gi}", "{storage: 1Gi}", "storage may not shrink"},
		"the same storage": {"{storage: 1024Mi}", "{storage: 1Gi}", ""},
		"tls":              {"{}", "{tls: {mode: Auto}}", "only while replicas is 0"},
		"tls off":          {"{tls: {mode: Auto}}", "{}", "only while replicas is 0"},
		"tls and parked":   {"{tls: {mode: Auto}}", "{replicas: 0}", "only while replicas is 0"},
		"tls while parked": {"{replicas: 0}", "{replicas: 0, tls: {mode: Auto}}", ""},
		"the same tls":     {"{tls: {mode: 'Off'}}", "{}", ""},
		"secrets":          {"{tls: {mode: Secrets, serverSecret: a, peerSecret: b, clientSecret: c}}", "{tls: {mode: Secrets, serverSecret: d, peerSecret: b, clientSecret: c}}", ""},
		"all else":         {"{}", "{replicas: 5, version: 3.6.16, paused: true, config: {log-level: debug}, recovery: {from: Best, token: a}}", ""},
	})
}

// What the API server returns decodes, and a fresh resource is not taken for one that the operator has seen.
func TestDefaults(t *testing.T) {
	t.Parallel()
	assert.NilError(t, api.Create(t.Context(), resourceOf(t, "defaults", "{}")))
	ec := &EtcdCluster{}
	assert.NilError(t, api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "defaults"}, ec))
	assert.Equal(t, ec.Status.ObservedGeneration, int64(-1))
	assert.Equal(t, *ec.Spec.Replicas, int32(3))
	assert.Equal(t, ec.Spec.Storage.String(), "10Gi")
	assert.Equal(t, ec.Spec.TLS.Mode, TLSOff)
	assert.Equal(t, ec.Spec.Replacement.After, "5m")
	assert.Equal(t, ec.Spec.Maintenance.DefragThreshold, "45%")
	ec.Status.Phase, ec.Status.ObservedGeneration = PhaseRunning, 1
	assert.NilError(t, api.Status().Update(t.Context(), ec))
	assert.Equal(t, ec.Status.ObservedGeneration, int64(1))
	// A client that writes Go types writes no field that it was not given.
	typed := &EtcdCluster{}
	typed.Namespace, typed.Name = "default", "typed"
	assert.NilError(t, api.Create(t.Context(), typed))
	assert.Equal(t, *typed.Spec.Replicas, int32(3))
}

// The scale subresource changes replicas, within the rules; 0 parks the cluster.
func TestScale(t *testing.T) {
	t.Parallel()
	ec := resourceOf(t, "scaled", "{}")
	assert.NilError(t, api.Create(t.Context(), ec))
	for _, replicas := range []string{"5", "0"} {
		scale := resourceOf(t, "scaled", "{replicas: "+replicas+"}")
		scale.SetAPIVersion("autoscaling/v1")
		scale.SetKind("Scale")
		assert.NilError(t, api.SubResource("scale").Update(t.Context(), ec, client.WithSubResourceBody(scale)))
	}
	got := &EtcdCluster{}
	assert.NilError(t, api.Get(t.Context(), client.ObjectKeyFromObject(ec), got))
	assert.Equal(t, *got.Spec.Replicas, int32(0))
}

func TestTheCRDFitsIntoAnAnnotation(t *testing.T) {
	t.Parallel()
	apiserver.CRDFits(t, crdFile)
}

func TestNamesAndColumns(t *testing.T) {
	t.Parallel()
	crd := apiserver.ReadCRD(t, crdFile)
	assert.DeepEqual(t, crd.Spec.Names.ShortNames, []string{"etcd"})
	version := crd.Spec.Versions[0]
	assert.DeepEqual(t, apiserver.Columns(crd), []string{
		"Ready .status.ready", "Leader .status.leader", "Version .status.version", "Phase .status.phase", "Message .status.message",
		"Age .metadata.creationTimestamp",
	})
	assert.Assert(t, version.Subresources.Status != nil)
	assert.Equal(t, version.Subresources.Scale.SpecReplicasPath, ".spec.replicas")
}

func TestEveryFieldIsDescribed(t *testing.T) {
	t.Parallel()
	apiserver.EveryFieldIsDescribed(t, apiserver.ReadCRD(t, crdFile))
}

// A deep copy shares nothing with what it was made of.
func TestDeepCopy(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../../internal/kinds/etcdcluster/testdata/everything.yaml")
	assert.NilError(t, err)
	ec := &EtcdCluster{}
	assert.NilError(t, yaml.UnmarshalStrict(data, ec))
	list := (&EtcdClusterList{Items: []EtcdCluster{*ec}}).DeepCopyObject()
	copied := &list.(*EtcdClusterList).Items[0]
	assert.Assert(t, reflect.DeepEqual(copied, ec))
	copied.Spec.Config["log-level"] = "changed"
	assert.Assert(t, ec.Spec.Config["log-level"] != "changed")
}
