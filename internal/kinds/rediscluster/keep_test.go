// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/internal/kinds/rediscluster/topology"
	"d3os.com/d3os-operator/internal/object"
)

// servers are nodes that have settings; nil stands for one that does not answer.
func servers(settings ...map[string]string) []topology.Node {
	var nodes []topology.Node
	for _, s := range settings {
		nodes = append(nodes, topology.Node{Running: true, Reached: s != nil, Settings: s})
	}
	return nodes
}

// A changed setting gets into the file for the next start when the servers that run have taken it.
func TestSettingsAreHeldBack(t *testing.T) {
	t.Parallel()
	type values = map[string]string
	rc := read(t, "minimal")
	rc.Generation = 1
	rc.Spec.Config = map[string]redisv1.Setting{"maxmemory-policy": "allkeys-lru", "hz": "10", "save": ""}
	h := newHolds()
	assert.DeepEqual(t, h.file(rc, nil), values{"maxmemory-policy": "allkeys-lru", "hz": "10", "save": ""}) // a new cluster
	file := object.Empty(object.ConfigMapKind)
	write := func(text string) { file.Object["data"] = map[string]any{keySettings: text} }
	write("hz 10\nmaxmemory-policy allkeys-lru\nsave \"\"\n")
	assert.DeepEqual(t, newHolds().file(rc, file), h.file(rc, file)) // another operator finds it so

	rc.Generation, rc.Spec.Config = 2, map[string]redisv1.Setting{"maxmemory-policy": "no-such", "hz": "20"}
	old := values{"maxmemory-policy": "allkeys-lru", "hz": "10"}
	assert.DeepEqual(t, h.file(rc, file), old)
	assert.Assert(t, !h.judge(rc, servers(old)), "nothing was taken yet")
	assert.DeepEqual(t, h.file(rc, file), old)
	assert.Assert(t, !h.judge(rc, servers(nil, nil)), "nobody answers")
	assert.DeepEqual(t, h.file(rc, file), old)
	assert.Assert(t, h.judge(rc, servers(values{"maxmemory-policy": "allkeys-lru", "hz": "20"}, nil)))
	assert.DeepEqual(t, h.file(rc, file), values{"maxmemory-policy": "allkeys-lru", "hz": "20"})
	assert.DeepEqual(t, newHolds().file(rc, file), old) // an operator that has just started asks first
	write("hz 20\nmaxmemory-policy allkeys-lru\n")
	assert.DeepEqual(t, h.file(rc, file), values{"maxmemory-policy": "allkeys-lru", "hz": "20"})
	assert.Assert(t, !h.judge(rc, servers(values{"maxmemory-policy": "allkeys-lru", "hz": "20"})), "the refused one is held back for ever")

	down := servers(nil)
	down[0].Running = false
	assert.Assert(t, h.judge(rc, down), "nobody runs: the file may be why")
	assert.DeepEqual(t, h.file(rc, file), values{"maxmemory-policy": "no-such", "hz": "20"})
	h.forget(rc.Namespace, rc.Name)
	assert.Equal(t, len(h.known), 0)
}

// A password that somebody changes in the Secret alone is put back when the servers have refused it; one that they take
// is kept.
func TestEditedPassword(t *testing.T) {
	t.Parallel()
	rc, formed := read(t, "minimal"), topology.Record{Formed: true}
	p := newPasswords(random)
	secret := func(encoded string) *unstructured.Unstructured {
		o := object.Empty(object.ConfigMapKind)
		o.SetName("cache-credentials")
		o.Object["data"] = map[string]any{keyPassword: encoded}
		return o
	}
	plan := func(live *unstructured.Unstructured) string {
		made, err := p.plan(rc, ownerOf(rc), live, formed, "")
		assert.NilError(t, err)
		return passwordIn(made)
	}
	assert.Equal(t, plan(secret("b2xk")), "old")
	assert.Equal(t, plan(secret("bmV3")), "new", "nobody knows what the servers take")
	assert.Equal(t, plan(secret("b2xk")), "old", "and so it can be corrected")
	p.prove(rc, "old", true, false)
	assert.Equal(t, plan(secret("bmV3")), "new", "the servers may take both")
	assert.Assert(t, !p.adopt(rc, secret("bmV3")), "it is not taken for one that had not been seen")
	p.prove(rc, "new", true, true)
	assert.Equal(t, plan(secret("bmV3")), "old", "not all take the new one")
	assert.Equal(t, plan(secret("eHg=")), "xx", "nor have they been asked for another")
	p.prove(rc, "xx", false, true)
	assert.Equal(t, plan(secret("eHg=")), "old", "they refuse it")
	p.prove(rc, "xx", true, false)
	assert.Equal(t, plan(secret("eHg=")), "xx", "it was changed there, too")
	p.prove(rc, "xx", false, true)
	assert.Equal(t, plan(secret("bmV3")), "new", "they take it no more")
	p.forget(rc.Namespace, rc.Name)
	assert.Equal(t, len(p.known)+len(p.proven)+len(p.refuted), 0)
}

// A version that is too old stops nothing that runs: pods keep the image that they have.
func TestUnsupportedVersionKeepsWhatRuns(t *testing.T) {
	t.Parallel()
	rc := read(t, "minimal")
	live := withRecord(t, rc, topology.Record{Formed: true, Shards: []int{2, 2, 2}})
	before := planOf(t, rc, there{})
	for _, o := range before.Parts[0].Objects {
		if o.GetKind() == object.StatefulSetKind.Kind {
			live["StatefulSet/"+o.GetName()] = o
		}
	}
	live["Secret/cache-credentials"] = before.Secrets[0]
	rc.Spec.Version, rc.Generation = "3.2.8", rc.Generation+1
	after := planOf(t, rc, live)
	for i, o := range after.Parts[0].Objects {
		assert.Equal(t, object.Digest(o), object.Digest(before.Parts[0].Objects[i]), o.GetName())
	}
	assert.Equal(t, rc.Spec.Version, "3.2.8", "the resource itself is left alone")
}

// Pods of a shard on one node are told of.
func TestTogether(t *testing.T) {
	t.Parallel()
	w := running()
	assert.Equal(t, len(together(w.Nodes)), 0)
	w.Nodes[3].Host = w.Nodes[2].Host
	assert.DeepEqual(t, together(w.Nodes), []string{"shard 1 has all of its pods on node node-2"})
	assert.DeepEqual(t, states(w.Nodes), map[string]int{"master": 3, "replica": 3, "loading": 0, "unreachable": 0})
}
