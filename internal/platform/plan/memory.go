// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/platform/values"
)

// The operator needs plans during changes. It keeps the most recently used plans uncompressed: a plan of a whole platform with its spec
// needs about 0.5 MB, so openBytes is enough for one plan of each worker. It keeps all plans as compressed JSON, which needs a fortieth
// of that memory. The limits are in bytes, because the author of a DataService determines the size of a plan.
const (
	openBytes   = 4 << 20
	packedBytes = 32 << 20
)

// memory caches the latest plan of each DataService.
type memory struct {
	open   *object.Cache[types.NamespacedName, *remembered]
	packed *object.Cache[types.NamespacedName, *packed]
}

// source identifies all inputs of a plan within one process.
type source struct {
	uid         types.UID
	generation  int64
	database    string // identifies the planned database (see database), which may differ from the spec's
	credentials values.Credentials
}

// remembered is a plan and its inputs.
type remembered struct {
	source

	plan   *Plan
	inputs []string // digests, by component
}

// rendering is the output of a component's chart for an input.
type rendering struct {
	input    string // digest
	objects  []*unstructured.Unstructured
	revision string
}

func newMemory(openBytes, packedBytes int) *memory {
	m := &memory{packed: object.NewCache[types.NamespacedName, *packed](packedBytes, nil)}
	m.open = object.NewCache(openBytes, m.putAway)
	return m
}

// putAway packs a plan that leaves the cache of uncompressed plans, unless its packed form is cached. If a plan cannot be
// packed, it is rendered again when the operator needs it.
func (m *memory) putAway(name types.NamespacedName, r *remembered) {
	if known, ok := m.packed.Get(name); ok && known.holds(r) {
		return
	}
	if packed, err := pack(r); err == nil {
		m.packed.Add(name, packed, packed.size())
	}
}

// plan returns the cached plan of a source, or nil.
func (m *memory) plan(name types.NamespacedName, from source) *Plan {
	if r, ok := m.open.Get(name); ok && r.source == from {
		return r.plan
	}
	return nil
}

// renderings returns the cached renderings of a DataService, from any spec, by component.
func (m *memory) renderings(name types.NamespacedName, uid types.UID) map[dsv1.ComponentName]rendering {
	if r, ok := m.open.Get(name); ok {
		if r.uid != uid {
			return nil
		}
		known := make(map[dsv1.ComponentName]rendering, len(r.inputs))
		for i, c := range r.plan.Components {
			known[c.Name] = rendering{r.inputs[i], c.Objects, c.Revision}
		}
		return known
	}
	if packed, ok := m.packed.Get(name); ok && packed.uid == uid {
		return packed.unpack()
	}
	return nil
}

// add caches a plan. It replaces the previous plan of the DataService.
func (m *memory) add(ds *dsv1.DataService, r *remembered) {
	name := types.NamespacedName{Namespace: ds.Namespace, Name: ds.Name}
	if known, ok := m.packed.Get(name); ok && !known.holds(r) {
		m.packed.Remove(name)
	}
	size := object.SizeOf(&ds.Spec) // the components refer to the spec
	for _, c := range r.plan.Components {
		for _, obj := range c.Objects {
			size += object.SizeOf(obj)
		}
	}
	m.open.Add(name, r, size)
}

// forget drops the cached plan of a DataService.
func (m *memory) forget(name types.NamespacedName) {
	m.open.Remove(name)
	m.packed.Remove(name)
}
