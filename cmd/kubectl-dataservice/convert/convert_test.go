// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"os"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/test/admit"
)

const (
	appHead  = "apiVersion: app.example.com/v1\nkind: AppService\nmetadata: {name: a}\n"
	boxHead  = "apiVersion: model.github.com/v1\nkind: ModelBox\nmetadata: {name: a}\n"
	cronHead = "apiVersion: stable.example.com/v1\nkind: CronTab\nmetadata: {name: a}\n"
	mongo    = "apiVersion: mongodb.com/v1\nkind: MongoDB\nmetadata: {name: a}\nspec: {members: 3, version: 4.2.6"
)

// One resource of each kind is converted into one DataService. The notes name the fields without a counterpart. The API server accepts the
// DataService.
func TestConvert(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/all.yaml")
	assert.NilError(t, err)
	result, err := Convert(data, Options{Name: "all", Command: []string{"sh", "-c", "date"}})
	assert.NilError(t, err)
	text, err := yaml.Marshal(result.DataService.Object)
	assert.NilError(t, err)
	golden.Assert(t, string(text)+strings.Join(result.Notes, "\n")+"\n", "all.golden")
}

// The API server accepts the converted resource of each row. A row is one line of YAML.
func TestFields(t *testing.T) {
	t.Parallel()
	admitter, err := admit.New()
	assert.NilError(t, err)
	for _, row := range []struct{ given, has, note string }{
		{appHead + "spec: {image: a}", "image: a", "spec.ports: the resource has no ports"},
		{appHead + "spec: {image: a, size: 0}", "replica: 0", ""},
		{appHead + "spec: {image: a, replicas: 3}", "replica: 3", ""},
		{appHead + "spec: {image: a, size: null, resources: {}, envs: null, ports: []}", "name: a", ""},
		{appHead + "spec: {image: a, resources: {limits: {cpu: 500m, memory: 1Gi}}}", "cpu: 500m", ""},
		{appHead + "spec: {image: a, envs: [{name: B, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]}", "fieldPath: status.podIP", ""},
		{appHead + "spec: {image: a, ports: [{port: 80}]}", "serviceType: NodePort", ""},
		{appHead + "spec: {image: a, ports: [{port: 80, targetPort: 8080}]}", "targetPort: 8080", ""},
		{appHead + "spec: {image: a, ports: [{name: dns, port: 53, protocol: UDP}, {port: 80}]}", "protocol: UDP", ""},
		{appHead + "spec: {image: a, ports: [{name: http, port: 80, targetPort: web, appProtocol: h2c}]}", "name: http", `no container has a port of the name "web"`},
		{strings.Replace(appHead, "{name: a}", "{name: a, finalizers: [a/b], annotations: {a: b}}", 1) + "spec: {image: a}", "name: a", "metadata.finalizers: a DataService needs none"},
		{boxHead + "spec: {image: a}", "minReadySeconds: 3", "db-container and init-container"},
		{boxHead + "spec: {image: a, minReadySeconds: 0}", "minReadySeconds: 0", ""},
		{boxHead + "spec: {image: a, readinessProbe: {httpGet: {path: /ready, port: 80}}, livenessProbe: null}", "path: /ready", ""},
		{boxHead + "spec: {image: a, name: a, rollingUpdate: 100%}", "maxSurge: 100%", ""},
		{cronHead + "spec: {image: a, cronSpec: '*/5 * * * *'}", "schedule: '*/5 * * * *'", ""},
		{cronHead + "spec: {image: a, cronSpec: '0 */5 * * * *', replicas: 0}", "suspend: true", ""},
		{cronHead + "spec: {image: a, cronSpec: '* * * * * *', command: [c], args: [d]}", "- d", ""},
		{cronHead + "spec: {image: a, cronSpec: '@daily', suspend: true, replicas: 1, timeZone: null}", "suspend: true", ""},
		{cronHead + "spec: {image: a, cronSpec: '@daily', timeZone: Europe/Berlin}", "timeZone: Europe/Berlin", ""},
		{cronHead + "spec: {image: a, cronSpec: '@daily', concurrencyPolicy: Replace}", "concurrencyPolicy: Replace", ""},
		{cronHead + "spec: {image: a, cronSpec: '@daily', startingDeadlineSeconds: 5, activeDeadlineSeconds: 9}", "startingDeadlineSeconds: 5", ""},
		{cronHead + "spec: {image: a, cronSpec: '@daily', successfulJobsHistoryLimit: 0, failedJobsHistoryLimit: 2}", "successfulJobsHistoryLimit: 0", ""},
		{cronHead + "spec: {image: a, cronSpec: '@daily', resources: {limits: {cpu: 1}}, envs: [{name: A, value: b}]}", "value: b", ""},
		{cronHead + "spec: {image: a, cronSpec: ' @daily', replicas: 2, suspended: true}", "schedule: '@daily'", "spec.suspended: the kind has no such field"},
		{mongo + "}", "version: 4.2.6", ""},
		{strings.Replace(mongo, "mongodb.com/v1\nkind: MongoDB", "mongodbcommunity.mongodb.com/v1\nkind: MongoDBCommunity", 1) + ", type: ReplicaSet}", "replicas: 3", ""},
		{mongo + ", users: [{name: dataservice, db: orders, passwordSecretRef: {name: a}}]}", "database: orders", ""},
		{mongo + ", users: [{name: b, db: b, passwordSecretRef: {name: a, key: password}}]}", "credentialsSecret: a", "spec.users[0].name: the account of the services is dataservice: b stays"},
		{mongo + ", users: [{name: b, db: b, passwordSecretRef: {name: a, key: c}}]}", "database: b", "spec.users[0].passwordSecretRef: the key must be password, but is c"},
		{mongo + ", users: [{name: b, db: B}]}", "name: a", "spec.users[0].db: 'B' cannot be the database of the services"},
		{mongo + ", users: [{name: b, db: b}, {name: c, db: b}]}", "database: b", "spec.users[1]: a DataService has one account: c stays"},
		{mongo + ", users: [{name: b, db: b, connectionStringSecretName: c}]}", "database: b", "spec.users[0].connectionStringSecretName: services get"},
		{mongo + ", additionalMongodConfig: {net.maxIncomingConnections: 9}}", "net.maxIncomingConnections: 9", ""},
		{mongo + ", arbiters: 1}", "name: a", "spec.arbiters: a DataService has no arbiters"},
		{mongo + ", security: {tls: {enabled: true}}}", "name: a", "spec.security.tls: connections are not encrypted"},
		{mongo + ", security: {tls: {enabled: false}, authentication: {modes: [X509]}}}", "name: a", "spec.security.authentication.modes: it is SCRAM"},
		{mongo + ", security: {authentication: {ignoreUnknownUsers: false}}}", "name: a", "spec.security.authentication.ignoreUnknownUsers: its value is true"},
		{mongo + ", statefulSet: {metadata: {labels: {a: b}}, spec: {template: {spec: {nodeSelector: {disk: ssd}}}}}}", "disk: ssd", "spec.statefulSet.metadata: labels"},
		{mongo + ", statefulSet: {spec: {volumeClaimTemplates: [{metadata: {name: data-volume}, spec: {resources: {requests: {storage: 50G}}}}]}}}", "size: 50G", ""},
		{mongo + ", statefulSet: {spec: {serviceName: b, volumeClaimTemplates: [{metadata: {name: data-volume}, spec: {storageClassName: fast}}]}}}", "storageClassName: fast", "spec.statefulSet.spec.serviceName: a DataService cannot change"},
		{mongo + ", statefulSet: {spec: {volumeClaimTemplates: [{metadata: {name: logs-volume}}]}}}", "name: a", "spec.statefulSet.spec.volumeClaimTemplates[0]: a DataService has no field for the volume logs-volume"},
		{"apiVersion: v1\nkind: List\nitems: [{apiVersion: app.example.com/v1alpha1, kind: AppService, metadata: {name: a}, spec: {image: b}}]", "image: b", ""},
	} {
		result, err := Convert([]byte(row.given), Options{})
		assert.NilError(t, err, row.given)
		assert.NilError(t, admitter.Admit(result.DataService.DeepCopy().Object), row.given)
		text, err := yaml.Marshal(result.DataService.Object)
		assert.NilError(t, err)
		assert.Assert(t, strings.Contains(string(text), row.has+"\n"), "%s has no %s", text, row.has)
		assert.Assert(t, strings.Contains(strings.Join(result.Notes, "\n"), row.note), "%v", result.Notes)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"":                "the file has no resource",
		"---\n---\n":      "the file has no resource",
		"a: [":            "read document 1",
		"- a":             "read document 1",
		"kind: CronTab":   "document 1 must have apiVersion and kind",
		"a: b":            "document 1 must have apiVersion and kind",
		appHead:           "AppService a: spec: must be an object",
		appHead + "---\n": "AppService a: spec: must be an object",
		"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}":                                                                   "resource 1 is a Deployment of apps/v1, but must be an AppService",
		"apiVersion: example.com/v1\nkind: AppService\nmetadata: {name: a}":                                                            "resource 1 is a AppService of example.com/v1",
		"apiVersion: app.example.com/v1\nkind: AppService\nspec: {image: a}":                                                           "resource 1, a AppService, must have metadata.name",
		"apiVersion: v1\nkind: List\nitems: [a]":                                                                                       "item 1 of document 1 must be a resource",
		"apiVersion: v1\nkind: List\nitems: a":                                                                                         "read the items of document 1",
		strings.Replace(appHead, "name: a", "name: a, namespace: n", 1) + "spec: {image: a}":                                           "resource 1, a AppService: metadata.name and metadata.namespace must be texts",
		strings.Replace(appHead, "name: a", "name: web", 1) + "spec: {image: a}":                                                       "metadata.name: it is the name of a built-in component",
		strings.Replace(appHead, "name: a", "name: a.b", 1) + "spec: {image: a}":                                                       "metadata.name: a component must have a name",
		strings.Replace(appHead, "name: a", "name: "+strings.Repeat("a", 51), 1) + "spec: {image: a}":                                  "metadata.name: a component must have a name",
		appHead + "spec: {image: a}\n---\n" + boxHead + "spec: {image: a}":                                                             "ModelBox a: metadata.name: AppService a has the same name",
		appHead + "spec: {image: a}\n---\n" + strings.Replace(boxHead, "{name: a}", "{name: b, namespace: c}", 1) + "spec: {image: a}": "metadata.namespace: must be that of the first resource",
		appHead + "spec: {}":                                                         "spec.image: '<nil>' must be the name of an image",
		appHead + "spec: {image: 'a b'}":                                             "spec.image: 'a b' must be",
		appHead + "spec: {image: 1}":                                                 "spec.image: '1' must be",
		appHead + "spec: {image: a, size: -1}":                                       "spec.size: '-1' must be a number from 0 to 1000",
		appHead + "spec: {image: a, size: 1.5}":                                      "spec.size: '1.5' must be",
		appHead + "spec: {image: a, size: '2'}":                                      "spec.size: '2' must be",
		appHead + "spec: {image: a, size: 99999999999}":                              "spec.size: '99999999999' must be",
		appHead + "spec: {image: a, size: 1, replicas: 1}":                           "spec.replicas: may not be set together with spec.size",
		appHead + "spec: {image: a, resources: {request: {}}}":                       "spec.resources.request",
		appHead + "spec: {image: a, resources: many}":                                "spec.resources: must be an object",
		appHead + "spec: {image: a, envs: {A: b}}":                                   "spec.envs: must be a list",
		appHead + "spec: {image: a, envs: [{nam: A}]}":                               "spec.envs[0].nam",
		appHead + "spec: {image: a, ports: 80}":                                      "spec.ports: must be a list",
		appHead + "spec: {image: a, ports: [80]}":                                    "spec.ports[0]",
		appHead + "spec: {image: a, ports: [{port: 80}, {port: 70000}]}":             "spec.ports[1].port: 70000 must be",
		appHead + "spec: {image: a, ports: [{port: 80, nodePort: -1}]}":              "spec.ports[0].nodePort: -1 must be",
		boxHead + "spec: {image: a, rollingUpdate: 0%}":                              "spec.rollingUpdate: '0%' must be a percentage from 1% to 100%",
		boxHead + "spec: {image: a, rollingUpdate: 3}":                               "spec.rollingUpdate: '3' must be",
		cronHead + "spec: {image: a}":                                                "spec.cronSpec: '<nil>' must have five fields",
		cronHead + "spec: {image: a, cronSpec: '* * * *'}":                           "spec.cronSpec: '* * * *' must have five fields",
		cronHead + "spec: {image: a, cronSpec: 'TZ=UTC * * * * *'}":                  "must have five fields",
		cronHead + "spec: {image: a, cronSpec: '* * * * * *'}":                       "for which the command must be known: give it with --command",
		cronHead + "spec: {cronSpec: '* * * * *'}":                                   "spec.image: '<nil>' must be",
		cronHead + "spec: {image: a, cronSpec: '* * * * *', replicas: -1}":           "spec.replicas: '-1' must not be negative",
		cronHead + "spec: {image: a, cronSpec: '* * * * *', suspend: 1}":             "spec.suspend: ",
		cronHead + "spec: {image: a, cronSpec: '* * * * *', command: a}":             "spec.command: ",
		boxHead + "spec: {image: a, livenessProbe: {tcp: {}}}":                       "spec.livenessProbe.tcp",
		cronHead + "spec: {image: a, cronSpec: '* * * * *', replicas: x}":            "spec.replicas: 'x' must be a number",
		mongo + ", type: ShardedCluster}":                                            "spec.type: 'ShardedCluster' must be ReplicaSet",
		mongo + ", credentials: a, opsManager: {}}":                                  `spec.credentials`,
		mongo + ", users: [{name: a, nam: b}]}":                                      "spec.users[0].nam",
		mongo + ", users: a}":                                                        "mongoDBSpec.users",
		mongo + ", statefulSet: {spec: {volumeClaimTemplates: [a]}}}":                "spec.statefulSet.spec.volumeClaimTemplates",
		strings.Replace(mongo, "members: 3", "members: 0", 1) + "}":                  "spec.members: '0' must be a number from 1 to 7",
		strings.Replace(mongo, "members: 3", "members: 8", 1) + "}":                  "spec.members: '8' must be a number from 1 to 7",
		strings.Replace(mongo, "4.2.6", "'4.2'", 1) + "}":                            "spec.version: '4.2' must have three numbers",
		strings.Replace(mongo, "name: a", "name: "+strings.Repeat("a", 45), 1) + "}": "metadata.name: must have at most 44 characters",
		mongo + "}\n---\n" + strings.Replace(mongo, "name: a", "name: b", 1) + "}":   "MongoDB b: kind: a DataService has one replica set of MongoDB",
	} {
		_, err := Convert([]byte(given), Options{})
		assert.ErrorContains(t, err, want, "%s", given)
	}
}
