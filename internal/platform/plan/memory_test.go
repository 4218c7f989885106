// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/platform/component"
	"d3os.com/d3os-operator/internal/platform/values"
	"d3os.com/d3os-operator/internal/render"
	"d3os.com/d3os-operator/test/fields"
)

// heap returns the number of bytes in use on the heap.
func heap() int {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}

// incompressible returns a text that packing makes smaller by less than a quarter.
func incompressible(random *rand.Rand, size int) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	text := make([]byte, size)
	for i := range text {
		text[i] = letters[random.IntN(len(letters))]
	}
	return string(text)
}

// However often a spec changes, it needs the memory of only one change, whether the spec is planned or refused. The
// memory for many deleted DataServices does not exceed the limits.
func TestPlansOfLargeSpecsAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("it compares bytes of memory: make verify runs it, and go test without -short")
	}
	const size = 1_000_000
	for name, test := range map[string]struct {
		times, bound int
		change       func(ds *dsv1.DataService, text string)
	}{
		"planned": {25, 12 << 20, func(ds *dsv1.DataService, text string) {
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

// makePlan plans as a reconciliation does.
func makePlan(p *Planner, ds *dsv1.DataService) (*Plan, error) {
	graph, err := p.Graph(ds)
	if err != nil {
		return nil, err
	}
	return p.Make(ds, graph, values.Credentials{MySQLSecret: "mysql", PlatformSecret: "platform"})
}

// A default for all components counts once for each component: 1 MB with 100 components is refused, because it would
// become 100 MB.
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
	var mistake *render.Error
	assert.Assert(t, errors.As(err, &mistake), "%v", err)
	assert.Equal(t, mistake.Field, "spec")
	allocated := (after.TotalAlloc - before.TotalAlloc) >> 20
	t.Logf("%d MiB were allocated to refuse it", allocated)
	assert.Assert(t, allocated < 256)
}

// manySpecs returns the spec with every field, and every sixteenth case of the table of fields.
func manySpecs(t *testing.T) []dsv1.DataServiceSpec {
	t.Helper()
	data, err := os.ReadFile("../../../config/samples/everything.yaml")
	assert.NilError(t, err)
	everything := &dsv1.DataService{}
	assert.NilError(t, yaml.Unmarshal(data, everything))
	all := []*dsv1.DataService{everything}
	cases, err := fields.Cases()
	assert.NilError(t, err)
	for i := 0; i < len(cases); i += 16 {
		changed, err := cases[i].Changed()
		assert.NilError(t, err)
		ds := &dsv1.DataService{}
		assert.NilError(t, kruntime.DefaultUnstructuredConverter.FromUnstructured(changed.Object, ds))
		all = append(all, ds)
	}
	var specs []dsv1.DataServiceSpec
	for _, ds := range all {
		dsv1.SetDefaults(ds)
		specs = append(specs, ds.Spec)
	}
	return specs
}

// If only the changed components are rendered, the plan equals a complete rendering, whatever the previous spec was.
// This is also true if the previous plan was packed.
func TestAChangeIsRenderedAsAllIs(t *testing.T) {
	t.Parallel()
	renderer, err := render.New("v1.36.0")
	assert.NilError(t, err)
	kept, packed, whole := NewPlanner(renderer, nil), NewPlanner(renderer, nil), NewPlanner(renderer, nil)
	packed.memory = newMemory(0, packedBytes) // too small for any plan
	specs := manySpecs(t)
	random := rand.New(rand.NewPCG(1, 1))
	ds := &dsv1.DataService{}
	ds.Name, ds.Namespace, ds.UID = "platform", "data", "uid"
	credentials := values.Credentials{MySQLSecret: "mysql", PlatformSecret: "platform", MongoDBSecret: "mongodb"}
	for range 40 {
		ds.Generation++
		specs[random.IntN(len(specs))].DeepCopyInto(&ds.Spec)
		credentials.MySQLChecksum = []string{"", "a", "b"}[random.IntN(3)]
		graph, err := component.NewGraph(&ds.Spec)
		assert.NilError(t, err)
		same := func(p *Planner, want *Plan) *Plan {
			got, err := p.Make(ds, graph, credentials)
			assert.NilError(t, err)
			if want != nil && !reflect.DeepEqual(got, want) {
				assert.DeepEqual(t, got, want)
			}
			return got
		}
		whole.Forget(ds.Namespace, ds.Name)
		want := same(whole, nil)
		same(kept, want)
		made := same(packed, want)
		packed.renderer = nil // a second rendering would panic
		assert.Assert(t, same(packed, want) != made, "the plan was not packed")
		packed.renderer = renderer
	}
}

// A plan is packed only once, however often it is read. After a change it is packed again.
func TestAPlanIsPackedOnce(t *testing.T) {
	t.Parallel()
	renderer, err := render.New("v1.36.0")
	assert.NilError(t, err)
	p := NewPlanner(renderer, nil)
	p.memory = newMemory(0, packedBytes) // too small for any plan
	ds := &dsv1.DataService{}
	ds.Name, ds.Namespace, ds.UID = "platform", "data", "uid"
	packedAfter := func(spec string) *packed {
		ds.Spec = dsv1.DataServiceSpec{}
		assert.NilError(t, yaml.UnmarshalStrict([]byte(spec), &ds.Spec))
		dsv1.SetDefaults(ds)
		ds.Generation++
		_, err := makePlan(p, ds)
		assert.NilError(t, err)
		found, _ := p.memory.packed.Get(types.NamespacedName{Namespace: "data", Name: "platform"})
		return found
	}
	first := packedAfter("{eureka: {}, web: {}}")
	assert.Assert(t, first != nil && packedAfter("{eureka: {}, web: {}, paused: true}") == first)
	changed := packedAfter("{eureka: {image: new}, web: {}}")
	assert.Assert(t, changed != nil && changed != first)
	ds.UID = "another"
	assert.Assert(t, packedAfter("{eureka: {image: new}, web: {}}") != changed)
}

// sharedWith returns the number of components whose objects are shared with the previous plan.
func sharedWith(before, after *Plan) (n int) {
	was := map[dsv1.ComponentName]*Component{}
	for i := range before.Components {
		was[before.Components[i].Name] = &before.Components[i]
	}
	for _, c := range after.Components {
		if b := was[c.Name]; b != nil && len(b.Objects) > 0 && b.Objects[0] == c.Objects[0] {
			n++
		}
	}
	return n
}

// A new generation renders only the changed components. All others share their objects with the previous plan.
func TestOnlyWhatChangedIsRendered(t *testing.T) {
	t.Parallel()
	renderer, err := render.New("v1.36.0")
	assert.NilError(t, err)
	p := NewPlanner(renderer, nil)
	ds := &dsv1.DataService{}
	ds.Name, ds.Namespace, ds.UID, ds.Generation = "platform", "data", "uid", 1
	make1 := func(spec string) *Plan {
		ds.Spec = dsv1.DataServiceSpec{}
		assert.NilError(t, yaml.UnmarshalStrict([]byte(spec), &ds.Spec))
		dsv1.SetDefaults(ds)
		made, err := makePlan(p, ds)
		assert.NilError(t, err)
		return made
	}
	first := make1("{mysql: {}, eureka: {}, proxy: {}, web: {}}")
	ds.Generation++
	second := make1("{mysql: {}, eureka: {}, proxy: {image: new}, web: {}, paused: true}")
	assert.Equal(t, len(second.Components), 4)
	assert.Equal(t, sharedWith(first, second), 3)
	assert.Assert(t, second.Components[2].Revision != first.Components[2].Revision)
	ds.Generation++
	third := make1("{mysql: {}, eureka: {}, proxy: {image: new, podTemplate: {spec: {hostname: a}}}}")
	assert.Equal(t, sharedWith(second, third), 2)
	ds.UID = "another" // an owner with the same name
	ds.Generation++
	assert.Equal(t, sharedWith(third, make1("{mysql: {}, eureka: {}, proxy: {image: new, podTemplate: {spec: {hostname: a}}}}")), 0)
}
