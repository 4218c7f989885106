// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
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
		"configFiles: [{path: /a/b.c, content: ''}, {path: /d, configMap: e}, {path: /f, secret: g, key: h}]",
	} {
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
