// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"sigs.k8s.io/yaml"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
)

// The number of pods determines the shards: at least three shards, with two pods each if there are enough pods.
func TestShards(t *testing.T) {
	t.Parallel()
	for pods, want := range map[int32]string{
		0: "[]", 1: "[1]", 3: "[1 1 1]", 4: "[2 1 1]", 5: "[2 2 1]", 6: "[2 2 2]", 7: "[3 2 2]", 8: "[2 2 2 2]", 9: "[3 2 2 2]",
	} {
		assert.Equal(t, fmt.Sprint(wantedShards(&redisv1.RedisClusterSpec{Replicas: &pods})), want, "%d pods", pods)
	}
	assert.Equal(t, fmt.Sprint(wantedShards(&redisv1.RedisClusterSpec{})), "[2 2 2]")
	for pods := int32(6); pods <= 300; pods++ { // the same shards as in releases that required six pods
		shards := wantedShards(&redisv1.RedisClusterSpec{Replicas: &pods})
		assert.Assert(t, len(shards) == int(pods/2) && shards[0] == 2+int(pods%2) && shards[len(shards)-1] == 2, "%d pods: %v", pods, shards)
	}
}

// Notes report fields of a spec that are ignored, count as other fields, or reduce redundancy.
func TestNotes(t *testing.T) {
	t.Parallel()
	const storage = "pod: [{resources: {requests: {storage: 20Gi}, limits: {cpu: 1, storage: 30Gi}}}]"
	for spec, want := range map[string]string{
		"{}": "", "{replicas: 6}": "", "{replicas: 0}": "", "{pod: [{affinity: {podAntiAffinity: {}}}]}": "",
		"{replicas: 1}": "one pod owns all slots, which suits development only",
		"{replicas: 3}": "3 of 3 shards have no replica: their slots are not served while their pod does not run, and the data of such a shard is lost with the volume of its pod",
		"{replicas: 5}": "1 of 3 shards have no replica",
		"{pod: [{affinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}}]}": "is used as the field of that name in nodeAffinity",
		"{" + storage + "}":                        "storage 20Gi is the size of each volume",
		"{" + storage + ", storage: {size: 10Gi}}": "storage 20Gi is the size of each volume",
		"{" + storage + ", storage: {size: 50Gi}}": "storage 20Gi is not used: spec.storage.size is 50Gi",
		"{pod: [{resources: {requests: {storage: 1Gi}}, volumes: {type: nfs, persistentVolumeClaimName: all}}]}": "all pods share a claim",
	} {
		got := strings.Join(notes(specOf(t, spec)), "; ")
		assert.Assert(t, strings.Contains(got, want) && (got == "") == (want == ""), "%s: %s", spec, got)
	}
}

// Storage in the resources is the size of each volume if the spec has no size, and is not a resource of the container.
func TestStorageAmongTheResources(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct{ size, resources string }{
		"{}": {"", "null"},
		"{pod: [{resources: {limits: {storage: 5Gi}}}]}":                                               {"5Gi", "{}"},
		"{pod: [{resources: {limits: {storage: 5Gi, cpu: 1}}}], storage: {size: 10Gi}}":                {"5Gi", `{"limits":{"cpu":"1"}}`},
		"{pod: [{resources: {limits: {storage: 5Gi}, requests: {storage: 4Gi}}}]}":                     {"4Gi", "{}"},
		"{pod: [{resources: {limits: {storage: 5Gi}}}], storage: {size: 20Gi}}":                        {"20Gi", "{}"},
		"{pod: [{resources: {limits: {storage: 0}, requests: {memory: 1Gi}}}], storage: {size: 10Gi}}": {"10Gi", `{"requests":{"memory":"1Gi"}}`},
	} {
		spec := specOf(t, text)
		before := spec.DeepCopy()
		resources, _ := resourcesOf(spec)
		size := ""
		if q := sizeOf(spec); q != nil {
			size = q.String()
		}
		assert.Equal(t, size, want.size, text)
		data, err := yaml.Marshal(resources)
		assert.NilError(t, err)
		data, err = yaml.YAMLToJSON(data)
		assert.NilError(t, err)
		assert.Equal(t, string(data), want.resources, text)
		assert.DeepEqual(t, spec, before)
	}
}

// A required node selector next to nodeAffinity, as in resources of an earlier operator, is moved into nodeAffinity, and the preferences there
// stay.
func TestAffinity(t *testing.T) {
	t.Parallel()
	const selects = "{nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}"
	const prefers = "[{weight: 1, preference: {matchExpressions: [{key: b, operator: Exists}]}}]"
	stray := specOf(t, "{pod: [{affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: "+prefers+"}, podAntiAffinity: {}, requiredDuringSchedulingIgnoredDuringExecution: "+selects+"}}]}")
	proper := specOf(t, "{pod: [{affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: "+prefers+", requiredDuringSchedulingIgnoredDuringExecution: "+selects+"}, podAntiAffinity: {}}}]}")
	assert.DeepEqual(t, affinityOf(stray), affinityOf(proper))
	assert.Assert(t, affinityOf(&redisv1.RedisClusterSpec{}) == nil)
}
