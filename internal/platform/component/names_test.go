// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

func TestNames(t *testing.T) {
	t.Parallel()
	g, err := NewGraph(specOf(t, everything+"}"))
	assert.NilError(t, err)
	for _, c := range g.Components {
		want := string(c.Name)
		if c.Name == MySQL {
			want = "mysql-dataservice"
		}
		assert.Equal(t, c.ObjectName, want)
	}
	g, err = NewGraph(specOf(t, "{mysql: {name: store}, web: {name: console}}"))
	assert.NilError(t, err)
	assert.Equal(t, g.Get("mysql").ObjectName, "store")
	assert.Equal(t, g.Get("web").ObjectName, "console")
	assert.Assert(t, g.Get("auth") == nil)
}

// The table and the API contain the same components, and NewGraph reads each component from its field in the API.
func TestTheTableIsTheAPI(t *testing.T) {
	t.Parallel()
	var fields []string
	spec := reflect.TypeFor[dsv1.DataServiceSpec]()
	for i := range spec.NumField() {
		field := spec.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Type.Kind() != reflect.Pointer || !reflect.New(field.Type.Elem()).Elem().FieldByName("Image").IsValid() {
			assert.Equal(t, TableIndex(name), len(table), "%s is no component", name)
			continue
		}
		fields = append(fields, name)
		assert.Assert(t, TableIndex(name) < len(table), "the table lacks %s", name)

		one := &dsv1.DataServiceSpec{}
		value := reflect.New(field.Type.Elem())
		isResource := name == "redis" || name == "etcd" || name == "mongodb"
		if m := value.Elem().FieldByName("ThirdParty"); m.IsValid() && !isResource {
			m.Set(reflect.ValueOf(&dsv1.ThirdParty{URL: "http://a"}))
		}
		value.Elem().FieldByName("Image").SetString("marker")
		reflect.ValueOf(one).Elem().Field(i).Set(value)
		g, err := NewGraph(one)
		assert.NilError(t, err)
		assert.Equal(t, len(g.Components), 1)
		c := g.Components[0]
		assert.Equal(t, string(c.Name), name)
		if !isResource { // the image of a resource is not that of the probe
			assert.Equal(t, c.Workload.Image, "marker")
		}
		_, isService := value.Interface().(*dsv1.Service)
		_, isPublished := value.Interface().(*dsv1.Published)
		isService = isService || isPublished
		assert.Equal(t, c.Fields, value.Interface())
		assert.Equal(t, c.Service != nil, isService, name)
		assert.Equal(t, c.Path, "spec."+name)
		assert.Equal(t, c.Middleware == nil, isService || isResource, name)
		assert.Equal(t, c.Redis != nil, name == "redis", name)
		assert.Equal(t, c.Etcd != nil, name == "etcd", name)
		assert.Equal(t, c.MongoDB != nil, name == "mongodb", name)
		assert.Equal(t, c.MySQL != nil, name == "mysql", name)
		assert.Equal(t, c.HasProductDefaults, isService, name)
	}
	var named []string
	for _, row := range table {
		named = append(named, string(row.name))
	}
	assert.DeepEqual(t, slices.Sorted(slices.Values(named)), slices.Sorted(slices.Values(fields)))
	assert.Equal(t, TableIndex("oracle"), len(table), "the name of an additional service")
	assert.Equal(t, TableIndex(Platform), -1)
}

// Callers returns the components that require the named component, and those that connect to it only at run time. The
// result is the same if components start one at a time.
func TestCallers(t *testing.T) {
	t.Parallel()
	for _, order := range []string{"Dependency", "Sequential"} {
		g, err := NewGraph(specOf(t, `{rollout: {order: `+order+`}, mysql: {}, api-manager: {}, gateway-web: {}, proxy: {}, web: {}, ds-adapter: {},
			additionalServices: [{name: a, dependsOn: [mysql]}, {name: b, dependsOn: [a]}], cronJobs: [{name: j, dependsOn: [b]}]}`))
		assert.NilError(t, err)
		for name, want := range map[dsv1.ComponentName][]dsv1.ComponentName{
			"mysql":       {"api-manager", "ds-adapter", "gateway-web", "proxy", "web", "a"},
			"api-manager": {"proxy"}, "gateway-web": {"api-manager"}, "proxy": {"web"}, "ds-adapter": {"proxy"},
			"web": nil, "a": {"b"}, "b": {"j"}, "j": nil,
		} {
			assert.DeepEqual(t, g.Callers(name), want)
		}
	}
}

// Registries address each other by the names of a StatefulSet's pods.
func TestSeveralRegistries(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]Kind{
		"{eureka: {}}": Deployment, "{eureka: {replica: 1}}": Deployment, "{eureka: {replica: 2}}": StatefulSet, "{eureka: {replica: 2, kind: 0}}": Deployment,
		"{eureka: {replica: 0}}": Deployment,
	} {
		g, err := NewGraph(specOf(t, spec))
		assert.NilError(t, err)
		assert.Equal(t, g.Components[0].Kind, want, spec)
	}
}
