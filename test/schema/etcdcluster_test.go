// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"slices"
	"testing"

	"gotest.tools/v3/assert"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
)

// etcdAccepted are specs that the API server accepts.
var etcdAccepted = []string{
	"{}",
	"{replicas: 3, storage: 10Gi}",
	"{replicas: 0}",
	"{replicas: 9, storage: 1}",
	"{version: 3.4.23, registry: registry.example.com:5000/mirror, storageClassName: fast}",
	"{image: registry.example.com/team/etcd:v3.6.16, imagePullSecrets: [{name: a}]}",
	"{image: 'registry:5000/etcd:v3.6.16-amd64', version: 3.6.16}", "{image: 'registry:5000/etcd@sha256:0', version: 3.6.16}", "{image: 'registry:5000/etcd', version: 3.10.0}",
	"{image: 'etcd:latest', version: 3.6.16}", "{image: null, version: 3.6.16}", "{image: 'etcd:v3.6.16@sha256:0', version: 3.6.16}",
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
	"{networkPolicy: {enabled: true, allowFrom: [{podSelector: {}}], additionalPorts: [15008, 65535]}}",
	"{storageClassName: null, version: null, registry: null, image: null, size: null, resources: null, config: null, recovery: null, podTemplate: null, affinity: null}",
	"{podTemplate: {spec: {priorityClassName: high}}}",
	"{progressDeadlineSeconds: 600}", "{progressDeadlineSeconds: null}",
}

// etcdRefused are specs that the API server refuses, with its messages.
var etcdRefused = map[string]string{
	"{networkPolicy: {additionalPorts: [15008, 2380]}}":  "2380 is for the cluster's own pods alone",
	"{networkPolicy: {additionalPorts: [0]}}":            "greater than or equal to 1",
	"{networkPolicy: {additionalPorts: [65536]}}":        "less than or equal to 65535",
	"{networkPolicy: {additionalPorts: [15008, 15008]}}": "Duplicate value",
	"{replicas: -1}":               "greater than or equal to 0",
	"{progressDeadlineSeconds: 0}": "greater than or equal to 1",
	"{replicas: 10}":               "less than or equal to 9",
	"{storage: 0}":                 "storage must be a quantity above zero",
	"{storage: big}":               "storage must be a quantity",
	"{version: 3.6}":               "spec.version",
	"{version: v3.6.16}":           "spec.version",
	"{version: latest}":            "spec.version",
	"{version: 3.3.27}":            "spec.version",
	"{version: 4.0.0}":             "spec.version",
	"{image: 'registry:5000/etcd:v3.4.44', version: 3.6.16}": "the tag must have the version that the field version names",
	"{image: 'etcd:3.6.1@sha256:0', version: 3.6.16}":        "the tag must have the version that the field version names",
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
	"{storage: 10Gi, storageAutoGrow: {limit: 9Gi}}":                "limit must not be below storage",
	"{storageAutoGrow: {limit: much}}":                              "storageAutoGrow.limit in body should match",
	"{storageAutoGrow: {limit: 20Gi, at: 100%}}":                    "storageAutoGrow.at",
	"{storageAutoGrow: {at: 80%}}":                                  "storageAutoGrow.limit",
	"{nothing: 1}":                                                  "unknown field",
}

// Fields that determine the volumes cannot change. TLS cannot be switched on or off while members run.
var etcdChanges = map[string]struct{ From, To, Message string }{
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
}

// etcdKind describes the API of EtcdCluster.
var etcdKind = clusterKind{
	Kind: etcdv1.GroupVersion.WithKind(etcdv1.Kind), CRD: "../../config/crd/bases/etcd.database.coreos.com_etcdclusters.yaml",
	Accepted: etcdAccepted, Refused: etcdRefused, Changes: etcdChanges,
	Nulls: []string{"{tls: {mode: null, additionalNames: null, rotation: null, serverSecret: null}}", "{tls: {mode: Auto, additionalNames: null, rotation: null}}"},
	Samples: []string{
		"../../config/samples/etcd/etcd.yaml", "../../config/samples/etcd/production.yaml",
		"../../internal/etcd/testdata/sample.yaml", "../../test/testdata/seeds/etcdcluster.yaml",
	},
	Scales:    []string{"5", "4", "0"}, // an autoscaler may write an even number; 0 parks the cluster
	TooMany:   "10",
	ShortName: "etcd",
	Columns: []string{
		"Ready .status.ready", "Leader .status.leader", "Version .status.version", "Phase .status.phase", "Message .status.message",
		"Age .metadata.creationTimestamp",
	},
}

func TestEtcdCluster(t *testing.T) {
	t.Parallel()
	etcdKind.Test(t)
}

// An EtcdCluster and spec.etcd of a DataService refuse the same versions, images and flags.
func TestEtcdOfBothKinds(t *testing.T) {
	t.Parallel()
	cluster := readCRD(t, etcdKind.CRD).Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	component := specSchema(t).Properties["etcd"]
	ofImages := func(spec apiextensionsv1.JSONSchemaProps) apiextensionsv1.ValidationRules {
		i := slices.IndexFunc(spec.XValidations, func(rule apiextensionsv1.ValidationRule) bool { return rule.FieldPath == ".image" })
		assert.Assert(t, i >= 0)
		return spec.XValidations[i : i+1]
	}
	assert.DeepEqual(t, ofImages(component), ofImages(cluster))
	limitsOf := func(field apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
		limits := field.DeepCopy()
		if limits.Description = ""; limits.AdditionalProperties != nil {
			limits.AdditionalProperties.Schema.Description = ""
		}
		return limits
	}
	for _, name := range []string{"version", "image", "config"} {
		assert.DeepEqual(t, limitsOf(component.Properties[name]), limitsOf(cluster.Properties[name]))
	}
}

// Once the status shows that a cluster was formed, TLS cannot be switched on or off, even while the cluster is parked.
func TestEncryptionOfAFormedCluster(t *testing.T) {
	t.Parallel()
	ec := &etcdv1.EtcdCluster{}
	o := newResource(t, etcdKind.Kind, "formed", "{replicas: 0}")
	assert.NilError(t, api.Create(t.Context(), o))
	assert.NilError(t, api.Get(t.Context(), client.ObjectKeyFromObject(o), ec))
	change := func(mode etcdv1.TLSMode) error {
		ec.Spec.TLS = etcdv1.TLS{Mode: mode}
		return api.Update(t.Context(), ec)
	}
	assert.NilError(t, change(etcdv1.TLSAuto))
	ec.Status.ClusterID = "c1"
	assert.NilError(t, api.Status().Update(t.Context(), ec))
	assert.ErrorContains(t, change(etcdv1.TLSOff), "spec.tls: Invalid value")
	ec.Spec.TLS = etcdv1.TLS{Mode: etcdv1.TLSSecrets, ServerSecret: "a", PeerSecret: "b", ClientSecret: "c"}
	assert.NilError(t, api.Update(t.Context(), ec))
}

// The Go types decode an EtcdCluster with the defaults that the API server has set. The observedGeneration of a new EtcdCluster is
// -1, because no operator has observed it.
func TestDefaultsOfEtcdCluster(t *testing.T) {
	t.Parallel()
	assert.NilError(t, api.Create(t.Context(), newResource(t, etcdKind.Kind, "defaults", "{}")))
	ec := &etcdv1.EtcdCluster{}
	assert.NilError(t, api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "defaults"}, ec))
	assert.Equal(t, ec.Status.ObservedGeneration, int64(-1))
	assert.Equal(t, *ec.Spec.Replicas, int32(3))
	assert.Equal(t, ec.Spec.Storage.String(), "10Gi")
	assert.Equal(t, ec.Spec.TLS.Mode, etcdv1.TLSOff)
	assert.Equal(t, ec.Spec.Replacement.After, "5m")
	assert.Equal(t, ec.Spec.Maintenance.DefragThreshold, "45%")
	ec.Status.Phase, ec.Status.ObservedGeneration = etcdv1.PhaseRunning, 1
	assert.NilError(t, api.Status().Update(t.Context(), ec))
	assert.Equal(t, ec.Status.ObservedGeneration, int64(1))
	// A client with Go types sends only fields that its user has set.
	typed := &etcdv1.EtcdCluster{}
	typed.Namespace, typed.Name = "default", "typed"
	assert.NilError(t, api.Create(t.Context(), typed))
	assert.Equal(t, *typed.Spec.Replicas, int32(3))
}
