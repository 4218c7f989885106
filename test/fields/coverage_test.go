// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/cluster"
)

// probe is one of the API's probes: Kubernetes' own fields, and this one.
type probe struct {
	Disabled bool `json:"disabled,omitempty"`
}

// opaque are the types that the CRD does not spell out but the API has: their fields are to be
// had as well.
var opaque = map[string]reflect.Type{
	"Probes": reflect.TypeFor[dsv1.Probes](), "Startup": reflect.TypeFor[probe](), "Readiness": reflect.TypeFor[probe](), "Liveness": reflect.TypeFor[probe](),
	"Ports": reflect.TypeFor[dsv1.Port](), "ConfigFiles": reflect.TypeFor[dsv1.ConfigFile](),
	"RollingUpdate": reflect.TypeFor[dsv1.RollingUpdate](), "DisruptionBudget": reflect.TypeFor[dsv1.DisruptionBudget](),
}

// roots are types that another chart or other code reads: they need cases of their own even for
// what they share with others.
var roots = []reflect.Type{reflect.TypeFor[dsv1.CronJob](), reflect.TypeFor[dsv1.Defaults]()}

// leaves collects the fields of a type: path to the type that declares it and its name. Paths
// with the same value are one field, which needs one case.
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

// leafTypes have no fields of the API's own.
var leafTypes = []reflect.Type{reflect.TypeFor[dsv1.Object](), reflect.TypeFor[resource.Quantity](), reflect.TypeFor[intstr.IntOrString]()}

// walk calls a function for every field of a struct, those of embedded structs among them.
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

// Every field of the API has a case, and every case a field. A field that several components
// share needs one of them.
func TestEveryFieldHasACase(t *testing.T) {
	t.Parallel()
	paths := map[string]string{}
	leaves(paths, "", reflect.TypeFor[dsv1.DataServiceSpec]())
	covered := map[string]bool{}
	parts := map[string]bool{} // of the spec
	for _, c := range table(t) {
		field, isLeaf := paths[c.Field]
		covered[field] = isLeaf
		for path := range paths {
			isLeaf = isLeaf || strings.HasPrefix(strings.ReplaceAll(path, "[]", "")+".", strings.ReplaceAll(c.Field, "[]", "")+".")
		}
		assert.Assert(t, isLeaf, "%s is no field", c.Field)
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

// The CRD has the fields of the Go types and no others.
func TestTheCRDHasTheSameFields(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(cluster.Root(), "config/crd/bases/d3os-product.com.d3os_dataservices.yaml"))
	assert.NilError(t, err)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	assert.NilError(t, yaml.UnmarshalStrict(data, crd))
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	inCRD := map[string]bool{}
	properties(inCRD, "", &spec)
	inGo := map[string]bool{}
	paths := map[string]string{}
	leaves(paths, "", reflect.TypeFor[dsv1.DataServiceSpec]())
	for path := range paths {
		inGo[path] = true
		for cut := strings.LastIndexByte(path, '.'); cut > 0; cut = strings.LastIndexByte(path, '.') {
			path = path[:cut]
			inGo[strings.TrimSuffix(path, "[]")] = true
		}
	}
	for path := range inCRD {
		assert.Check(t, inGo[path], "%s is in the CRD alone", path)
	}
	for path := range inGo {
		assert.Check(t, inCRD[path] || inObject(path, inCRD), "%s is not in the CRD", path)
	}
}

// properties collects the properties of a schema at any depth.
func properties(found map[string]bool, at string, schema *apiextensionsv1.JSONSchemaProps) {
	for name, property := range schema.Properties {
		path := strings.TrimPrefix(fmt.Sprintf("%s.%s", at, name), ".")
		found[path] = true
		next := &property
		for next.Items != nil {
			path += "[]"
			next = next.Items.Schema
		}
		properties(found, path, next)
	}
}

// inObject reports whether a path leads into an object that the CRD does not spell out.
func inObject(path string, inCRD map[string]bool) bool {
	for name := range opaque {
		part := strings.ToLower(name[:1]) + name[1:]
		if before, _, ok := strings.Cut(path, "."+part); ok && inCRD[before+"."+part] {
			return true
		}
	}
	return false
}
