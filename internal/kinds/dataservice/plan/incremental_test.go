// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"math/rand/v2"
	"os"
	"path/filepath"
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

// manySpecs are the specs of the samples, and every sixteenth case of the table of fields.
func manySpecs(t *testing.T) []dsv1.DataServiceSpec {
	t.Helper()
	files, err := filepath.Glob("../../../../config/samples/*.yaml")
	assert.NilError(t, err)
	var found []dsv1.DataServiceSpec
	for _, file := range files {
		data, err := os.ReadFile(file)
		assert.NilError(t, err)
		ds := &dsv1.DataService{}
		assert.NilError(t, yaml.Unmarshal(data, ds))
		if ds.Kind == dsv1.Kind {
			dsv1.SetDefaults(ds)
			found = append(found, ds.Spec)
		}
	}
	cases, err := fields.Cases()
	assert.NilError(t, err)
	for i := 0; i < len(cases); i += 16 {
		changed, err := cases[i].Changed()
		assert.NilError(t, err)
		ds := &dsv1.DataService{}
		assert.NilError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(changed.Object, ds))
		dsv1.SetDefaults(ds)
		found = append(found, ds.Spec)
	}
	return found
}

// A plan of which only the changed components are rendered is the plan of which all are, whatever
// the spec was before, and whether the plan before was put away.
func TestAChangeIsRenderedAsAllIs(t *testing.T) {
	t.Parallel()
	renderer, err := render.New("v1.36.0")
	assert.NilError(t, err)
	kept, packed, whole := NewPlanner(renderer, nil), NewPlanner(renderer, nil), NewPlanner(renderer, nil)
	packed.memory = newMemory(0, packedBytes)
	specs := manySpecs(t)
	random := rand.New(rand.NewPCG(1, 1))
	ds := &dsv1.DataService{}
	ds.Name, ds.Namespace, ds.UID = "platform", "data", "uid"
	credentials := values.Credentials{MySQLSecret: "mysql", PlatformSecret: "platform"}
	shared, made := 0, 0
	var last *Plan
	for range 40 {
		ds.Generation++
		specs[random.IntN(len(specs))].DeepCopyInto(&ds.Spec)
		credentials.MySQLChecksum = []string{"", "a", "b"}[random.IntN(3)]
		graph, err := component.NewGraph(&ds.Spec)
		assert.NilError(t, err)
		whole.Forget(ds.Namespace, ds.Name)
		want, err := whole.Make(ds, graph, credentials)
		assert.NilError(t, err)
		for _, p := range []*Planner{kept, packed} {
			got, err := p.Make(ds, graph, credentials)
			assert.NilError(t, err)
			if !reflect.DeepEqual(got, want) {
				assert.DeepEqual(t, got, want)
			}
			if p == kept {
				shared, made = shared+sharedWith(last, got), made+len(got.Components)
				last = got
			}
		}
	}
	t.Logf("%d of %d components were not rendered again", shared, made)
	assert.Assert(t, shared > 0 && shared < made)
}

// sharedWith counts the components whose objects are those of the plan before.
func sharedWith(before, after *Plan) (n int) {
	if before == nil {
		return 0
	}
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
		graph, err := p.Graph(ds)
		assert.NilError(t, err)
		made, err := p.Make(ds, graph, values.Credentials{MySQLSecret: "mysql", PlatformSecret: "platform"})
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
