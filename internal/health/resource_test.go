// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A resource of another operator's kind is judged by what its conditions say of its latest generation.
func TestCustomResource(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: redis.middleware.hc.cn/v1alpha1\nkind: RedisCluster\n"
	for name, test := range map[string]struct {
		object        string
		settled       bool
		problem, hint string
		ready         int32
	}{
		"ready": {object: `
metadata: {name: cache, generation: 2}
spec: {replicas: 6}
status: {observedGeneration: 2, ready: 6/6, conditions: [{type: Ready, status: "True", reason: AllServed, observedGeneration: 2}]}`,
			settled: true, ready: 6},
		"fresh": {object: `
metadata: {name: cache, generation: 1}
spec: {replicas: 6}
status: {observedGeneration: -1}`, hint: "RedisCluster cache: NotObserved: its operator has not reported on it yet"},
		"without any status": {object: `
metadata: {name: cache, generation: 1}
spec: {replicas: 6}`, hint: "RedisCluster cache: NotObserved: its operator has not reported on it yet"},
		"ready in an earlier generation": {object: `
metadata: {name: cache, generation: 3}
spec: {replicas: 8}
status: {observedGeneration: 2, ready: 6/6, conditions: [{type: Ready, status: "True", reason: AllServed, observedGeneration: 2}]}`,
			hint: "RedisCluster cache: NotObserved: its operator has not reported on it yet", ready: 6},
		"a condition of an earlier generation": {object: `
metadata: {name: cache, generation: 3}
spec: {replicas: 8}
status: {observedGeneration: 3, conditions: [{type: Ready, status: "True", reason: AllServed, observedGeneration: 2}]}`,
			hint: "RedisCluster cache: NotObserved: its condition Ready is of an earlier generation"},
		"without conditions": {object: `
metadata: {name: cache, generation: 1}
spec: {replicas: 6}
status: {observedGeneration: 1}`, hint: "RedisCluster cache: NotReady: it is not ready"},
		"in progress": {object: `
metadata: {name: cache, generation: 2}
spec: {replicas: 8}
status: {observedGeneration: 2, ready: 7/8, conditions: [{type: Ready, status: "False", reason: MoveSlots, message: moving}, {type: Degraded, status: "False"}]}`,
			hint: "RedisCluster cache: MoveSlots: moving", ready: 7},
		"degraded": {object: `
metadata: {name: cache, generation: 2}
spec: {replicas: 6}
status: {observedGeneration: 2, ready: 5/6, conditions: [
  {type: Ready, status: "False", reason: Working}, {type: Degraded, status: "True", reason: NotRedundant, message: a replica is gone}]}`,
			problem: "RedisCluster cache: NotRedundant: a replica is gone", ready: 5},
		"stalled and degraded": {object: `
metadata: {name: cache, generation: 2}
spec: {replicas: 6}
status: {observedGeneration: 2, conditions: [{type: Degraded, status: "True", reason: A, message: a}, {type: Stalled, status: "True", reason: SlotsLost, message: lost}]}`,
			problem: "RedisCluster cache: SlotsLost: lost"},
		"being deleted": {object: `
metadata: {name: cache, generation: 2, deletionTimestamp: "2026-01-01T00:00:00Z"}
spec: {replicas: 6}
status: {observedGeneration: 2, conditions: [{type: Ready, status: "True"}]}`, hint: "RedisCluster cache: Terminating: it is being deleted"},
	} {
		o := objectOf(t, head+test.object)
		state := Assess([]*unstructured.Unstructured{o}, nil)
		assert.Equal(t, state.Settled, test.settled, name)
		assert.Equal(t, state.Problem, test.problem, name)
		assert.Equal(t, state.Hint, test.hint, name)
		assert.Equal(t, state.Ready, test.ready, name)
		desired, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
		assert.Equal(t, int64(state.Desired), desired, name)
		if !test.settled {
			culprit := state.HintCulprit
			if test.problem != "" {
				culprit = state.Culprit
			}
			assert.Equal(t, culprit.Kind+" "+culprit.Name, "RedisCluster cache", name)
		}
	}
}
