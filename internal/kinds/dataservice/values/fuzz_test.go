// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/kinds/dataservice/component"
	"d3os.com/d3os-operator/internal/specfield"
	table "d3os.com/d3os-operator/test/fields"
)

// FuzzBuild: whatever a spec holds, its values are the same each time, or there is a mistake
// with the path of its field. The spec is read, not changed.
func FuzzBuild(f *testing.F) {
	cases, err := table.Cases()
	assert.NilError(f, err)
	for i := range cases {
		changed, err := cases[i].Changed()
		assert.NilError(f, err)
		data, err := yaml.Marshal(changed.Object["spec"])
		assert.NilError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		ds := &dsv1.DataService{}
		if len(data) > 1<<16 || yaml.Unmarshal(data, &ds.Spec) != nil {
			t.Skip("no spec, or too much of it")
		}
		dsv1.SetDefaults(ds)
		before := ds.DeepCopy()
		graph, err := component.NewGraph(&ds.Spec)
		if err != nil {
			isMistake(t, err)
			return
		}
		in := Input{
			Instance: "platform", Namespace: "data", Graph: graph, Defaults: ds.Spec.Defaults, NetworkPolicy: ds.Spec.NetworkPolicy,
			Credentials: Credentials{
				MySQLSecret: "mysql", MySQLChecksum: "a", PlatformSecret: "platform",
				RedisSecret: "redis", RedisChecksum: "b", RedisHasUser: true,
			},
		}
		for i := range graph.Components {
			v, err := Build(in, &graph.Components[i])
			if err != nil {
				isMistake(t, err)
				continue
			}
			again, err := Build(in, &graph.Components[i])
			assert.NilError(t, err)
			assert.Assert(t, reflect.DeepEqual(v, again), "other values the second time")
		}
		assert.Assert(t, equality.Semantic.DeepEqual(ds, before), "the spec was changed")
	})
}

func isMistake(t *testing.T, err error) {
	t.Helper()
	var mistake *specfield.Error
	assert.Assert(t, errors.As(err, &mistake), "it names no field: %v", err)
	assert.Assert(t, strings.HasPrefix(mistake.Field, "spec"), "%q is no field", mistake.Field)
}
