// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

// The CRD leaves a part of the allowed size to other annotations and future fields. The bounds of lists, maps and texts (hack/crd/bounds)
// added 15 KB to the CRD.
func TestTheCRDFitsIntoAnAnnotation(t *testing.T) {
	t.Parallel()
	crdFits(t, crdFile, 96)
}

func TestNamesAndColumns(t *testing.T) {
	t.Parallel()
	crd := readCRD(t, crdFile)
	assert.DeepEqual(t, crd.Spec.Names.ShortNames, []string{"ds3", "dsvc"})
	assert.DeepEqual(t, crd.Spec.Names.Categories, []string{"all"})
	assert.DeepEqual(t, columns(crd), []string{
		"Ready .status.ready", "Phase .status.phase", "Message .status.message", "Age .metadata.creationTimestamp",
	})
	assert.Assert(t, crd.Spec.Versions[0].Subresources.Status != nil)
}

// twins maps a component to the component with an equal schema. Only the second component is tested.
var twins = map[string]string{
	"api-manager": "auth", "ds-adapter": "auth", "es-adapter": "auth", "trd-adapter": "auth", "proxy": "auth",
	"gateway-master": "web", "gateway-web": "web",
}

func TestTwinsAreIdentical(t *testing.T) {
	t.Parallel()
	components := specSchema(t).Properties
	for name, other := range twins {
		twin, tested := components[name], components[other]
		twin.Description, tested.Description = "", ""
		assert.Assert(t, reflect.DeepEqual(twin, tested), "%s differs from %s", name, other)
	}
}

// kubectl explain shows descriptions. A description that occurs twice in an object was copied and not adapted.
func TestEveryFieldIsDescribed(t *testing.T) {
	t.Parallel()
	walk(specSchema(t), nil, func(where at, schema apiextensionsv1.JSONSchemaProps) {
		seen := map[string]string{}
		for name, property := range schema.Properties {
			assert.Assert(t, property.Description != "", "%s.%s", where, name)
			assert.Equal(t, seen[property.Description], "", "%s.%s has the description of another field: %s", where, name, property.Description)
			seen[property.Description] = name
		}
	})
}

// at is the path of a schema in the spec, such as [mysql thirdParty url]. In a path, * stands for the value of a map, and 0 for the item of
// a list.
type at []string

// String returns the path in the form of the API server's messages. For the value of a map, it contains KEY, the key that put creates.
func (a at) String() string {
	return strings.NewReplacer(".0", "[0]", ".*", ".KEY").Replace(strings.Join(append([]string{"spec"}, a...), "."))
}

func (a at) last() string {
	if len(a) == 0 {
		return ""
	}
	return a[len(a)-1]
}

func (a at) below(step string) at { return append(slices.Clone(a), step) }

// walk visits every schema of the spec except those of twins. Parents come first.
func walk(schema apiextensionsv1.JSONSchemaProps, where at, visit func(at, apiextensionsv1.JSONSchemaProps)) {
	if len(where) == 1 && twins[where[0]] != "" {
		return
	}
	visit(where, schema)
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		walk(schema.Properties[name], where.below(name), visit)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		walk(*schema.Items.Schema, where.below("0"), visit)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		walk(*schema.AdditionalProperties.Schema, where.below("*"), visit)
	}
}

// urlOf returns a valid url of third-party middleware.
func urlOf(component string) string {
	if component == "mysql" {
		return "mysql://example.com"
	}
	if component == "mongodb" {
		return "mongodb://example.com"
	}
	if component == "redis" {
		return "redis://example.com"
	}
	return "http://example.com"
}

// put sets a value in a minimal valid spec: the value's component, the middleware that this component needs, and the fields that the value
// requires. (With every component in the spec, the package takes 25 s instead of 16 s.)
func put(where at, value any) map[string]any {
	spec := everything()
	for name := range spec {
		if len(where) > 0 && name != where[0] && !slices.Contains([]string{"mysql", "uuc", "eureka"}, name) {
			delete(spec, name)
		}
	}
	return set(spec, nil, where, value).(map[string]any)
}

// set sets a value at the path further below where, and returns the changed content of where.
func set(in any, where, further at, value any) any {
	if len(further) == 0 {
		return value
	}
	step := further[0]
	next := where.below(step)
	if step == "0" {
		list, _ := in.([]any)
		if len(list) == 0 {
			list = []any{nil}
		}
		list[0] = set(list[0], next, further[1:], value)
		return list
	}
	object, ok := in.(map[string]any)
	if !ok {
		object = required(where)
	}
	if step == "s3" { // the claim is replaced
		delete(object, "claim")
	}
	if step == "*" {
		step = "KEY"
	}
	object[step] = set(object[step], next, further[1:], value)
	return object
}

// required returns the fields that an object must have, in a spec that declares every component.
func required(where at) map[string]any {
	switch {
	case where.last() == "thirdParty":
		return map[string]any{"url": urlOf(where[0])}
	case where.last() == "autoscaling":
		return map[string]any{"max": int64(1000)}
	case where.last() == "backup" && len(where) == 2 || where.last() == "restoreFrom":
		return map[string]any{"destination": map[string]any{"claim": map[string]any{"name": "backups"}}}
	case where.last() == "importFrom":
		return map[string]any{"host": "old-db.example.com", "credentialsSecret": map[string]any{"name": "a"}}
	case where.last() == "verify":
		return map[string]any{"schedule": "@weekly"}
	case where.last() == "s3":
		return map[string]any{"endpoint": "https://s3.example.com", "bucket": "backups", "credentialsSecret": map[string]any{"name": "s3"}}
	case where.last() == "caSecret" || where.last() == "credentialsSecret" || where.last() == "claim" || where.last() == "identitySecret":
		return map[string]any{"name": "a"}
	case where.last() == "httpRoute":
		return map[string]any{"gateways": []any{map[string]any{"name": "public"}}}
	case where.last() == "ingress":
		return map[string]any{"host": "data.example.com"}
	case len(where) > 1 && (where[len(where)-2] == "users" || where[len(where)-2] == "claims"):
		return map[string]any{"name": "reporter"}
	}
	return map[string]any{}
}

// get returns the value at a path.
func get(in any, where at) any {
	for _, step := range where {
		switch step {
		case "0":
			in = in.([]any)[0]
		case "*":
			in = in.(map[string]any)["KEY"]
		default:
			in = in.(map[string]any)[step]
		}
	}
	return in
}

func decode(t *testing.T, object *unstructured.Unstructured) *dsv1.DataService {
	t.Helper()
	data, err := json.Marshal(object)
	assert.NilError(t, err)
	ds := &dsv1.DataService{}
	assert.NilError(t, json.Unmarshal(data, ds))
	return ds
}

func asJSON(t *testing.T, v any) map[string]any {
	t.Helper()
	data, err := json.Marshal(v)
	assert.NilError(t, err)
	found := map[string]any{}
	assert.NilError(t, json.Unmarshal(data, &found))
	return found
}
