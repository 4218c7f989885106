// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/types"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/kinds/dataservice/values"
	"d3os.com/d3os-operator/internal/render"
	"d3os.com/d3os-operator/internal/specfield"
)

// heap returns the bytes that are in use.
func heap() int {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}

// incompressible returns text that packing makes no smaller than by a quarter.
func incompressible(random *rand.Rand, size int) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	text := make([]byte, size)
	for i := range text {
		text[i] = letters[random.IntN(len(letters))]
	}
	return string(text)
}

// What an author changes again and again takes no more memory than what was changed once, whether
// there is a plan of it or it is refused; and DataServices that were many once take what the bounds
// say.
func TestPlansOfLargeSpecsAreBounded(t *testing.T) {
	const size = 1_000_000
	for name, test := range map[string]struct {
		times, bound int
		change       func(ds *dsv1.DataService, text string)
	}{
		"updates": {25, 12 << 20, func(ds *dsv1.DataService, text string) {
			ds.Spec.AdditionalServices[0].Config = map[string]string{"a": text}
		}},
		"refused for its size": {25, 12 << 20, func(ds *dsv1.DataService, text string) {
			ds.Spec.AdditionalServices[0].Config = map[string]string{"a": text, "b": text[:100_000]}
		}},
		"refused by the graph": {25, 12 << 20, func(ds *dsv1.DataService, text string) {
			ds.Spec.AdditionalServices[0].Config = map[string]string{"a": text}
			ds.Spec.AdditionalServices[0].DependsOn = []dsv1.ComponentName{"nothing"}
		}},
		"DataServices": {30, 20 << 20, func(ds *dsv1.DataService, text string) {
			ds.UID, ds.Name = types.UID(strings.Clone(text[:36])), strings.Clone(text[:8])
			ds.Spec.AdditionalServices[0].Config = map[string]string{"a": text}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			renderer, err := render.New("v1.36.0")
			assert.NilError(t, err)
			p := NewPlanner(renderer, nil)
			p.memory = newMemory(openBytes/4, packedBytes/4)
			random := rand.New(rand.NewPCG(1, 1))
			before := heap()
			for i := range test.times {
				ds := &dsv1.DataService{}
				ds.Name, ds.Namespace, ds.UID, ds.Generation = "platform", "data", "uid", int64(i+1)
				s := dsv1.AdditionalService{}
				s.Name, s.Image = "a", "a"
				ds.Spec.AdditionalServices = []dsv1.AdditionalService{s}
				dsv1.SetDefaults(ds)
				test.change(ds, incompressible(random, size))
				_, err = makePlan(p, ds)
			}
			if strings.HasPrefix(name, "refused") != (err != nil) {
				t.Fatalf("planned: %v", err)
			}
			grown := heap() - before
			t.Logf("%d KiB after %d of %d bytes", grown>>10, test.times, size)
			assert.Assert(t, grown < test.bound)
			runtime.KeepAlive(p)
		})
	}
}

// makePlan does what a reconciliation does.
func makePlan(p *Planner, ds *dsv1.DataService) (*Plan, error) {
	graph, err := p.Graph(ds)
	if err != nil {
		return nil, err
	}
	return p.Make(ds, graph, values.Credentials{MySQLSecret: "mysql", PlatformSecret: "platform"})
}

// What a spec says once for all of its components counts for each of them: a megabyte that 200
// components get is refused before it is 200.
func TestASpecThatMultipliesIsRefused(t *testing.T) {
	renderer, err := render.New("v1.36.0")
	assert.NilError(t, err)
	p, ds := NewPlanner(renderer, nil), &dsv1.DataService{}
	ds.Name, ds.Namespace, ds.UID = "platform", "data", "uid"
	for i := range 100 {
		ds.Spec.AdditionalServices = append(ds.Spec.AdditionalServices, dsv1.AdditionalService{})
		s := &ds.Spec.AdditionalServices[i]
		s.Name, s.Image = fmt.Sprintf("s%d", i), "a"
	}
	ds.Spec.Defaults = &dsv1.Defaults{Env: map[string]string{"A": incompressible(rand.New(rand.NewPCG(1, 1)), 1_000_000)}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = makePlan(p, ds)
	runtime.ReadMemStats(&after)
	var mistake *specfield.Error
	assert.Assert(t, errors.As(err, &mistake), "%v", err)
	assert.Equal(t, mistake.Field, "spec")
	allocated := (after.TotalAlloc - before.TotalAlloc) >> 20
	t.Logf("%d MiB were allocated to refuse it", allocated)
	assert.Assert(t, allocated < 256)
}
