// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

// probe contains the field that the API adds to the fields of Kubernetes' probes.
type probe struct {
	Disabled bool `json:"disabled,omitempty"`
}

// opaque lists the types whose fields the CRD does not list. The API defines these fields, so they need cases, too.
var opaque = map[string]reflect.Type{
	"Probes": reflect.TypeFor[dsv1.Probes](), "Startup": reflect.TypeFor[probe](), "Readiness": reflect.TypeFor[probe](), "Liveness": reflect.TypeFor[probe](),
	"Ports": reflect.TypeFor[dsv1.Port](), "ConfigFiles": reflect.TypeFor[dsv1.ConfigFile](),
	"RollingUpdate": reflect.TypeFor[dsv1.RollingUpdate](), "DisruptionBudget": reflect.TypeFor[dsv1.DisruptionBudget](),
}

// roots are types with separate consumers (another chart or other code): they need separate cases even for fields that they share with
// other types.
var roots = []reflect.Type{reflect.TypeFor[dsv1.CronJob](), reflect.TypeFor[dsv1.Defaults]()}

// leaves adds the fields of a type to found. The key is the path, the value the declaring type and the name. Paths with the same value are
// one field, which needs one case.
func leaves(found map[string]string, at string, t reflect.Type) {
	walk(at, t, t, func(path string, declares reflect.Type, field reflect.StructField) {
		next := element(field.Type)
		own, isOpaque := opaque[field.Name]
		switch {
		case isOpaque:
			next = own
		case next.Kind() != reflect.Struct || slices.Contains(leafTypes, next):
			found[path] = declares.Name() + "." + field.Name
			return
		}
		if next == reflect.TypeFor[probe]() {
			found[path] = declares.Name() + "." + field.Name
		}
		if element(field.Type) != field.Type && field.Type.Kind() == reflect.Slice {
			path += "[]"
		}
		leaves(found, path, next)
	})
}

// leafTypes are types whose nested fields are not fields of the API.
var leafTypes = []reflect.Type{reflect.TypeFor[dsv1.Object](), reflect.TypeFor[resource.Quantity](), reflect.TypeFor[intstr.IntOrString]()}

// walk calls the function each for every field of a struct, including those of embedded structs.
func walk(at string, outer, t reflect.Type, each func(path string, declares reflect.Type, field reflect.StructField)) {
	declares := t
	if slices.Contains(roots, outer) {
		declares = outer
	}
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous && strings.Contains(options, "inline") {
			walk(at, outer, field.Type, each)
			continue
		}
		path := name
		if at != "" {
			path = at + "." + name
		}
		each(path, declares, field)
	}
}

func element(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t
}

// Every field of the API has a case, and every case has a field. A field that several components share needs only one case.
func TestEveryFieldHasACase(t *testing.T) {
	t.Parallel()
	paths := map[string]string{}
	leaves(paths, "", reflect.TypeFor[dsv1.DataServiceSpec]())
	covered := map[string]bool{}
	parts := map[string]bool{} // top-level fields of the spec
	for _, c := range table(t) {
		field, isLeaf := paths[c.Field]
		covered[field] = isLeaf
		for path := range paths {
			isLeaf = isLeaf || strings.HasPrefix(strings.ReplaceAll(path, "[]", "")+".", strings.ReplaceAll(c.Field, "[]", "")+".")
		}
		assert.Assert(t, isLeaf, "%s is not a field", c.Field)
		parts[strings.FieldsFunc(c.Field, func(r rune) bool { return r == '.' || r == '[' })[0]] = true
	}
	missing := map[string][]string{}
	for path, field := range paths {
		if !covered[field] {
			missing[field] = append(missing[field], path)
		}
	}
	for _, field := range slices.Sorted(maps.Keys(missing)) {
		t.Errorf("no case for %s, such as %s", field, slices.Min(missing[field]))
	}
	for i := range reflect.TypeFor[dsv1.DataServiceSpec]().NumField() {
		name, _, _ := strings.Cut(reflect.TypeFor[dsv1.DataServiceSpec]().Field(i).Tag.Get("json"), ",")
		assert.Check(t, parts[name], "no case for %s", name)
	}
}

// A field that components share works in each of them: the cases of web are applied to other components.
func TestSharedFieldsWorkEverywhere(t *testing.T) {
	t.Parallel()
	paths := map[string]string{}
	leaves(paths, "", reflect.TypeFor[dsv1.DataServiceSpec]())
	for _, on := range []struct {
		name, base, at string // at is the component's place in the spec
		without        []string
	}{
		{"mysql", "back-end", "mysql", nil},
		{"eureka", "back-end", "eureka", nil},
		{"uuc", "elsewhere", "uuc", nil},
		// For a third party, the operator creates a pod that checks it, but no port and no settings.
		{"eureka", "elsewhere", "eureka", []string{
			"port", "nodePort", "serviceType", "serviceAnnotations", "serviceLabels", "config", "replica", "size",
			"probes.path", "probes.startup", "probes.startup.disabled", "probes.liveness.disabled",
		}},
		{"auth", "base", "auth", nil},
		{"reports", "few", "additionalServices", nil},
		// Without a port, a probe without a handler has no target.
		{"clean-up", "few", "cronJobs", []string{
			"probes.path", "probes.startup", "probes.startup.disabled", "probes.readiness.disabled", "probes.liveness.disabled",
		}},
	} {
		t.Run(on.name+" of "+on.base, func(t *testing.T) {
			t.Parallel()
			base, err := Load(on.base)
			assert.NilError(t, err)
			before := rendered(t, base)
			at := on.at
			if slices.Contains(named, at) {
				at += "[]"
			}
			for _, c := range table(t) {
				field, change := shared(&c)
				if change == nil || paths[at+"."+field] == "" && !strings.HasPrefix(field, "probes.") {
					continue
				}
				changed := Case{Base: on.base, Set: map[string]any{on.at: change}}
				if at != on.at {
					changed.Set = map[string]any{on.at: map[string]any{on.name: change}}
				}
				ds, err := changed.Changed()
				assert.NilError(t, err)
				after := rendered(t, ds)
				d := Compare(before, after)
				assert.Check(t, d.Empty() == slices.Contains(on.without, field), "%s changes %v", field, d)
				if field == "port" {
					continue // a port also changes objects of other components
				}
				all := ByID(slices.Concat(before, after))
				for _, id := range slices.Concat(d.Added, d.Changed, d.Removed) {
					assert.Check(t, all[id].GetLabels()["app.kubernetes.io/name"] == on.name, "%s changes %s", field, id)
				}
			}
		})
	}
}

// shared returns the change of a case for web, if the change has the same meaning for any other component.
func shared(c *Case) (field string, change any) {
	field = strings.TrimPrefix(c.Field, "web.")
	switch field {
	case "name", "podTemplate", "volumeMounts": // they refer to objects of web
		return "", nil
	}
	if c.Base != "base" || c.What != "" || c.Unchanged != "" {
		return "", nil
	}
	return field, c.Set["web"]
}
