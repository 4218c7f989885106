// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/kinds/dataservice/values"
	"d3os.com/d3os-operator/internal/sized"
)

// A plan is needed while something changes. Those that were used last are kept as they are, about
// 0.5 MB for a whole platform with its spec; others as compressed JSON, a fortieth of that. So
// plans of many DataServices are remembered while these are in motion. The bounds are of bytes,
// because the author of a DataService decides how large a plan is.
const (
	openBytes   = 16 << 20
	packedBytes = 32 << 20
)

// memory remembers one plan of each DataService, that of its latest spec.
type memory struct {
	open   *sized.Cache[types.NamespacedName, *remembered]
	packed *sized.Cache[types.NamespacedName, *packed]
}

// source is all that a plan depends on, within one process.
type source struct {
	uid         types.UID
	generation  int64
	database    string // the name of mysql's, which need not be the one that the spec of that generation has
	credentials values.Credentials
}

// remembered is a plan and what it was made from.
type remembered struct {
	source

	plan   *Plan
	inputs []string // of its components
}

// rendering is what the chart of a component made of an input.
type rendering struct {
	input    string // digest
	objects  []*unstructured.Unstructured
	revision string
}

func newMemory(openBytes, packedBytes int) *memory {
	m := &memory{packed: sized.New[types.NamespacedName, *packed](packedBytes, nil)}
	m.open = sized.New(openBytes, m.putAway)
	return m
}

// putAway packs a plan that makes room for others. One that cannot be packed is made anew.
func (m *memory) putAway(name types.NamespacedName, r *remembered) {
	if packed, err := pack(r); err == nil {
		m.packed.Add(name, packed, packed.size())
	}
}

// plan returns the plan that was made from a source, if it is at hand.
func (m *memory) plan(name types.NamespacedName, from source) *Plan {
	if r, ok := m.open.Get(name); ok && r.source == from {
		return r.plan
	}
	return nil
}

// renderings returns what is remembered of a DataService, from whatever spec, by component.
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

// add remembers a plan of a spec in place of what was remembered of that DataService.
func (m *memory) add(ds *dsv1.DataService, r *remembered) {
	name := types.NamespacedName{Namespace: ds.Namespace, Name: ds.Name}
	m.packed.Remove(name)
	size := sized.Of(&ds.Spec) // the components point into it
	for _, c := range r.plan.Components {
		for _, obj := range c.Objects {
			size += sized.Of(obj)
		}
	}
	m.open.Add(name, r, size)
}

// forget drops what is remembered of a DataService.
func (m *memory) forget(name types.NamespacedName) {
	m.open.Remove(name)
	m.packed.Remove(name)
}
