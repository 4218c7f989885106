// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// garbage is every type of JSON in every other, under names that mean something elsewhere.
func garbage() map[string]any {
	deep := any("end")
	for range 50 {
		deep = []any{map[string]any{"deeper": deep}}
	}
	return map[string]any{
		"": nil, "name": []any{int64(1), nil, "a", true, []any{}, map[string]any{}}, "metadata": map[string]any{"name": int64(1), "labels": "none"},
		"kind": true, "apiVersion": 1.5, "spec": []any{[]any{[]any{nil}}}, "Raw": "e30=", "path": map[string]any{"": ""}, "startup": "now",
		"int": int64(math.MaxInt64), "less": int64(math.MinInt64), "float": 1.5e300, "small": 5e-324, "empty": "", "text": "\u0000\"\\{{a}}\u2028\U0001F600",
		"\u00e4 .\"": false, "deep": deep, "requests": int64(-1), "containers": "none",
	}
}

// objects are the places of every field that the CRD does not spell out.
func objects(t *testing.T) []at {
	t.Helper()
	var found []at
	walk(specSchema(t), nil, func(where at, schema apiextensionsv1.JSONSchemaProps) {
		if schema.XPreserveUnknownFields == nil {
			return
		}
		assert.Equal(t, schema.Type, "object", where.String())
		assert.Equal(t, len(schema.Properties), 0, where.String())
		found = append(found, where)
	})
	assert.Assert(t, len(found) > 120, "only %d were found", len(found))
	return found
}

// same compares as JSON. What is nested deeply takes assert.DeepEqual for ever.
func same(t *testing.T, got, want any) {
	t.Helper()
	assert.Assert(t, reflect.DeepEqual(plain(t, got), plain(t, want)), "%v is not %v", got, want)
}

func plain(t *testing.T, v any) any {
	t.Helper()
	data, err := json.Marshal(v)
	assert.NilError(t, err)
	var found any
	assert.NilError(t, json.Unmarshal(data, &found))
	return found
}

func TestObjectsAreObjects(t *testing.T) {
	t.Parallel()
	for _, where := range objects(t) {
		values := []any{"text", []any{map[string]any{}}, int64(1), true}
		if where.last() == "0" {
			values = append(values, nil)
		}
		for _, value := range values {
			t.Run(fmt.Sprintf("%s=%v", where, value), func(t *testing.T) {
				t.Parallel()
				err := validate(t, withSpec(put(t, where, value)))
				assert.Assert(t, apierrors.IsInvalid(err), "%v", err)
				assert.ErrorContains(t, err, where.String()+": Invalid value")
			})
		}
	}
}

// A resource that does not decode would stop the operator's cache for everybody: whatever the
// API server takes in, the Go types do too, and keep as it is what the operator alone can judge.
func TestGarbageDecodes(t *testing.T) {
	t.Parallel()
	spec := any(everything(t))
	for _, where := range objects(t) {
		spec = set(spec, nil, where, garbage())
	}
	object := withSpec(spec.(map[string]any))
	object.SetNamespace(newNamespace(t))
	assert.NilError(t, api.Create(t.Context(), object))

	list := &DataServiceList{}
	assert.NilError(t, api.List(t.Context(), list, client.InNamespace(object.GetNamespace())))
	assert.Equal(t, len(list.Items), 1)
	decoded := plain(t, list.Items[0].DeepCopy().Spec)
	for _, where := range objects(t) {
		same(t, get(decoded, where), garbage())
	}
	// Writing it back changes nothing.
	generation := list.Items[0].Generation
	assert.NilError(t, api.Update(t.Context(), &list.Items[0]))
	assert.Equal(t, list.Items[0].Generation, generation)
}

// Numbers that a field's Go type cannot hold do not get past the API server.
func TestNumbersDecode(t *testing.T) {
	t.Parallel()
	fields := 0
	walk(specSchema(t), nil, func(where at, schema apiextensionsv1.JSONSchemaProps) {
		if schema.Type != "integer" && !schema.XIntOrString {
			return
		}
		fields++
		for _, value := range []any{1e20, 1e30, -1e30, 1e300, 1.5, 2.0, int64(1 << 31), int64(-1 << 31), int64(math.MaxInt64), int64(math.MinInt64), "1", strings.Repeat("9", 16)} {
			t.Run(fmt.Sprintf("%s=%v", where, value), func(t *testing.T) {
				t.Parallel()
				object := withSpec(put(t, where, value))
				if err := validate(t, object); err == nil {
					decode(t, object)
				} else {
					assert.Assert(t, apierrors.IsInvalid(err), "%v", err)
				}
			})
		}
	})
	assert.Assert(t, fields > 40, "only %d were found", fields)
}
