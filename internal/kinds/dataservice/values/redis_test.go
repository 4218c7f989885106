// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"errors"
	"testing"

	"gotest.tools/v3/assert"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/kinds/dataservice/component"
	"d3os.com/d3os-operator/internal/specfield"
)

// buildOf returns the values of a component and of a service that names it, for a spec in YAML.
func buildOf(t *testing.T, name dsv1.ComponentName, text string, credentials Credentials) (values, service map[string]any, err error) {
	t.Helper()
	ds := &dsv1.DataService{}
	assert.NilError(t, yaml.UnmarshalStrict([]byte(text), &ds.Spec))
	dsv1.SetDefaults(ds)
	graph, err := component.NewGraph(&ds.Spec)
	if err != nil {
		return nil, nil, err
	}
	in := Input{
		Instance: "platform", Namespace: "data", Graph: graph, Defaults: ds.Spec.Defaults, NetworkPolicy: ds.Spec.NetworkPolicy, Credentials: credentials,
	}
	if values, err = Build(in, graph.Get(name)); err != nil {
		return nil, nil, err
	}
	if c := graph.Get("reports"); c != nil {
		service, err = Build(in, c)
	}
	return values, service, err
}

// mistakeIn fails the test unless a spec has a mistake in that field; an empty one is for none.
func mistakeIn(t *testing.T, name dsv1.ComponentName, text, field string) {
	t.Helper()
	_, _, err := buildOf(t, name, text, Credentials{})
	if field == "" {
		assert.NilError(t, err, text)
		return
	}
	var mistake *specfield.Error
	assert.Assert(t, errors.As(err, &mistake), "%s: %v", text, err)
	assert.Equal(t, mistake.Field, field, text)
}

const reports = "additionalServices: [{name: reports, image: a, dependsOn: [redis]}]"

// The address of a cluster that the operator runs does not depend on its shards.
func TestTheAddressOfRedisStaysTheSame(t *testing.T) {
	t.Parallel()
	for _, replicas := range []string{"6", "7", "100"} {
		_, service, err := buildOf(t, component.Redis, "{redis: {name: cache, replicas: "+replicas+"}, "+reports+"}", Credentials{RedisSecret: "cache-credentials"})
		assert.NilError(t, err)
		assert.DeepEqual(t, service["endpoints"], map[string]any{"redis": map[string]any{"nodes": "cache.data.svc:6379"}})
		assert.DeepEqual(t, service["credentials"], map[string]any{"redis": map[string]any{"secretName": "cache-credentials", "passwordKey": "password"}})
		assert.Assert(t, service["annotations"] == nil, "a change of a Secret restarts nothing")
	}
}

func TestRedisElsewhere(t *testing.T) {
	t.Parallel()
	const url = "redis://a.example.com:7000,b.example.com,[2001:db8::1]:7001,[2001:db8::2]"
	redis, service, err := buildOf(t, component.Redis, "{redis: {name: cache, kind: ThirdParty, image: x, replicas: 8, config: {a: b}, thirdParty: {url: '"+url+"'}}, "+reports+"}",
		Credentials{RedisSecret: "account", RedisHasUser: true, RedisChecksum: "sum"})
	assert.NilError(t, err)
	assert.Equal(t, redis["name"], "cache-external")
	assert.Equal(t, redis["url"], url)
	assert.Equal(t, redis["port"], int64(6379))
	for _, name := range []string{"replicas", "config", "storage", "size", "env"} {
		assert.Assert(t, redis[name] == nil, "%s is not the probe's", name)
	}
	assert.DeepEqual(t, service["endpoints"], map[string]any{
		"redis": map[string]any{"nodes": "a.example.com:7000,b.example.com:6379,[2001:db8::1]:7001,[2001:db8::2]:6379"},
	})
	assert.DeepEqual(t, service["credentials"], map[string]any{
		"redis": map[string]any{"secretName": "account", "passwordKey": "password", "usernameKey": "username"},
	})
	assert.DeepEqual(t, service["annotations"], map[string]any{"checksum/redis-credentials": "sum"})

	_, service, err = buildOf(t, component.Redis, "{redis: {kind: ThirdParty, thirdParty: {url: 'redis://a'}}, "+reports+"}", Credentials{})
	assert.NilError(t, err)
	assert.Assert(t, service["credentials"] == nil, "there is no password")
}

// A service that does not name redis gets nothing of it, and a service of the user's own may be called redis.
func TestWithoutRedis(t *testing.T) {
	t.Parallel()
	_, service, err := buildOf(t, component.Redis, "{redis: {}, additionalServices: [{name: reports, image: a}]}", Credentials{RedisSecret: "a"})
	assert.NilError(t, err)
	assert.Assert(t, service["endpoints"] == nil && service["credentials"] == nil)
	redis, service, err := buildOf(t, component.Redis, "{additionalServices: [{name: redis, image: a}, {name: reports, image: a, dependsOn: [redis]}]}", Credentials{})
	assert.NilError(t, err)
	assert.Equal(t, redis["image"], "a")
	assert.Assert(t, service["endpoints"] == nil)
}

func TestMistakesInRedis(t *testing.T) {
	t.Parallel()
	for text, field := range map[string]string{
		"{redis: {resources: {limit: {}}, size: custom}}":                                                    "spec.redis.resources.limit",
		"{redis: {resources: {}}}":                                                                           "",
		"{redis: {size: custom}}":                                                                            "spec.redis.resources",
		"{redis: {affinity: {nodeAffinities: {}}}}":                                                          "spec.redis.affinity.nodeAffinities",
		"{redis: {podTemplate: {spec: {container: []}}}}":                                                    "spec.redis.podTemplate.spec.container",
		"{redis: {labels: {'a b': c}}}":                                                                      "spec.redis.labels[a b]",
		"{redis: {credentialsSecret: A_B}}":                                                                  "spec.redis.credentialsSecret",
		"{redis: {kind: ThirdParty, thirdParty: {url: 'redis://a:0'}}}":                                      "spec.redis.thirdParty.url",
		"{redis: {kind: ThirdParty, thirdParty: {url: 'redis://a:1,b:65536'}}}":                              "spec.redis.thirdParty.url",
		"{redis: {kind: ThirdParty, thirdParty: {url: 'redis://a', secretRef: {name: A_B}}}}":                "spec.redis.thirdParty.secretRef.name",
		"{redis: {kind: ThirdParty}}":                                                                        "spec.redis.thirdParty",
		"{redis: {}, additionalServices: [{name: redis, image: a}]}":                                         "spec.additionalServices[redis].name",
		"{redis: {name: a}, additionalServices: [{name: a, image: a}]}":                                      "spec.additionalServices[a].name",
		"{redis: {dependsOn: [redis]}}":                                                                      "spec.redis.dependsOn",
		"{redis: {}, networkPolicy: {enabled: true, allowFrom: [{podSelectors: {}}]}}":                       "spec.networkPolicy.allowFrom[0].podSelectors",
		"{redis: {}, defaults: {tolerations: [{keys: a}]}}":                                                  "spec.defaults.tolerations[0].keys",
		"{redis: {kind: ThirdParty, thirdParty: {url: 'redis://a'}, tolerations: [{keys: a}]}}":              "spec.redis.tolerations[0].keys",
		"{redis: {kind: ThirdParty, thirdParty: {url: 'redis://a,'}}}":                                       "spec.redis.thirdParty.url",
		"{redis: {podTemplate: {metadata: {labels: {$patch: replace}}}}}":                                    "",
		"{redis: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotCare}]}}": "",
	} {
		mistakeIn(t, component.Redis, text, field)
	}
}
