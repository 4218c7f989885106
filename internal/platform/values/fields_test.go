// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"fmt"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/platform/component"
)

// try builds the values of one component of a spec.
func try(t *testing.T, spec string, name dsv1.ComponentName) (map[string]any, error) {
	t.Helper()
	ds := &dsv1.DataService{}
	assert.NilError(t, yaml.UnmarshalStrict([]byte(spec), &ds.Spec))
	dsv1.SetDefaults(ds)
	graph, err := component.NewGraph(&ds.Spec)
	if err != nil {
		return nil, err
	}
	return Build(Input{
		Instance: "platform", Namespace: "data", Graph: graph, Defaults: ds.Spec.Defaults, NetworkPolicy: ds.Spec.NetworkPolicy,
	}, graph.Get(name))
}

// If two variables have the same name, only the last one is kept, because server-side apply refuses duplicate names.
// The main container behaves in the same way.
func TestTheLastVariableOfAContainerWins(t *testing.T) {
	t.Parallel()
	const container = "[{name: a, image: b, env: [{name: X, value: old}, {name: Z, value: z}, {name: X, value: new}], ports: [{containerPort: 1}, {containerPort: 1, protocol: UDP}]}]"
	v, err := try(t, "{web: {sidecars: "+container+", initContainers: "+container+"}}", "web")
	assert.NilError(t, err)
	for _, name := range []string{"sidecars", "initContainers"} {
		assert.DeepEqual(t, v[name].([]any)[0].(map[string]any)["env"], []any{map[string]any{"name": "Z", "value": "z"}, map[string]any{"name": "X", "value": "new"}})
	}
}

// The pods of a user's service with an httpRoute pause before they stop. An upgrade from release 0.2.0, which has no httpRoute, restarts no pod.
func TestPauseBehindARoute(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]any{
		"": nil, ", ingress: {host: a.example.com}": nil, ", httpRoute: {gateways: [{name: public}]}": int64(10),
	} {
		v, err := try(t, "{additionalServices: [{name: a, kind: Deployment, image: b, port: 80"+given+"}]}", "a")
		assert.NilError(t, err)
		assert.Equal(t, v["preStopSeconds"], want, given)
	}
}

// In a Kubernetes type, null removes the chart's value. In a type of this API, null means unset. Golden files in test/fields contain the
// other values of each field.
func TestNull(t *testing.T) {
	t.Parallel()
	v, err := try(t, `{web: {securityContext: {runAsUser: null}, probes: {path: null, startup: null},
		ports: [{name: a, port: 1, targetPort: null}]}}`, "web")
	assert.NilError(t, err)
	assert.DeepEqual(t, v["securityContext"], map[string]any{"runAsUser": nil})
	assert.DeepEqual(t, v["probes"], map[string]any{})
	assert.DeepEqual(t, v["ports"], []any{map[string]any{"name": "a", "port": int64(1)}})
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	const spec = `{
		defaults: {size: large, env: {A: all, B: all}, timeZone: Europe/Berlin, labels: {l: all, m: all}, nodeSelector: {k: all},
			affinity: {nodeAffinity: {}}, tolerations: [{operator: Exists}], priorityClassName: p, imagePullSecrets: [{name: s}]},
		mysql: {}, eureka: {affinity: {podAffinity: {}}, tolerations: [{key: own}], priorityClassName: own, imagePullSecrets: [{name: own}]},
		web: {env: {B: own}, labels: {m: own}, size: small}, auth: {resources: {limits: {cpu: 1}}},
		additionalServices: [{name: a, image: b, kind: Deployment}], cronJobs: [{name: j, image: b, schedule: "@daily", timeZone: UTC}]}`
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
	for _, test := range []struct {
		spec string
		of   dsv1.ComponentName
		want string
	}{
		{"{" + registry + "web: {}}", "web", "mirror:5000/p/dataservice/dataservice-web:v1.4"},
		{"{web: {image: 'a/b:c'}}", "web", "a/b:c"},
		{"{" + registry + "web: {image: a}}", "web", "mirror:5000/p/a"},
		{"{" + registry + "web: {image: 'a/b@sha256:c'}}", "web", "mirror:5000/p/a/b@sha256:c"},
		{"{" + registry + "web: {image: 'localhost/b'}}", "web", "localhost/b"},
		{"{" + registry + "web: {image: 'a.b/c'}}", "web", "a.b/c"},
		{"{" + registry + "web: {image: 'a:1/c:d'}}", "web", "a:1/c:d"},
		{"{" + registry + "web: {image: 'a:1'}}", "web", "mirror:5000/p/a:1"},
		{"{" + registry + "eureka: {version: v9}}", "eureka", "mirror:5000/p/dataservice/eureka:v9"},
		{"{uuc: {version: v9, thirdParty: {url: 'http://a'}}}", "uuc", "docker.io/curlimages/curl:8.16.0"},
		{"{" + registry + "cronJobs: [{name: uuj, schedule: '@daily', image: 'a:1'}]}", "uuj", "mirror:5000/p/a:1"},
	} {
		v, err := try(t, test.spec, test.of)
		assert.NilError(t, err)
		assert.Equal(t, v["image"], test.want, test.spec)
	}
	assert.Equal(t, withTag("a:1/b", "v2"), "a:1/b:v2")
	assert.Equal(t, withTag("a:1/b:v1@sha256:c", "v2"), "a:1/b:v2")
}

// nodes adds the default port to addresses without a port, and keeps the brackets of IPv6 addresses.
func TestNodesElsewhere(t *testing.T) {
	t.Parallel()
	found := nodes("redis://a.example.com:7000,b.example.com,[2001:db8::1]:7001,[2001:db8::2]", redisPort)
	assert.DeepEqual(t, found, []string{"a.example.com:7000", "b.example.com:6379", "[2001:db8::1]:7001", "[2001:db8::2]:6379"})
}

// The product's services may request MySQL's public key if its accounts need the key: for MySQL since 8.0, not for
// MariaDB.
func TestPublicKey(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]any{
		"{}": nil, "{serverVersion: '5.7'}": nil, "{serverVersion: '10.11'}": nil, "{serverVersion: '12.0'}": nil, "{serverVersion: '8.0'}": true, "{serverVersion: '8.4'}": true,
		"{serverVersion: '9.7'}": true, "{serverVersion: '26.1'}": true, "{replica: 3}": true, "{thirdParty: {url: 'mysql://a'}}": nil,
	} {
		v, err := try(t, "{mysql: "+spec+", eureka: {}, proxy: {}}", "proxy")
		assert.NilError(t, err, spec)
		assert.Equal(t, v["endpoints"].(map[string]any)["mysql"].(map[string]any)["publicKey"], want, spec)
	}
}

// The product's services use TLS if the database requires it. For MariaDB 10, their urls name the versions of TLS.
func TestTLSOfTheDatabase(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]any{
		"{}": nil, "{config: {require_secure_transport: 'OFF'}}": nil, "{config: {require_secure_transport: 'ON'}}": true, "{config: {require-secure-transport: ''}}": true,
		"{replica: 3, config: {require_secure_transport: '1'}}": true, "{thirdParty: {url: 'mysql://a'}}": nil,
	} {
		v, err := try(t, "{mysql: "+spec+", eureka: {}, proxy: {}}", "proxy")
		assert.NilError(t, err, spec)
		assert.Equal(t, v["endpoints"].(map[string]any)["mysql"].(map[string]any)["tls"], want, spec)
	}
	for spec, want := range map[string]any{
		"{serverVersion: '10.11'}": nil, "{serverVersion: '5.7', config: {require_secure_transport: 'ON'}}": nil, "{serverVersion: '8.4', config: {require_secure_transport: 'ON'}}": nil,
		"{serverVersion: '10.11', config: {require_secure_transport: 'ON'}}": "TLSv1.2,TLSv1.3", "{serverVersion: '11.4', config: {require_secure_transport: 'ON'}}": nil,
	} {
		v, err := try(t, "{mysql: "+spec+", eureka: {}, proxy: {}}", "proxy")
		assert.NilError(t, err, spec)
		assert.Equal(t, v["endpoints"].(map[string]any)["mysql"].(map[string]any)["tlsVersions"], want, spec)
	}
}

// A service gets no addresses and no credentials of components on which it does not depend. A user's service that is
// named redis, etcd or mongodb does not count as such a component.
func TestNotConnected(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{
		"{redis: {}, etcd: {}, mongodb: {}, mysql: {}, eureka: {}, additionalServices: [{name: reports, image: a}]}",
		"{additionalServices: [{name: redis, image: a}, {name: reports, image: a, dependsOn: [redis]}]}",
		"{additionalServices: [{name: etcd, image: a}, {name: reports, image: a, dependsOn: [etcd]}]}",
		"{additionalServices: [{name: mongodb, image: a}, {name: reports, image: a, dependsOn: [mongodb]}]}",
		"{mysql: {}, additionalServices: [{name: a, image: a, dependsOn: [mysql]}, {name: reports, image: a, dependsOn: [a]}]}",
	} {
		v, err := try(t, spec, "reports")
		assert.NilError(t, err, spec)
		assert.Assert(t, v["endpoints"] == nil && v["credentials"] == nil, "%s: %v", spec, v)
	}
}

func TestNetworkPolicies(t *testing.T) {
	t.Parallel()
	const rest = `mysql: {}, eureka: {nodePort: 30000}, proxy: {}, api-manager: {serviceType: LoadBalancer}, web: {ingress: {host: a}}, gateway-web: {ports: [{name: x, port: 1, nodePort: 3}]},
		uuc: {thirdParty: {url: 'http://a'}}, cronJobs: [{name: job, schedule: "@daily", image: a, dependsOn: [mysql]}]}`
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
	}
	for name, where := range map[dsv1.ComponentName][]string{"web": {"networkPolicy"}, "mongodb": {"networkPolicy"}, "redis": {"spec", "networkPolicy"}, "etcd": {"spec", "networkPolicy"}} {
		v, err := try(t, "{networkPolicy: {enabled: true, additionalPorts: [15008]}, web: {}, redis: {}, etcd: {}, mongodb: {}}", name)
		assert.NilError(t, err)
		ports, _, err := unstructured.NestedSlice(v, append(where, "additionalPorts")...)
		assert.NilError(t, err)
		assert.DeepEqual(t, ports, []any{int64(15008)})
	}
}
