// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"sigs.k8s.io/yaml"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
)

// Notes report what a spec means beyond its words.
func TestNotes(t *testing.T) {
	t.Parallel()
	const storage = "pod: [{resources: {requests: {storage: 20Gi}, limits: {cpu: 1, storage: 30Gi}}}]"
	for spec, want := range map[string]string{
		"{}": "", "{pod: [{affinity: {podAntiAffinity: {}}}]}": "",
		"{pod: [{affinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}}]}": "counts as that of nodeAffinity",
		"{" + storage + "}":                        "storage 20Gi is the size of each volume",
		"{" + storage + ", storage: {size: 10Gi}}": "storage 20Gi is the size of each volume",
		"{" + storage + ", storage: {size: 50Gi}}": "storage 20Gi is not used: spec.storage.size is 50Gi",
		"{pod: [{resources: {requests: {storage: 1Gi}}, volumes: {type: nfs, persistentVolumeClaimName: all}}]}": "all pods share a claim",
	} {
		got := strings.Join(notes(specOf(t, spec)), "; ")
		assert.Assert(t, strings.Contains(got, want) && (got == "") == (want == ""), "%s: %s", spec, got)
	}
}

// Storage among the resources is the size of each volume where none is given, and no resource of the container.
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

// A required node selector next to nodeAffinity, as in resources of an earlier operator, joins the preferences of nodeAffinity.
func TestAffinity(t *testing.T) {
	t.Parallel()
	const selects = "{nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}"
	const prefers = "[{weight: 1, preference: {matchExpressions: [{key: b, operator: Exists}]}}]"
	stray := specOf(t, "{pod: [{affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: "+prefers+"}, podAntiAffinity: {}, requiredDuringSchedulingIgnoredDuringExecution: "+selects+"}}]}")
	proper := specOf(t, "{pod: [{affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: "+prefers+", requiredDuringSchedulingIgnoredDuringExecution: "+selects+"}, podAntiAffinity: {}}}]}")
	assert.DeepEqual(t, affinityOf(stray), affinityOf(proper))
	assert.Assert(t, affinityOf(&redisv1.RedisClusterSpec{}) == nil)
}
