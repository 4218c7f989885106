// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// All of a resource of the operator's own is the plan's: what somebody adds to its spec is found, at any depth.
func TestUnplannedFieldsOfAResource(t *testing.T) {
	t.Parallel()
	read := func(spec string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		assert.NilError(t, yaml.Unmarshal([]byte("apiVersion: redis.middleware.hc.cn/v1alpha1\nkind: RedisCluster\nmetadata: {name: a}\nspec: "+spec), &o.Object))
		return o
	}
	planned := read("{replicas: 6, pause: false, config: {a: b}, pod: [{env: [{name: A, value: b}]}], storage: {size: 1Gi}}")
	assert.Assert(t, !hasUnplanned(planned, planned.DeepCopy()))
	for _, spec := range []string{
		"{replicas: 6, pause: false, config: {a: b, c: d}, pod: [{env: [{name: A, value: b}]}], storage: {size: 1Gi}}",
		"{replicas: 6, pause: false, config: {a: b}, pod: [{env: [{name: A, value: b}], labels: {c: d}}], storage: {size: 1Gi}}",
		"{replicas: 6, pause: false, config: {a: b}, pod: [{env: [{name: A, value: b}]}, {}], storage: {size: 1Gi}}",
		"{replicas: 6, pause: false, config: {a: b}, pod: [{env: [{name: A, value: b}]}], storage: {size: 1Gi}, size: small}",
	} {
		live := read(spec)
		assert.Assert(t, hasUnplanned(planned, live), spec)
		assert.DeepEqual(t, withPlannedLists(planned, live).Object["spec"], planned.Object["spec"])
	}
	// It holds what cannot be made anew, so it is never replaced.
	assert.Assert(t, precious(planned))
}
