// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"os"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"sigs.k8s.io/yaml"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
)

func specOf(t *testing.T, text string) *redisv1.RedisClusterSpec {
	t.Helper()
	spec := &redisv1.RedisClusterSpec{}
	assert.NilError(t, yaml.UnmarshalStrict([]byte(text), spec))
	return spec
}

func TestImages(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]string{
		"{}":                          "mirror/redis:1",
		"{version: 7.2.5}":            "docker.io/library/redis:7.2.5",
		"{repository: library/redis}": "library/redis:7.0.15",
		"{repository: library/redis, version: 6.2}":                                       "library/redis:6.2",
		"{repository: host:5000/team/, version: 7.4}":                                     "host:5000/team/redis:7.4",
		"{pod: [{middlewareImage: 'a/b:c'}]}":                                             "a/b:c",
		"{pod: [{middlewareImage: a/b}]}":                                                 "a/b",
		"{version: 7.2.5, pod: [{middlewareImage: 'host:5000/b'}]}":                       "host:5000/b:7.2.5",
		"{version: 7.2.5, pod: [{middlewareImage: 'b@sha256:1'}]}":                        "b@sha256:1",
		"{repository: host/team/, version: 7.2.5, pod: [{middlewareImage: 'redis:own'}]}": "host/team/redis:own",
		"{repository: library/redis, version: 7.0.15, pod: [{middlewareImage: string}]}":  "library/redis:7.0.15",
	} {
		assert.Equal(t, imageOf(specOf(t, spec), "mirror/redis:1"), want, spec)
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"": true, "7.0.15": true, "6.2": true, "6.2.14-alpine": true, "7": true, "8.2.1": true, "10.0": true,
		"3.2.8": false, "6.0.20": false, "5.0": false, "6": false, "6.1": false,
	} {
		assert.Equal(t, isSupported(version), want, version)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	s := settingsOf(map[string]redisv1.Setting{"io-threads": "4", "maxmemory": "1kb", "notify-keyspace-events": "KEA"})
	assert.DeepEqual(t, s.live, map[string]string{"maxmemory": "1kb"})
	assert.DeepEqual(t, s.start, map[string]string{"io-threads": "4", "notify-keyspace-events": "KEA"})
	assert.Equal(t, nodeTimeout(map[string]string{settingNodeTimeout: "15000"}), 15*time.Second)
	assert.Equal(t, nodeTimeout(nil), defaultNodeTimeout)
	conf, err := os.ReadFile("../../../helm-charts/rediscluster/files/redis.conf")
	assert.NilError(t, err)
	assert.Assert(t, strings.Contains(string(conf), "\ncluster-node-timeout 5000\n"), "the chart's is another than defaultNodeTimeout")
}

func TestWanted(t *testing.T) {
	t.Parallel()
	rc := read(t, "sample")
	w := wanted(rc, false)
	assert.DeepEqual(t, w.Shards, []int{3, 2, 2})
	assert.DeepEqual(t, w.Assign[1].From, []string{"nodeId3", "nodeId4"})
	assert.Equal(t, w.Assign[0].Slots, 2000)
	assert.Equal(t, pipelineOf(&rc.Spec), 100)
	rc = read(t, "minimal")
	rc.Annotations = map[string]string{redisv1.AnnotationConsent: " 0-99, abc "}
	w = wanted(rc, false)
	assert.Assert(t, w.Assign == nil)
	assert.DeepEqual(t, w.Consent, []string{"0-99", "abc"})
	assert.Equal(t, pipelineOf(&rc.Spec), defaultPipeline)
}

func TestWhatHasNoEffectIsNamed(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]string{
		"{}":                                   "",
		"{pod: [{volumes: {type: hostPath}}]}": "",
		"{pod: [{volumes: {type: nfs, persistentVolumeClaimName: data}}]}":    "",
		"{pod: [{volumes: {type: nfs, persistentVolumeClaimName: pvcName}}]}": `no claim can be named "pvcName"`,
		"{pod: [{volumes: {type: nfs}}]}":                                     "without persistentVolumeClaimName",
	} {
		notes := strings.Join(ignored(specOf(t, spec)), "; ")
		assert.Assert(t, strings.Contains(notes, want) && (want != "" || notes == ""), "%s: %s", spec, notes)
	}
}
