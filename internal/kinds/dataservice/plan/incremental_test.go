// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"math/rand/v2"
	"os"
	"reflect"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/kinds/dataservice/component"
	"d3os.com/d3os-operator/internal/kinds/dataservice/values"
	"d3os.com/d3os-operator/internal/render"
	"d3os.com/d3os-operator/test/fields"
)

// manySpecs are the spec with every field, and every sixteenth case of the table of fields.
func manySpecs(t *testing.T) []dsv1.DataServiceSpec {
	t.Helper()
	data, err := os.ReadFile("../../../../config/samples/everything.yaml")
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
		assert.NilError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(changed.Object, ds))
		all = append(all, ds)
	}
	var specs []dsv1.DataServiceSpec
	for _, ds := range all {
		dsv1.SetDefaults(ds)
		specs = append(specs, ds.Spec)
	}
	return specs
}

// A plan of which only the changed components are rendered is the plan of which all are, whatever the spec
// was before. So is a plan that was put away, and what is made after it.
func TestAChangeIsRenderedAsAllIs(t *testing.T) {
	t.Parallel()
	renderer, err := render.New("v1.36.0")
	assert.NilError(t, err)
	kept, packed, whole := NewPlanner(renderer, nil), NewPlanner(renderer, nil), NewPlanner(renderer, nil)
	packed.memory = newMemory(0, packedBytes) // no plan is small enough
	specs := manySpecs(t)
	random := rand.New(rand.NewPCG(1, 1))
	ds := &dsv1.DataService{}
	ds.Name, ds.Namespace, ds.UID = "platform", "data", "uid"
	credentials := values.Credentials{MySQLSecret: "mysql", PlatformSecret: "platform"}
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
		packed.renderer = nil // nothing could make it again
		assert.Assert(t, same(packed, want) != made, "the plan was not put away")
		packed.renderer = renderer
	}
}

// sharedWith counts the components whose objects are those of the plan before.
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

// Of a new generation, only the components that changed are rendered: the others' objects are those
// that the plan before has.
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
	ds.UID = "another" // an owner of the same name
	ds.Generation++
	assert.Equal(t, sharedWith(third, make1("{mysql: {}, eureka: {}, proxy: {image: new, podTemplate: {spec: {hostname: a}}}}")), 0)
}
