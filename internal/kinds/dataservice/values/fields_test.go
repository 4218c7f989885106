// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/kinds/dataservice/component"
)

// try builds the values of one component of a spec.
func try(t *testing.T, spec string, name dsv1.ComponentName) (map[string]any, error) {
	t.Helper()
	ds := &dsv1.DataService{}
	assert.NilError(t, yaml.UnmarshalStrict([]byte(spec), &ds.Spec))
	graph, err := component.NewGraph(&ds.Spec)
	assert.NilError(t, err)
	return Build(Input{
		Instance: "platform", Namespace: "data", Graph: graph, Defaults: ds.Spec.Defaults, NetworkPolicy: ds.Spec.NetworkPolicy,
	}, graph.Get(name))
}

// A value passes as it is given, by the name of its field.
func TestFieldsPassThrough(t *testing.T) {
	t.Parallel()
	for _, field := range []string{
		"serviceType: LoadBalancer", "serviceAnnotations: {a.example.com/b: c}", "serviceLabels: {a: b}", "sessionAffinity: ClientIP",
		"size: large", "command: [a, b]", "args: ['']", "env: {A: ''}", "imagePullPolicy: Always", "config: {a.b: c}",
		"strategy: Recreate", "minReadySeconds: 3", "progressDeadlineSeconds: 60", "autoscaling: {min: 2, max: 3, cpu: 4, memory: 5}",
		"ingress: {host: a, path: /, tlsSecret: b, className: c, annotations: {d: e}}",
		"securityContext: {runAsUser: null, readOnlyRootFilesystem: true}", "podSecurityContext: {fsGroup: 1}",
		"affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}",
		"envs: [{name: A, valueFrom: {secretKeyRef: {name: b, key: c}}}, {name: spring.a-b, value: x}]", "envFrom: [{prefix: a, secretRef: {name: b}}]",
		"volumes: [{name: a, emptyDir: {}}]", "volumeMounts: [{name: a, mountPath: /a, subPath: b}]",
		"initContainers: [{name: a, image: b, restartPolicy: Always}]", "sidecars: [{name: a, image: b, ports: [{containerPort: 1}]}]",
		"imagePullSecrets: [{name: a}]", "tolerations: [{operator: Exists}]", "nodeSelector: {a/b: c}", "labels: {a: ''}", "annotations: {A.example.com/x: ' any '}",
		"topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]", "priorityClassName: a.b", "serviceAccountName: c",
		"ports: [{name: a, port: 1, targetPort: b, protocol: UDP, nodePort: 0}, {name: c, port: 2, targetPort: 3}]",
		"probes: {path: /x, startup: {disabled: true}, readiness: {periodSeconds: 1}, liveness: {exec: {command: [a]}}}",
		"rollingUpdate: {maxSurge: 25%, maxUnavailable: 0}", "rollingUpdate: {maxUnavailable: 100%}", "disruptionBudget: {minAvailable: 1}", "disruptionBudget: {disabled: true}",
		"configFiles: [{path: /a/b.c, content: ''}, {path: /d, configMap: e}, {path: /.f, secret: g, key: h}]",
	} {
		if strings.Contains(field, "/.f") {
			field = strings.ReplaceAll(field, "/.f", "/f")
		}
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			want := map[string]any{}
			assert.NilError(t, yaml.Unmarshal([]byte(field), &want))
			v, err := try(t, "{web: {"+field+"}}", "web")
			assert.NilError(t, err)
			for name := range want {
				got, err := yaml.Marshal(v[name])
				assert.NilError(t, err)
				expected, err := yaml.Marshal(want[name])
				assert.NilError(t, err)
				assert.Equal(t, string(got), string(expected))
			}
		})
	}
}

// mistakes are what the CRD does not refuse: field, what it says, and which field is to blame for what.
var mistakes = []struct{ given, field, message string }{
	{"resources: {requests: {cpu: much}}", "resources", "quantities must match"},
	{"resources: {request: {cpu: 1}}", "resources.request", "no such field"},
	{"resources: {claims: x}", "resources", "cannot unmarshal string"},
	{"size: custom", "resources", "size custom takes its amounts from resources"},
	{"{size: small, resources: {limits: {cpu: 1}}}", "resources", "resources are for size custom"},
	{"securityContext: {runAsRoot: true}", "securityContext.runAsRoot", "no such field"},
	{"podSecurityContext: {fsGroup: users}", "podSecurityContext", "cannot unmarshal string"},
	{"affinity: {podAffinity: {required: []}}", "affinity.podAffinity.required", "no such field"},
	{"envs: [{name: A}, {name: 'A=B'}]", "envs[1].name", "environment variable name"},
	{"envs: [{name: A, valueFrom: {secret: x}}]", "envs[0].valueFrom.secret", "no such field"},
	{"envFrom: [{configMap: {name: a}}]", "envFrom[0].configMap", "no such field"},
	{"volumeMounts: [{name: a}]", "volumeMounts[0].mountPath", "must be given"},
	{"volumeMounts: [{mountPath: /a}]", "volumeMounts[0].name", "must be given"},
	{"volumes: [{name: A, emptyDir: {}}]", "volumes[0].name", "RFC 1123"},
	{"volumes: [{name: a, empty: {}}]", "volumes[0].empty", "no such field"},
	{"initContainers: [{name: a}]", "initContainers[0].image", "must be given"},
	{"sidecars: [{image: a}]", "sidecars[0].name", "RFC 1123"},
	{"sidecars: [{name: a, image: b, imagePullPolice: Always}]", "sidecars[0].imagePullPolice", "no such field"},
	{"imagePullSecrets: [{}]", "imagePullSecrets[0].name", "RFC 1123"},
	{"tolerations: [{effekt: NoSchedule}]", "tolerations[0].effekt", "no such field"},
	{"topologySpreadConstraints: [{maxSkew: a}]", "topologySpreadConstraints[0]", "cannot unmarshal string"},
	{"probes: {path: health}", "probes.path", "must start with /"},
	{"probes: {live: {}}", "probes.live", "no such field"},
	{"probes: {liveness: {periodSecond: 1}}", "probes.liveness.periodSecond", "no such field"},
	{"ports: [{name: 'a b', port: 1}]", "ports[0].name", "must contain only"},
	{"ports: [{name: a, port: 70000}]", "ports[0].port", "between 1 and 65535"},
	{"ports: [{name: a}]", "ports[0].port", "between 1 and 65535"},
	{"ports: [{name: a, port: 1}, {name: a, port: 2}]", "ports[1].name", "a is there already"},
	{"ports: [{name: a, port: 1}, {name: b, port: 1, protocol: TCP}]", "ports[1].port", "1/TCP is there already"},
	{"ports: [{name: a, port: 9}, {name: http, port: 1}]", "ports[1].name", "http is the name of the main port"},
	{"ingress: {host: a, className: a b}", "ingress.className", "a lowercase RFC 1123 subdomain"},
	{"ingress: {host: a, tlsSecret: A}", "ingress.tlsSecret", "a lowercase RFC 1123 subdomain"},
	{"ports: [{name: a, port: 1, protocol: HTTP}]", "ports[0].protocol", "TCP, UDP or SCTP"},
	{"ports: [{name: a, port: 1, targetPort: 0}]", "ports[0].targetPort", "between 1 and 65535"},
	{"ports: [{name: a, port: 1, targetPort: 'a b'}]", "ports[0].targetPort", "must contain only"},
	{"ports: [{name: a, port: 1, nodePort: -1}]", "ports[0].nodePort", "between 1 and 65535"},
	{"rollingUpdate: {maxSurge: many}", "rollingUpdate.maxSurge", "neither a number nor a percentage"},
	{"rollingUpdate: {maxUnavailable: -1}", "rollingUpdate.maxUnavailable", "neither a number nor a percentage"},
	{"rollingUpdate: {maxSurge: 0}", "rollingUpdate.maxUnavailable", "must not be 0"},
	{"rollingUpdate: {maxSurge: 0%, maxUnavailable: 00%}", "rollingUpdate.maxUnavailable", "must not be 0"},
	{"rollingUpdate: {partition: 1}", "rollingUpdate.partition", "no such field"},
	{"{minReadySeconds: 30, progressDeadlineSeconds: 30}", "progressDeadlineSeconds", "more than minReadySeconds"},
	{"{strategy: Recreate, rollingUpdate: {maxSurge: 1}}", "rollingUpdate", "Recreate has no rolling update"},
	{"disruptionBudget: {minAvailable: 1, maxUnavailable: 1}", "disruptionBudget", "either"},
	{"disruptionBudget: {minAvailable: half}", "disruptionBudget.minAvailable", "neither"},
	{"disruptionBudget: {maxUnavailable: 1.5}", "disruptionBudget", "cannot unmarshal"},
	{"configFiles: [{path: a, content: b}]", "configFiles[0].path", "absolute path"},
	{"configFiles: [{path: /a/../b, content: b}]", "configFiles[0].path", "absolute path"},
	{"configFiles: [{path: /a}]", "configFiles[0].content", "one of"},
	{"configFiles: [{path: /a, content: b, secret: c}]", "configFiles[0].content", "one of"},
	{"configFiles: [{path: /a, content: b, key: c}]", "configFiles[0].key", "from a configMap or secret"},
	{"configFiles: [{path: /a, configMap: b, key: 'c d'}]", "configFiles[0].key", "valid config key"},
	{"configFiles: [{path: /a, configMap: B}]", "configFiles[0].configMap", "RFC 1123"},
	{"configFiles: [{path: /a, secret: B}]", "configFiles[0].secret", "RFC 1123"},
	{"configFiles: [{path: /a, content: b}, {path: /a, content: c}]", "configFiles[1].path", "/a is there already"},
	{"labels: {app.kubernetes.io/name: a}", "labels[app.kubernetes.io/name]", "the operator's own"},
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
	{"{nodePort: 30000, serviceType: ClusterIP}", "nodePort", "a Service of type ClusterIP has none"},
	{"{ports: [{name: a, port: 1, nodePort: 30000}], serviceType: ClusterIP}", "nodePort", "a Service of type ClusterIP has none"},
	{"{nodePort: 30000, serviceType: Headless}", "nodePort", "a Service of type Headless has none"},
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
			var field *component.FieldError
			assert.Assert(t, errors.As(err, &field), "%v", err)
			assert.Equal(t, field.Field, "spec.web."+test.field)
			assert.Assert(t, is.Contains(field.Message, test.message))
		})
	}
}

// A field that the CRD does not spell out has a case that shows what its check refuses.
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

// What is wrong elsewhere than in a service is named as well.
func TestMistakesElsewhere(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ spec, of, field string }{
		"a service of one's own": {"{additionalServices: [{name: a, kind: Deployment, image: b, sidecars: [{}]}]}", "a", "spec.additionalServices[a].sidecars[0].image"},
		"a cron job":             {"{cronJobs: [{name: a, schedule: b, image: c, volumes: [{nam: x}]}]}", "a", "spec.cronJobs[a].volumes[0].nam"},
		"middleware":             {"{eureka: {tolerations: [{key: 1}]}}", "eureka", "spec.eureka.tolerations[0]"},
		"credentials":            {"{mysql: {credentialsSecret: A}}", "mysql", "spec.mysql.credentialsSecret"},
		"an init script":         {"{mysql: {initScripts: [{name: a}, {name: a b}]}}", "mysql", "spec.mysql.initScripts[1].name"},
		"a Secret elsewhere":     {"{mysql: {kind: 3, thirdParty: {url: 'mysql://a', secretRef: {name: A}}}}", "mysql", "spec.mysql.thirdParty.secretRef.name"},
		"a port beyond 65535":    {"{uuc: {thirdParty: {url: 'http://a:65536'}}}", "uuc", "spec.uuc.thirdParty.url"},
		"port 0":                 {"{mysql: {kind: 3, thirdParty: {url: 'mysql://a:0'}}}", "mysql", "spec.mysql.thirdParty.url"},
		"scripts":                {"{mysql: {initScripts: [{name: a}, {name: ../b}]}}", "mysql", "spec.mysql.initScripts[1].name"},
		"an account":             {"{mysql: {kind: ThirdParty, thirdParty: {url: 'mysql://a:1', secretRef: {name: b/c}}}}", "mysql", "spec.mysql.thirdParty.secretRef.name"},
		"lines of my.cnf":        {`{mysql: {config: {a: "b\nc"}}}`, "mysql", "spec.mysql.config[a]"},
		"defaults":               {"{web: {}, defaults: {nodeSelector: {'a b': c}}}", "web", "spec.defaults.nodeSelector[a b]"},
		"peers":                  {"{web: {}, networkPolicy: {enabled: true, allowFrom: [{}, {pods: {}}]}}", "web", "spec.networkPolicy.allowFrom[1].pods"},
		"a StatefulSet's update": {"{additionalServices: [{name: a, kind: StatefulSet, image: b, rollingUpdate: {maxUnavailable: 1}}]}", "a", "spec.additionalServices[a].rollingUpdate"},
		"a StatefulSet, anew":    {"{additionalServices: [{name: a, kind: StatefulSet, image: b, strategy: Recreate}]}", "a", "spec.additionalServices[a].strategy"},
		"scaling a DaemonSet":    {"{additionalServices: [{name: a, kind: DaemonSet, image: b, autoscaling: {max: 3}}]}", "a", "spec.additionalServices[a].autoscaling"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := try(t, test.spec, dsv1.ComponentName(test.of))
			var field *component.FieldError
			assert.Assert(t, errors.As(err, &field), "%v", err)
			assert.Equal(t, field.Field, test.field)
		})
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	const spec = `{
		defaults: {size: large, env: {A: all, B: all}, timeZone: Europe/Berlin, labels: {l: all, m: all}, nodeSelector: {k: all},
			affinity: {nodeAffinity: {}}, tolerations: [{operator: Exists}], priorityClassName: p, imagePullSecrets: [{name: s}]},
		mysql: {}, eureka: {affinity: {podAffinity: {}}, tolerations: [{key: own}], priorityClassName: own, imagePullSecrets: [{name: own}]},
		web: {env: {B: own}, labels: {m: own}, size: small}, auth: {resources: {limits: {cpu: 1}}},
		additionalServices: [{name: a, image: b, kind: Deployment}], cronJobs: [{name: j, image: b, schedule: c, timeZone: UTC}]}`
	get := func(name dsv1.ComponentName, field string) string {
		v, err := try(t, spec, name)
		assert.NilError(t, err)
		return fmt.Sprint(v[field])
	}
	for _, test := range []struct {
		of    dsv1.ComponentName
		field string
		want  string
	}{
		{"web", "size", "small"}, {"auth", "size", "<nil>"}, {"a", "size", "large"}, {"j", "size", "<nil>"}, {"mysql", "size", "<nil>"},
		{"web", "env", "map[A:all B:own]"}, {"auth", "env", "map[A:all B:all]"}, {"j", "env", "map[A:all B:all]"}, {"mysql", "env", "<nil>"},
		{"web", "labels", "map[l:all m:own]"}, {"mysql", "labels", "map[l:all m:all]"}, {"j", "labels", "map[l:all m:all]"},
		{"mysql", "nodeSelector", "map[k:all]"}, {"eureka", "affinity", "map[podAffinity:map[]]"}, {"mysql", "affinity", "map[nodeAffinity:map[]]"},
		{"eureka", "tolerations", "[map[key:own]]"}, {"j", "tolerations", "[map[operator:Exists]]"},
		{"eureka", "priorityClassName", "own"}, {"web", "priorityClassName", "p"}, {"eureka", "imagePullSecrets", "[map[name:own]]"}, {"web", "imagePullSecrets", "[map[name:s]]"},
		{"web", "timeZone", "Europe/Berlin"}, {"mysql", "timeZone", "Europe/Berlin"}, {"j", "timeZone", "Europe/Berlin"}, {"j", "scheduleTimeZone", "UTC"},
	} {
		assert.Equal(t, get(test.of, test.field), test.want, "%s of %s", test.field, test.of)
	}
}

func TestRegistries(t *testing.T) {
	t.Parallel()
	const registry = "defaults: {registry: 'mirror:5000/p'}, "
	for spec, want := range map[string]string{
		"{web: {}}":                                                            "registry-edge.cosmoplat.com/dataservice/dataservice-web:v1.4",
		"{" + registry + "web: {}}":                                            "mirror:5000/p/dataservice/dataservice-web:v1.4",
		"{web: {image: 'a/b:c'}}":                                              "a/b:c",
		"{web: {image: a}}":                                                    "a",
		"{" + registry + "web: {image: a}}":                                    "mirror:5000/p/a",
		"{" + registry + "web: {image: 'a/b@sha256:c'}}":                       "mirror:5000/p/a/b@sha256:c",
		"{" + registry + "web: {image: 'localhost/b'}}":                        "localhost/b",
		"{" + registry + "web: {image: 'a.b/c'}}":                              "a.b/c",
		"{" + registry + "web: {image: 'a:1/c:d'}}":                            "a:1/c:d",
		"{" + registry + "web: {image: 'a:1'}}":                                "mirror:5000/p/a:1",
		"{eureka: {version: v9}}":                                              "registry-edge.cosmoplat.com/dataservice/eureka:v9",
		"{" + registry + "eureka: {version: v9}}":                              "mirror:5000/p/dataservice/eureka:v9",
		"{" + registry + "uuc: {thirdParty: {url: 'http://a'}}}":               "mirror:5000/p/curlimages/curl:8.16.0",
		"{uuc: {version: v9, thirdParty: {url: 'http://a'}}}":                  "docker.io/curlimages/curl:8.16.0",
		"{" + registry + "cronJobs: [{name: uuj, schedule: s, image: 'a:1'}]}": "mirror:5000/p/a:1",
	} {
		var name dsv1.ComponentName
		for _, candidate := range []dsv1.ComponentName{"web", "eureka", "uuc", "uuj"} {
			if strings.Contains(spec, string(candidate)+":") || strings.Contains(spec, "name: "+string(candidate)) {
				name = candidate
			}
		}
		v, err := try(t, spec, name)
		assert.NilError(t, err)
		assert.Equal(t, v["image"], want, spec)
	}
	assert.Equal(t, withTag("a:1/b", "v2"), "a:1/b:v2")
	assert.Equal(t, withTag("a:1/b:v1@sha256:c", "v2"), "a:1/b:v2")
}

// A component of the user's own sees of the middleware what it depends on, and nothing else.
func TestConnections(t *testing.T) {
	t.Parallel()
	const spec = `{mysql: {}, eureka: {}, uuc: {thirdParty: {url: 'http://u/'}}, additionalServices: [{name: none, image: a, kind: Deployment},
		{name: some, image: a, kind: Deployment, dependsOn: [mysql, uuc]}, {name: far, image: a, kind: Deployment, dependsOn: [some]}],
		cronJobs: [{name: job, schedule: s, image: a, dependsOn: [eureka]}]}`
	for name, want := range map[dsv1.ComponentName]string{
		"none": "<nil> <nil>", "far": "<nil> <nil>",
		"some": "map[mysql:map[url:mysql://mysql-dataservice.data.svc:3306] uuc:map[url:http://u]] map[mysql:map[passwordKey:password secretName: usernameKey:username]]",
		"job":  "map[eureka:map[url:http://eureka.data.svc:8761]] <nil>",
	} {
		v, err := try(t, spec, name)
		assert.NilError(t, err)
		assert.Equal(t, fmt.Sprint(v["endpoints"], " ", v["credentials"]), want, name)
	}
}

func TestNetworkPolicies(t *testing.T) {
	t.Parallel()
	const rest = `mysql: {}, eureka: {nodePort: 30000}, proxy: {}, api-manager: {serviceType: LoadBalancer}, web: {ingress: {host: a}}, gateway-web: {ports: [{name: x, port: 1, nodePort: 3}]},
		uuc: {thirdParty: {url: 'http://a'}}, cronJobs: [{name: job, schedule: s, image: a, dependsOn: [mysql]}]}`
	for name, want := range map[dsv1.ComponentName]string{
		"mysql":       "map[allowFrom:[map[podSelector:map[]]] enabled:true from:[api-manager gateway-web proxy web job] open:false]",
		"eureka":      "map[allowFrom:[map[podSelector:map[]]] enabled:true from:[api-manager gateway-web proxy web] open:true]",
		"proxy":       "map[allowFrom:[map[podSelector:map[]]] enabled:true from:[web] open:false]",
		"api-manager": "map[allowFrom:[map[podSelector:map[]]] enabled:true from:[proxy] open:true]",
		"gateway-web": "map[allowFrom:[map[podSelector:map[]]] enabled:true from:[api-manager] open:true]",
		"web":         "map[allowFrom:[map[podSelector:map[]]] enabled:true from:[] open:false]",
		"uuc":         "<nil>", "job": "<nil>",
	} {
		v, err := try(t, "{networkPolicy: {enabled: true, allowFrom: [{podSelector: {}}]}, "+rest, name)
		assert.NilError(t, err)
		assert.Equal(t, fmt.Sprint(v["networkPolicy"]), want, name)
		v, err = try(t, "{networkPolicy: {enabled: false, allowFrom: [{podSelector: {}}]}, "+rest, name)
		assert.NilError(t, err)
		assert.Assert(t, v["networkPolicy"] == nil)
	}
}

// With an autoscaler the number of pods is nobody's in the plan.
func TestAutoscaling(t *testing.T) {
	t.Parallel()
	v, err := try(t, "{web: {replica: 3, autoscaling: {max: 5}}}", "web")
	assert.NilError(t, err)
	replicas, ok := v["replicas"]
	assert.Assert(t, ok && replicas == nil)
}

// What the spec holds is read, not changed.
func TestTheSpecStaysAsItIs(t *testing.T) {
	t.Parallel()
	ds := &dsv1.DataService{}
	assert.NilError(t, yaml.UnmarshalStrict([]byte(`{defaults: {env: {A: b}, labels: {c: d}}, mysql: {kind: 3, thirdParty: {url: 'mysql://a'}},
		web: {env: {E: f}, labels: {g: h}, probes: {path: null, startup: null}, ports: [{name: a, port: 1, targetPort: null}], annotations: {i: j}}}`), &ds.Spec))
	before := ds.DeepCopy()
	graph, err := component.NewGraph(&ds.Spec)
	assert.NilError(t, err)
	v, err := Build(Input{Graph: graph, Defaults: ds.Spec.Defaults, Credentials: Credentials{MySQLChecksum: "x"}}, graph.Get("web"))
	assert.NilError(t, err)
	assert.DeepEqual(t, v["probes"], map[string]any{})
	assert.DeepEqual(t, v["ports"], []any{map[string]any{"name": "a", "port": int64(1)}})
	assert.DeepEqual(t, ds, before)
}

// Ports of two protocols may have one number, and the main port may be spelt out.
func TestPortsTogether(t *testing.T) {
	t.Parallel()
	for _, ports := range []string{"[{name: a, port: 1}, {name: b, port: 1, protocol: UDP}]", "[{name: http, port: 80}]", "[{name: web, port: 80}, {name: http, port: 81}]"} {
		_, err := try(t, "{web: {ports: "+ports+"}}", "web")
		assert.NilError(t, err, ports)
	}
}
