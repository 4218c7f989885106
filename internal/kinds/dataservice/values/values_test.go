// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"testing"

	"gotest.tools/v3/assert"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/kinds/dataservice/component"
)

func build(t *testing.T, spec string, name dsv1.ComponentName, change func(*Input)) map[string]any {
	t.Helper()
	ds := &dsv1.DataService{}
	assert.NilError(t, yaml.UnmarshalStrict([]byte(spec), &ds.Spec))
	dsv1.SetDefaults(ds)
	graph, err := component.NewGraph(&ds.Spec)
	assert.NilError(t, err)
	in := Input{Instance: "platform", Namespace: "data", Graph: graph, Credentials: Credentials{MySQLSecret: "mysql-secret", PlatformSecret: "platform-secret"}}
	if change != nil {
		change(&in)
	}
	v, err := Build(in, graph.Get(name))
	assert.NilError(t, err)
	return v
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	for _, name := range []dsv1.ComponentName{"mysql", "uuc", "eureka", "proxy"} {
		v := build(t, "{mysql: {name: n1}, uuc: {name: n2, thirdParty: {url: 'http://a'}}, eureka: {name: n3}, proxy: {name: n4}}", name, nil)
		assert.Equal(t, v["instance"], "platform")
		assert.Equal(t, v["managedBy"], "d3os-operator")
		assert.Equal(t, v["component"], string(name))
		assert.Equal(t, v["name"], map[dsv1.ComponentName]string{"mysql": "n1", "uuc": "n2", "eureka": "n3", "proxy": "n4"}[name])
	}
}

// The user's image wins over the release's, and that over the chart's.
func TestImages(t *testing.T) {
	t.Parallel()
	release := func(in *Input) {
		in.Images = map[string]string{"proxy": "release", "probe": "probe", "uuc": "not this one"}
	}
	const proxy, uuc = "{proxy: {image: mine}}", "{uuc: {thirdParty: {url: 'http://a'}}}"
	assert.Equal(t, build(t, proxy, "proxy", release)["image"], "mine")
	assert.Equal(t, build(t, "{proxy: {}}", "proxy", release)["image"], "release")
	assert.Equal(t, build(t, "{proxy: {}}", "proxy", nil)["image"], "registry-edge.cosmoplat.com/dataservice/proxy:v1.4")
	assert.Equal(t, build(t, uuc, "uuc", release)["image"], "probe")
	assert.Equal(t, build(t, uuc, "uuc", nil)["image"], "docker.io/curlimages/curl:8.16.0")
	assert.Equal(t, build(t, "{uuc: {kind: 0, image: mine, port: 1}}", "uuc", nil)["image"], "mine")
}

func TestWorkload(t *testing.T) {
	t.Parallel()
	v := build(t, "{proxy: {port: 1, nodePort: 30000, replica: 0, env: {A: b, B: ''}, resources: {limits: {cpu: 1}}}}", "proxy", nil)
	assert.Equal(t, v["port"], int64(1))
	assert.Equal(t, v["nodePort"], int64(30000))
	assert.Equal(t, v["replicas"], int64(0))
	assert.Equal(t, v["kind"], "Deployment")
	assert.DeepEqual(t, v["env"], map[string]any{"A": "b", "B": ""})
	assert.DeepEqual(t, v["resources"], map[string]any{"limits": map[string]any{"cpu": int64(1)}})

	v = build(t, "{proxy: {env: {}}}", "proxy", nil)
	assert.Equal(t, v["port"], int64(9094), "the preset's")
	assert.Equal(t, v["replicas"], int64(1))
	for _, absent := range []string{"nodePort", "env", "resources"} {
		_, ok := v[absent]
		assert.Assert(t, !ok, "%s is the chart's business", absent)
	}
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spec string
		want map[string]any
	}{
		"in the cluster": {
			"{mysql: {name: db, port: 13306}, eureka: {}, uuc: {kind: 0, image: a, port: 8080}, proxy: {port: 1}, gateway-master: {name: gateway}, auth: {}}",
			map[string]any{
				"mysql": map[string]any{"url": "mysql://db.data.svc:13306"}, "eureka": map[string]any{"url": "http://eureka.data.svc:8761"},
				"uuc": map[string]any{"url": "http://uuc.data.svc:8080"}, "proxy": map[string]any{"host": "proxy.data.svc", "port": int64(1)},
				"gateway-master": map[string]any{"host": "gateway.data.svc", "port": int64(9184)},
			},
		},
		"elsewhere": {
			"{mysql: {kind: 3, thirdParty: {url: 'mysql://a:1/'}}, eureka: {kind: 3, thirdParty: {url: 'https://b'}}, uuc: {thirdParty: {url: 'http://c/d/'}}, auth: {}}",
			map[string]any{
				"mysql": map[string]any{"url": "mysql://a:1"}, "eureka": map[string]any{"url": "https://b"}, "uuc": map[string]any{"url": "http://c/d"},
			},
		},
		"nowhere": {"{auth: {}}", map[string]any{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.DeepEqual(t, build(t, test.spec, "auth", nil)["endpoints"], test.want)
		})
	}
}

func TestCredentialsAreNames(t *testing.T) {
	t.Parallel()
	mysql := map[string]any{"secretName": "mysql-secret", "usernameKey": "username", "passwordKey": "password"}
	v := build(t, "{mysql: {}, proxy: {}, web: {}}", "proxy", nil)
	assert.DeepEqual(t, v["credentials"], map[string]any{"mysql": mysql, "platform": map[string]any{"secretName": "platform-secret"}})
	_, ok := v["annotations"]
	assert.Assert(t, !ok, "generated credentials have no checksum")
	assert.Equal(t, build(t, "{mysql: {}}", "mysql", nil)["credentialsSecret"], "mysql-secret")

	checksum := func(in *Input) { in.Credentials.MySQLChecksum = "sum" }
	const elsewhere = "{mysql: {kind: 3, thirdParty: {url: 'mysql://a', username: u, password: p, checkCMD: c}}, uuc: {thirdParty: {url: 'http://a'}}, proxy: {}, web: {}}"
	assert.DeepEqual(t, build(t, elsewhere, "proxy", checksum)["annotations"], map[string]any{"checksum/credentials": "sum"})
	assert.Assert(t, build(t, elsewhere, "web", checksum)["annotations"] == nil, "web does not log in")
	assert.DeepEqual(t, build(t, elsewhere, "mysql", checksum)["credentials"], map[string]any{"mysql": mysql})
	assert.Equal(t, build(t, elsewhere, "mysql", checksum)["checkCommand"], "c")
	assert.Assert(t, build(t, elsewhere, "uuc", checksum)["credentials"] == nil, "the probe of another must not see them")
}

func TestStorage(t *testing.T) {
	t.Parallel()
	v := build(t, "{mysql: {}}", "mysql", nil)
	assert.DeepEqual(t, v["storage"], map[string]any{"size": "10Gi", "storageClassName": "", "accessMode": "ReadWriteOnce", "retain": true})
	_, ok := v["initConfigMaps"]
	assert.Assert(t, !ok)
	v = build(t, "{mysql: {storage: {size: 1024Mi, storageClassName: fast, accessMode: ReadWriteOncePod, retention: Delete}, initScripts: [{name: a}, {name: b}]}}", "mysql", nil)
	assert.DeepEqual(t, v["storage"], map[string]any{"size": "1Gi", "storageClassName": "fast", "accessMode": "ReadWriteOncePod", "retain": false})
	assert.DeepEqual(t, v["initConfigMaps"], []any{"a", "b"})
}

// A service of no preset gets none of the platform's credentials and addresses.
func TestWithoutAPreset(t *testing.T) {
	t.Parallel()
	v := build(t, "{mysql: {}, uuc: {kind: StatefulSet, image: a, port: 1}}", "uuc", nil)
	assert.Equal(t, v["service"], "")
	assert.Equal(t, v["kind"], "StatefulSet")
	for _, absent := range []string{"endpoints", "credentials"} {
		_, ok := v[absent]
		assert.Assert(t, !ok, absent)
	}
}
