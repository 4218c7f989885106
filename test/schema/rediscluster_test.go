// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
)

// redisAccepted are specs that the API server accepts.
var redisAccepted = []string{
	"{}",
	"{replicas: 7}", "{replicas: 0}", "{replicas: 1}", "{replicas: 3}", "{replicas: 4}",
	"{progressDeadlineSeconds: 600}", "{progressDeadlineSeconds: null}",
	"{pod: [{affinity: {nodeAffinity: null, podAffinity: null, podAntiAffinity: {}, requiredDuringSchedulingIgnoredDuringExecution: " + nodes + "}}]}",
	"{pod: [{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: " + nodes + "}, requiredDuringSchedulingIgnoredDuringExecution: null}}]}",
	"{pod: [{resources: {requests: {storage: 20Gi}}}]}",
	"{version: 3.2.8}", // the operator, not the API server, refuses an old version
	"{finalizers: retain, updateStrategy: {type: AutoReceive, pipeline: '1000'}}",
	"{updateStrategy: {type: AssignReceive, assignStrategies: [{slots: 1, fromReplicas: a}]}}",
	"{config: {maxmemory-policy: allkeys-lru, cluster-node-timeout: '15000', save: ''}}",
	"{pod: [{volumes: {type: hostPath}}], storage: {size: 1Gi, storageClassName: fast}}",
	"{pod: [{volumes: {type: nfs, persistentVolumeClaimName: pvcName}}]}",
	"{pod: [], config: null, updateStrategy: null, podTemplate: null, tls: null, version: null, repository: null, finalizers: null, credentialsSecret: null}",
	"{tls: {enabled: false}, networkPolicy: {enabled: true, allowFrom: [{podSelector: {}}], additionalPorts: [15008, 65535]}}",
	"{podTemplate: {spec: {hostAliases: [{ip: 192.0.2.1}]}}, antiAffinity: Hard, size: large}",
}

// nodes selects nodes by a label.
const nodes = "{nodeSelectorTerms: [{matchExpressions: [{key: HC_Status, operator: In, values: [C]}]}]}"

// redisRefused are specs that the API server refuses, with its messages.
var redisRefused = map[string]string{
	"{networkPolicy: {additionalPorts: [15008, 16379]}}": "16379 is for the cluster's own pods alone",
	"{networkPolicy: {additionalPorts: [0]}}":            "greater than or equal to 1",
	"{networkPolicy: {additionalPorts: [65536]}}":        "less than or equal to 65535",
	"{networkPolicy: {additionalPorts: [15008, 15008]}}": "Duplicate value",
	"{replicas: 2}":                "must not be 2: use 1 (one pod with all slots, for development), 3",
	"{progressDeadlineSeconds: 0}": "greater than or equal to 1",
	"{replicas: -1}":               "greater than or equal to 0",
	"{pod: [{affinity: {requiredDuringSchedulingIgnoredDuringExecution: " + nodes + ", nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: " + nodes + "}}}]}": "keep the one of nodeAffinity",
	"{replicas: 301}":                      "less than or equal to 300",
	"{finalizers: Foreground}":             "spec.finalizers",
	"{version: latest}":                    "spec.version",
	"{repository: 'a b'}":                  "spec.repository",
	"{updateStrategy: {pipeline: '0'}}":    "pipeline",
	"{updateStrategy: {pipeline: '1001'}}": "pipeline",
	"{updateStrategy: {pipeline: 100}}":    "pipeline",
	"{updateStrategy: {type: Other}}":      "type",
	"{updateStrategy: {assignStrategies: [{slots: 1, fromReplicas: a}]}}":                          "may only be set when type is 'AssignReceive'",
	"{updateStrategy: {type: AssignReceive, assignStrategies: [{slots: 0, fromReplicas: a}]}}":     "slots",
	"{updateStrategy: {type: AssignReceive, assignStrategies: [{slots: 16385, fromReplicas: a}]}}": "slots",
	"{updateStrategy: {type: AssignReceive, assignStrategies: [{slots: 1, fromReplicas: ''}]}}":    "fromReplicas",
	"{pod: [{}, {}]}": "pod must have one entry",
	"{pod: [{labels: {app.kubernetes.io/name: a}}]}":                     "the operator's own",
	"{pod: [{volumes: {type: emptyDir}}]}":                               "type",
	"{pod: [{volumes: {persistentVolumeClaimName: a}}]}":                 "may only be set when type is 'nfs'",
	"{pod: [{volumes: {type: hostPath, persistentVolumeClaimName: a}}]}": "may only be set when type is 'nfs'",
	"{pod: [{updateStrategy: {type: Recreate}}]}":                        "type",
	"{pod: [{affinity: {nodeAffinty: {}}}]}":                             "unknown field",
	"{storage: {size: 0}}":                                               "size must be a quantity above zero",
	"{storage: {size: big}}":                                             "size",
	"{config: {Maxmemory: 1gb}}":                                         "the name of a setting",
	"{config: {maxmemory: \"1\\nport 1\"}}":                              "spec.config.maxmemory",
	"{config: {port: '1'}}":                                              "a setting that the operator sets itself",
	"{config: {requirepass: a}}":                                         "a setting that the operator sets itself",
	"{config: {cluster-announce-ip: a}}":                                 "a setting that the operator sets itself",
	"{config: {rename-command: a}}":                                      "a setting that the operator sets itself",
	"{config: {appendonly: 'no'}}":                                       "a setting that the operator sets itself",
	"{config: {include: /a}}":                                            "a setting that the operator sets itself",
	"{config: {tls-port: '1'}}":                                          "a setting that the operator sets itself",
	"{tls: {enabled: true}}":                                             "TLS is not supported yet",
	"{antiAffinity: Never}":                                              "spec.antiAffinity",
	"{size: custom}":                                                     "spec.size",
	"{storage: {autoGrow: {limit: 9Gi}}}":                                "limit must not be below size",
	"{storage: {autoGrow: {limit: 20Gi, at: 80}}}":                       "autoGrow.at",
	"{nothing: 1}":                                                       "unknown field",
}

// Fields that determine the volumes cannot change.
var redisChanges = map[string]struct{ From, To, Message string }{
	"claim":          {"{pod: [{volumes: {type: nfs, persistentVolumeClaimName: a}}]}", "{pod: [{volumes: {type: nfs, persistentVolumeClaimName: b}}]}", "persistentVolumeClaimName may not be changed"},
	"claim removed":  {"{pod: [{volumes: {type: nfs, persistentVolumeClaimName: a}}]}", "{}", "may not be changed"},
	"claim added":    {"{}", "{pod: [{volumes: {type: nfs, persistentVolumeClaimName: a}}]}", "may not be changed"},
	"type":           {"{pod: [{volumes: {type: nfs}}]}", "{pod: [{volumes: {type: hostPath}}]}", "type may not be changed"},
	"class":          {"{storage: {storageClassName: a}}", "{storage: {storageClassName: b}}", "a volume stays in its class"},
	"secret":         {"{credentialsSecret: a}", "{credentialsSecret: b}", "nodes with different passwords"},
	"secret removed": {"{credentialsSecret: a}", "{}", "nodes with different passwords"},
	"size":           {"{storage: {size: 1Gi}}", "{storage: {size: 2Gi}}", ""},
	"hostPath added": {"{}", "{pod: [{volumes: {type: hostPath}}]}", ""},
	"replicas":       {"{replicas: 6}", "{replicas: 12}", ""},
	"all else":       {"{version: 7.0.15}", "{version: 7.2.5, pause: true, finalizers: foreground, config: {a: b}, pod: [{env: [{name: A, value: b}]}]}", ""},
}

// redisKind describes the API of RedisCluster.
var redisKind = clusterKind{
	Kind: redisv1.GroupVersion.WithKind(redisv1.Kind), CRD: "../../config/crd/bases/redis.middleware.hc.cn_redisclusters.yaml",
	Accepted: redisAccepted, Refused: redisRefused, Changes: redisChanges,
	Nulls: []string{"{tls: {enabled: null}}"},
	Samples: []string{
		"../../config/samples/redis/cache.yaml", "../../config/samples/redis/development.yaml", "../../test/testdata/seeds/rediscluster.yaml",
	},
	Scales:    []string{"8", "3", "1", "0"}, // 0 parks the cluster
	ShortName: "rec",
	Columns: []string{
		"Ready .status.ready", "Slots .status.slots", "Phase .status.phase", "Message .status.message", "Age .metadata.creationTimestamp",
	},
}

func TestRedisCluster(t *testing.T) {
	t.Parallel()
	redisKind.Test(t)
}

// The status of the earlier operator has an entry for each pod. Several entries may have the type master.
func TestStatusOfTheEarlierRedisOperator(t *testing.T) {
	t.Parallel()
	resource := readResource(t, "../../test/testdata/seeds/rediscluster.yaml")
	conditions, _, err := unstructured.NestedSlice(resource.Object, "status", "conditions")
	assert.NilError(t, err)
	assert.NilError(t, unstructured.SetNestedSlice(resource.Object, append(conditions, conditions[0]), "status", "conditions"))
	assert.NilError(t, api.Create(t.Context(), resource.DeepCopy(), client.DryRunAll))
	assert.NilError(t, api.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(resource), client.DryRunAll, client.FieldOwner("kubectl")))
}

// The Go types decode a RedisCluster with the defaults that the API server has set. The observedGeneration of a new RedisCluster is
// -1, because no operator has observed it.
func TestDefaultsOfRedisCluster(t *testing.T) {
	t.Parallel()
	assert.NilError(t, api.Create(t.Context(), newResource(t, redisKind.Kind, "defaults", "{}")))
	rc := &redisv1.RedisCluster{}
	assert.NilError(t, api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "defaults"}, rc))
	assert.Equal(t, rc.Status.ObservedGeneration, int64(-1))
	assert.Equal(t, *rc.Spec.Replicas, int32(6))
	assert.Equal(t, rc.Spec.Storage.Size.String(), "10Gi")
	rc.Status.Phase, rc.Status.ObservedGeneration = redisv1.PhaseRunning, 1
	assert.NilError(t, api.Status().Update(t.Context(), rc))
	assert.Equal(t, rc.Status.ObservedGeneration, int64(1))
	// A client with Go types sends only fields that its user has set.
	typed := &redisv1.RedisCluster{}
	typed.Namespace, typed.Name = "default", "typed"
	assert.NilError(t, api.Create(t.Context(), typed))
	assert.Equal(t, typed.Spec.Storage.Size.String(), "10Gi")
}
