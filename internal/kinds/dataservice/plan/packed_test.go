// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/kinds/dataservice/component"
	"d3os.com/d3os-operator/internal/kinds/dataservice/values"
	"d3os.com/d3os-operator/internal/render"
)

// A plan is the same after it was put away, also where nothing could make it anew.
func TestPlansArePutAway(t *testing.T) {
	t.Parallel()
	renderer, err := render.New("v1.36.0")
	assert.NilError(t, err)
	p := NewPlanner(renderer, nil)
	p.memory = newMemory(0, packedBytes) // no plan is small enough
	credentials := values.Credentials{MySQLSecret: "mysql", PlatformSecret: "platform"}
	rendered := func(ds *dsv1.DataService) *Plan {
		graph, err := component.NewGraph(&ds.Spec)
		assert.NilError(t, err)
		made, err := p.Make(ds, graph, credentials)
		assert.NilError(t, err)
		return made
	}
	files, err := filepath.Glob("../../../../config/samples/*.yaml")
	assert.NilError(t, err)
	var all []*dsv1.DataService
	var plans []*Plan
	for _, file := range files {
		data, err := os.ReadFile(file)
		assert.NilError(t, err)
		ds := &dsv1.DataService{}
		assert.NilError(t, yaml.Unmarshal(data, ds))
		if ds.Kind != dsv1.Kind {
			continue
		}
		ds.Namespace, ds.UID, ds.Generation = "data", types.UID(file), 1
		dsv1.SetDefaults(ds)
		all, plans = append(all, ds), append(plans, rendered(ds))
	}
	assert.Assert(t, len(plans) > 2)
	p.renderer = nil
	for i, ds := range all {
		recalled := rendered(ds)
		assert.Assert(t, recalled != plans[i], "the plan of %s was not put away", ds.UID)
		assert.DeepEqual(t, recalled.Components, plans[i].Components)
	}
}

// What reading a plan costs that was put away.
func BenchmarkUnpack(b *testing.B) {
	renderer, err := render.New("v1.36.0")
	assert.NilError(b, err)
	data, err := os.ReadFile("../../../../config/samples/d3os-product.com_v1_dataservice.yaml")
	assert.NilError(b, err)
	ds := &dsv1.DataService{}
	assert.NilError(b, yaml.Unmarshal(data, ds))
	ds.Namespace = "data"
	dsv1.SetDefaults(ds)
	graph, err := component.NewGraph(&ds.Spec)
	assert.NilError(b, err)
	ds.UID = "uid"
	p := NewPlanner(renderer, nil)
	p.memory = newMemory(0, packedBytes)
	_, err = p.Make(ds, graph, values.Credentials{MySQLSecret: "mysql", PlatformSecret: "platform"})
	assert.NilError(b, err)
	put, ok := p.memory.packed.Get(types.NamespacedName{Namespace: ds.Namespace, Name: ds.Name})
	assert.Assert(b, ok)
	b.ReportAllocs()
	for b.Loop() {
		if len(put.unpack()) != len(graph.Components) {
			b.Fatal("it cannot be read")
		}
	}
	b.ReportMetric(float64(len(put.lines)), "packed-bytes")
}
