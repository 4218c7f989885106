// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/render"
)

// mistakes are errors that the CRD does not refuse: the input, the field with the error, and the message.
var mistakes = []struct{ given, field, message string }{
	{"resources: {requests: {cpu: much}}", "resources", "quantities must match"},
	{"resources: {request: {cpu: 1}}", "resources.request", "no such field"},
	{"resources: {claims: x}", "resources", "cannot unmarshal string"},
	{"size: custom", "resources", "must be set when size is 'custom'"},
	{"{size: small, resources: {limits: {cpu: 1}}}", "resources", "may not be set when size is 'small'"},
	{"securityContext: {runAsRoot: true}", "securityContext.runAsRoot", "no such field"},
	{"podSecurityContext: {fsGroup: users}", "podSecurityContext", "cannot unmarshal string"},
	{"affinity: {podAffinity: {required: []}}", "affinity.podAffinity.required", "no such field"},
	{"envs: [{name: A}, {name: 'A=B'}]", "envs[1].name", "environment variable name"},
	{"envs: [{name: A, valueFrom: {secret: x}}]", "envs[0].valueFrom.secret", "no such field"},
	{"envFrom: [{configMap: {name: a}}]", "envFrom[0].configMap", "no such field"},
	{"volumeMounts: [{name: a}]", "volumeMounts[0].mountPath", "must be set"},
	{"volumeMounts: [{mountPath: /a}]", "volumeMounts[0].name", "must be set"},
	{"volumes: [{name: A, emptyDir: {}}]", "volumes[0].name", "RFC 1123"},
	{"volumes: [{name: a, empty: {}}]", "volumes[0].empty", "did you mean 'emptyDir'?"},
	{"initContainers: [{name: a}]", "initContainers[0].image", "must be set"},
	{"sidecars: [{image: a}]", "sidecars[0].name", "RFC 1123"},
	{"sidecars: [{name: a, image: b, imagePullPolice: Always}]", "sidecars[0].imagePullPolice", "no such field"},
	{"sidecars: [{name: a, image: b, ports: [{containerPort: 1}, {containerPort: 1, protocol: UDP}, {name: c, containerPort: 1, protocol: TCP}]}]", "sidecars[0].ports[2].containerPort", "must be unique: 1/TCP is also the port of ports[0]"},
	{"initContainers: [{name: a, image: b, ports: [{name: a, containerPort: 1}, {name: b, containerPort: 1}]}]", "initContainers[0].ports[1].containerPort", "must be unique"},
	{"imagePullSecrets: [{}]", "imagePullSecrets[0].name", "RFC 1123"},
	{"tolerations: [{effekt: NoSchedule}]", "tolerations[0].effekt", "did you mean 'effect'?"},
	{"topologySpreadConstraints: [{maxSkew: a}]", "topologySpreadConstraints[0]", "cannot unmarshal string"},
	{"probes: {path: health}", "probes.path", "must start with '/'"},
	{"probes: {live: {}}", "probes.live", "did you mean 'liveness'?"},
	{"probes: {liveness: {periodSecond: 1}}", "probes.liveness.periodSecond", "did you mean 'periodSeconds'?"},
	{"ports: [{name: 'a b', port: 1}]", "ports[0].name", "must contain only"},
	{"ports: [{name: a, port: 70000}]", "ports[0].port", "between 1 and 65535"},
	{"ports: [{name: a}]", "ports[0].port", "between 1 and 65535"},
	{"ports: [{name: a, port: 1}, {name: a, port: 2}]", "ports[1].name", "must be unique: 'a' is also the name of ports[0]"},
	{"ports: [{name: a, port: 1}, {name: b, port: 1, protocol: TCP}]", "ports[1].port", "must be unique: 1/TCP is also the port of ports[0]"},
	{"ports: [{name: a, port: 9}, {name: http, port: 1}]", "ports[1].name", "'http' is the name of the main port, 80: choose another name, or set port: 80 here"},
	{"ingress: {host: a, className: a b}", "ingress.className", "a lowercase RFC 1123 subdomain"},
	{"ingress: {host: a, tlsSecret: A}", "ingress.tlsSecret", "a lowercase RFC 1123 subdomain"},
	{"ports: [{name: a, port: 1, protocol: HTTP}]", "ports[0].protocol", "TCP, UDP or SCTP"},
	{"ports: [{name: a, port: 1, targetPort: 0}]", "ports[0].targetPort", "between 1 and 65535"},
	{"ports: [{name: a, port: 1, targetPort: 'a b'}]", "ports[0].targetPort", "must contain only"},
	{"ports: [{name: a, port: 1, nodePort: -1}]", "ports[0].nodePort", "between 1 and 65535"},
	{"rollingUpdate: {maxSurge: many}", "rollingUpdate.maxSurge", "must be a number of pods"},
	{"rollingUpdate: {maxUnavailable: -1}", "rollingUpdate.maxUnavailable", "must be a number of pods"},
	{"rollingUpdate: {maxSurge: 0}", "rollingUpdate.maxUnavailable", "must be above 0"},
	{"rollingUpdate: {maxSurge: 0%, maxUnavailable: 00%}", "rollingUpdate.maxUnavailable", "must be above 0"},
	{"rollingUpdate: {partition: 1}", "rollingUpdate.partition", "no such field"},
	{"{minReadySeconds: 30, progressDeadlineSeconds: 30}", "progressDeadlineSeconds", "greater than minReadySeconds"},
	{"{strategy: Recreate, rollingUpdate: {maxSurge: 1}}", "rollingUpdate", "may not be set when strategy is 'Recreate'"},
	{"disruptionBudget: {minAvailable: 1, maxUnavailable: 1}", "disruptionBudget", "either"},
	{"disruptionBudget: {minAvailable: half}", "disruptionBudget.minAvailable", "not 'half'"},
	{"disruptionBudget: {maxUnavailable: 1.5}", "disruptionBudget", "cannot unmarshal"},
	{"configFiles: [{path: a, content: b}]", "configFiles[0].path", "absolute path"},
	{"configFiles: [{path: /a/../b, content: b}]", "configFiles[0].path", "absolute path"},
	{"configFiles: [{path: /a}]", "configFiles[0].content", "one of"},
	{"configFiles: [{path: /a, content: b, secret: c}]", "configFiles[0].content", "one of"},
	{"configFiles: [{path: /a, content: b, key: c}]", "configFiles[0].key", "in a configMap or secret"},
	{"configFiles: [{path: /a, configMap: b, key: 'c d'}]", "configFiles[0].key", "valid config key"},
	{"configFiles: [{path: /a, configMap: B}]", "configFiles[0].configMap", "RFC 1123"},
	{"configFiles: [{path: /a, secret: B}]", "configFiles[0].secret", "RFC 1123"},
	{"configFiles: [{path: /a, content: b}, {path: /a, content: c}]", "configFiles[1].path", "'/a' is also the path of configFiles[0]"},
	{"labels: {app.kubernetes.io/name: a}", "labels[app.kubernetes.io/name]", "the operator's own"},
	{"labels: {d3os-product.com.d3os/kind: a}", "labels[d3os-product.com.d3os/kind]", "the operator's own"},
	{"labels: {d3os-product.com.d3os/backup: mysql}", "labels[d3os-product.com.d3os/backup]", "the operator's own"},
	{"serviceLabels: {a.etcd.database.coreos.com/a: a}", "serviceLabels[a.etcd.database.coreos.com/a]", "the operator's own"},
	{"annotations: {D3os-product.com.d3os/ticket: seed}", "annotations[D3os-product.com.d3os/ticket]", "the operator's own"},
	{"annotations: {redis.middleware.hc.cn/a: b}", "annotations[redis.middleware.hc.cn/a]", "the operator's own"},
	{"labels: {'a b': c}", "labels[a b]", "name part must consist"},
	{"labels: {a: 'b c'}", "labels[a]", "valid label must be"},
	{"serviceLabels: {app.kubernetes.io/instance: a}", "serviceLabels[app.kubernetes.io/instance]", "the operator's own"},
	{"nodeSelector: {a: 'b c'}", "nodeSelector[a]", "valid label must be"},
	{"annotations: {'a b': c}", "annotations[a b]", "name part must consist"},
	{"annotations: {checksum/config: c}", "annotations[checksum/config]", "the operator's own"},
	{"serviceAnnotations: {helm.sh/hook: test}", "serviceAnnotations[helm.sh/hook]", "the operator's own"},
	{"ingress: {host: a, annotations: {d3os-product.com.d3os/digest: a}}", "ingress.annotations[d3os-product.com.d3os/digest]", "the operator's own"},
	{"serviceAccountName: 'A B'", "serviceAccountName", "RFC 1123"},
	{"priorityClassName: A", "priorityClassName", "RFC 1123"},
	{"{nodePort: 30000, serviceType: ClusterIP}", "nodePort", "may not be set when serviceType is 'ClusterIP'"},
	{"{ports: [{name: a, port: 1, nodePort: 30000}], serviceType: ClusterIP}", "nodePort", "may not be set when serviceType is 'ClusterIP'"},
	{"{nodePort: 30000, serviceType: Headless}", "nodePort", "may not be set when serviceType is 'Headless'"},
}

func TestMistakesAreNamed(t *testing.T) {
	t.Parallel()
	for _, test := range mistakes {
		t.Run(test.given, func(t *testing.T) {
			t.Parallel()
			spec := test.given
			if !strings.HasPrefix(spec, "{") {
				spec = "{" + spec + "}"
			}
			_, err := try(t, "{web: "+spec+"}", "web")
			var field *render.Error
			assert.Assert(t, errors.As(err, &field), "%v", err)
			assert.Equal(t, field.Field, "spec.web."+test.field)
			assert.Assert(t, is.Contains(field.Message, test.message))
		})
	}
}

// The table mistakes contains a case for each check.
func TestEveryCheckRefusesSomething(t *testing.T) {
	t.Parallel()
	all := maps.Clone(checks)
	maps.Copy(all, serverChecks)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		assert.Assert(t, name == "credentialsSecret" || name == "schedule" || slices.ContainsFunc(mistakes, func(m struct{ given, field, message string }) bool {
			return strings.HasPrefix(m.field, name)
		}), name)
	}
}

// These errors are not in the table mistakes: most are in components other than a service, some depend on a service's kind. An empty field
// means that no error is expected.
func TestMistakesElsewhere(t *testing.T) {
	t.Parallel()
	const (
		ofA            = "spec.additionalServices[a]."
		mysqlElsewhere = "{mysql: {kind: ThirdParty, thirdParty: {url: 'mysql://a"
		redisElsewhere = "{redis: {kind: ThirdParty, thirdParty: {url: 'redis://a"
		members        = "{mysql: {replica: 3, backup: {destination: {claim: {name: a}}, "
		backup         = ", backup: {destination: {claim: {name: a}}}}}"
	)
	for _, test := range []struct {
		of          dsv1.ComponentName
		spec, field string
	}{
		{"a", "{additionalServices: [{name: a, kind: Deployment, image: b, sidecars: [{}]}]}", ofA + "sidecars[0].image"},
		{"a", "{cronJobs: [{name: a, schedule: '@daily', image: c, volumes: [{nam: x}]}]}", "spec.cronJobs[a].volumes[0].nam"},
		{"eureka", "{eureka: {tolerations: [{key: 1}]}}", "spec.eureka.tolerations[0]"},
		{"mysql", "{mysql: {credentialsSecret: A}}", "spec.mysql.credentialsSecret"},
		{"mysql", "{mysql: {initScripts: [{name: a}, {name: a b}]}}", "spec.mysql.initScripts[1].name"},
		{"mysql", "{mysql: {initScripts: [{name: a}, {name: ../b}]}}", "spec.mysql.initScripts[1].name"},
		{"mysql", mysqlElsewhere + "', secretRef: {name: A}}}}", "spec.mysql.thirdParty.secretRef.name"},
		{"mysql", mysqlElsewhere + ":1', secretRef: {name: b/c}}}}", "spec.mysql.thirdParty.secretRef.name"},
		{"mysql", mysqlElsewhere + ":0'}}}", "spec.mysql.thirdParty.url"},
		{"mysql", `{mysql: {config: {a: "b\nc"}}}`, "spec.mysql.config[a]"},
		{"mysql", `{mysql: {config: {"#a": b}}}`, "spec.mysql.config[#a]"},
		{"mysql", `{mysql: {config: {a: "1 # the limit"}}}`, "spec.mysql.config[a]"},
		{"uuc", "{uuc: {thirdParty: {url: 'http://a:65536'}}}", "spec.uuc.thirdParty.url"},
		{"web", "{web: {}, defaults: {nodeSelector: {'a b': c}}}", "spec.defaults.nodeSelector[a b]"},
		{"web", "{web: {}, networkPolicy: {enabled: true, allowFrom: [{}, {pods: {}}]}}", "spec.networkPolicy.allowFrom[1].pods"},
		{"a", "{additionalServices: [{name: a, image: b, kind: StatefulSet, rollingUpdate: {maxUnavailable: 1}}]}", ofA + "rollingUpdate"},
		{"a", "{additionalServices: [{name: a, kind: StatefulSet, image: b, strategy: Recreate}]}", ofA + "strategy"},
		{"a", "{additionalServices: [{name: a, kind: DaemonSet, image: b, autoscaling: {max: 3}}]}", ofA + "autoscaling"},

		{"redis", "{redis: {resources: {limit: {}}, size: custom}}", "spec.redis.resources.limit"},
		{"redis", "{redis: {resources: {}}}", ""},
		{"redis", "{redis: {size: custom}}", "spec.redis.resources"},
		{"redis", "{redis: {affinity: {nodeAffinities: {}}}}", "spec.redis.affinity.nodeAffinities"},
		{"redis", "{redis: {podTemplate: {spec: {container: []}}}}", "spec.redis.podTemplate.spec.container"},
		{"redis", "{redis: {labels: {'a b': c}}}", "spec.redis.labels[a b]"},
		{"redis", "{redis: {annotations: {d3os-product.com.d3os/ticket: seed}}}", "spec.redis.annotations[d3os-product.com.d3os/ticket]"},
		{"etcd", "{etcd: {podTemplate: {metadata: {annotations: {d3os-product.com.d3os/ticket: seed}}}}}", "spec.etcd.podTemplate.metadata.annotations"},
		{"web", "{defaults: {labels: {d3os-product.com.d3os/kind: a}}, web: {}}", "spec.defaults.labels[d3os-product.com.d3os/kind]"},
		{"redis", "{redis: {credentialsSecret: A_B}}", "spec.redis.credentialsSecret"},
		{"redis", redisElsewhere + ":0'}}}", "spec.redis.thirdParty.url"},
		{"redis", redisElsewhere + ":1,b:65536'}}}", "spec.redis.thirdParty.url"},
		{"redis", redisElsewhere + ",'}}}", "spec.redis.thirdParty.url"},
		{"redis", redisElsewhere + "', secretRef: {name: A_B}}}}", "spec.redis.thirdParty.secretRef.name"},
		{"redis", "{redis: {kind: ThirdParty}}", "spec.redis.thirdParty"},
		{"redis", "{redis: {}, additionalServices: [{name: redis, image: a}]}", "spec.additionalServices[redis].name"},
		{"redis", "{redis: {name: a}, additionalServices: [{name: a, image: a}]}", ofA + "name"},
		{"redis", "{redis: {dependsOn: [redis]}}", "spec.redis.dependsOn"},
		{"redis", "{redis: {}, networkPolicy: {enabled: true, allowFrom: [{podSelectors: {}}]}}", "spec.networkPolicy.allowFrom[0].podSelectors"},
		{"redis", "{redis: {}, defaults: {tolerations: [{keys: a}]}}", "spec.defaults.tolerations[0].keys"},
		{"redis", redisElsewhere + "'}, tolerations: [{keys: a}]}}", "spec.redis.tolerations[0].keys"},
		{"redis", "{redis: {podTemplate: {metadata: {labels: {$patch: replace}}}}}", ""},
		{"redis", "{redis: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotCare}]}}", ""},

		{"mysql", "{mysql: {name: " + strings.Repeat("a", 45) + backup, "spec.mysql.name"},
		{"mysql", "{mysql: {name: " + strings.Repeat("a", 44) + backup, ""},
		{"mysql", "{mysql: {name: " + strings.Repeat("a", 50) + "}}", ""},
		{"mysql", members + "maxLockWait: 1m}}}", "spec.mysql.backup.maxLockWait"},
		{"mysql", members + "pointInTime: {daysOnServer: 7}}}}", "spec.mysql.backup.pointInTime.daysOnServer"},
		{"mysql", members + "verify: {schedule: '@daily', size: 9Gi}}}}", "spec.mysql.backup.verify.size"},
		{"mysql", members + "verify: {schedule: '@daily', storageClassName: a}}}}", "spec.mysql.backup.verify.storageClassName"},
		{"mysql", members + "resources: {limit: {}}}}}", "spec.mysql.backup.resources.limit"},
		{"mysql", members + "podTemplate: {spec: {container: []}}}}}", "spec.mysql.backup.podTemplate.spec.container"},
		{"mysql", members + "maxLockWait: 10s, method: Files, pointInTime: {daysOnServer: 3}, verify: {schedule: '@daily'}}}}", ""},

		{"etcd", "{etcd: {size: custom}}", "spec.etcd.resources"},
		{"etcd", "{etcd: {podTemplate: {spec: {container: []}}}}", "spec.etcd.podTemplate.spec.container"},
		{"etcd", "{etcd: {kind: ThirdParty}}", "spec.etcd.thirdParty"},
		{"etcd", "{etcd: {kind: ThirdParty, thirdParty: {url: 'http://a:70000'}}}", "spec.etcd.thirdParty.url"},
		{"etcd", "{networkPolicy: {enabled: true, allowFrom: [{pods: {}}]}, etcd: {}}", "spec.networkPolicy.allowFrom[0].pods"},
		{"etcd", "{etcd: {}, redis: {name: etcd}}", "spec.etcd.name"},
		{"etcd", "{etcd: {podTemplate: {metadata: {labels: {$patch: replace}}}}}", ""},

		{"mongodb", "{mongodb: {size: custom}}", "spec.mongodb.resources"},
		{"mongodb", "{mongodb: {podTemplate: {spec: {container: []}}}}", ""}, // package plan validates this field
		{"mongodb", "{mongodb: {kind: ThirdParty}}", "spec.mongodb.thirdParty"},
		{"mongodb", "{mongodb: {kind: ThirdParty, thirdParty: {url: 'mongodb://a:70000/b'}}}", "spec.mongodb.thirdParty.url"},
		{"mongodb", "{mongodb: {kind: ThirdParty, thirdParty: {url: 'mongodb://a,b:0/c?d=e'}}}", "spec.mongodb.thirdParty.url"},
		{"mongodb", "{mongodb: {kind: ThirdParty, thirdParty: {url: 'mongodb://a', secretRef: {name: A_B}}}}", "spec.mongodb.thirdParty.secretRef.name"},
		{"mongodb", "{mongodb: {credentialsSecret: A_B}}", "spec.mongodb.credentialsSecret"},
		{"mongodb", "{mongodb: {config: {net.port: 1}}}", "spec.mongodb.config"},
		{"mongodb", "{mongodb: {config: {net: {port: 1}}}}", "spec.mongodb.config"},
		{"mongodb", "{mongodb: {config: {storage: {dbPath: /a}}}}", "spec.mongodb.config"},
		{"mongodb", "{mongodb: {config: {replication.replSetName: a}}}", "spec.mongodb.config"},
		{"mongodb", "{mongodb: {config: {storage.wiredTiger: {engineConfig.cacheSizeGB: 1}, net: {maxIncomingConnections: 9}}}}", ""},
		{"mongodb", "{networkPolicy: {enabled: true, allowFrom: [{pods: {}}]}, mongodb: {}}", "spec.networkPolicy.allowFrom[0].pods"},
		{"mongodb", "{mongodb: {name: etcd}, etcd: {}}", "spec.mongodb.name"},
		{"mongodb", "{mongodb: {dependsOn: [mongodb]}}", "spec.mongodb.dependsOn"},
	} {
		t.Run(test.spec, func(t *testing.T) {
			t.Parallel()
			_, err := try(t, test.spec, test.of)
			if test.field == "" {
				assert.NilError(t, err)
				return
			}
			var field *render.Error
			assert.Assert(t, errors.As(err, &field), "%v", err)
			assert.Equal(t, field.Field, test.field)
		})
	}
}
