// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

// garbage returns values of every JSON type, nested in lists and objects, under names of other fields.
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

// objects returns the path of each object whose fields the CRD does not list.
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

// same compares two values as JSON. assert.DeepEqual takes too long for deeply nested values.
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
	for i, where := range objects(t) {
		values := []any{"text", []any{map[string]any{}}, int64(1), true}[i%4:][:1]
		if where.last() == "0" {
			values = append(values, nil)
		}
		for _, value := range values {
			t.Run(fmt.Sprintf("%s=%v", where, value), func(t *testing.T) {
				t.Parallel()
				err := validate(t, withSpec(put(where, value)))
				assert.Assert(t, apierrors.IsInvalid(err), "%v", err)
				assert.ErrorContains(t, err, where.String()+": Invalid value")
			})
		}
	}
}

// A resource that does not decode would stop the operator's cache for all resources. So the Go types decode every value that the API server
// accepts. Values that only the operator can validate stay unchanged.
func TestGarbageDecodes(t *testing.T) {
	t.Parallel()
	spec := any(everything())
	for _, where := range objects(t) {
		spec = set(spec, nil, where, garbage())
	}
	object := withSpec(spec.(map[string]any))
	object.SetNamespace(newNamespace(t))
	assert.NilError(t, api.Create(t.Context(), object))

	list := &dsv1.DataServiceList{}
	assert.NilError(t, api.List(t.Context(), list, client.InNamespace(object.GetNamespace())))
	assert.Equal(t, len(list.Items), 1)
	decoded := plain(t, list.Items[0].DeepCopy().Spec)
	for _, where := range objects(t) {
		same(t, get(decoded, where), garbage())
	}
	// Writing the decoded value back changes nothing.
	generation := list.Items[0].Generation
	assert.NilError(t, api.Update(t.Context(), &list.Items[0]))
	assert.Equal(t, list.Items[0].Generation, generation)
}

// The API server refuses numbers that a field's Go type cannot hold.
func TestNumbersDecode(t *testing.T) {
	t.Parallel()
	fields := 0
	walk(specSchema(t), nil, func(where at, schema apiextensionsv1.JSONSchemaProps) {
		if schema.Type != "integer" && !schema.XIntOrString {
			return
		}
		fields++
		for _, value := range []any{1e20, -1e30, 1.5, 2.0, int64(1 << 31), int64(math.MinInt64), strings.Repeat("9", 16)} {
			t.Run(fmt.Sprintf("%s=%v", where, value), func(t *testing.T) {
				t.Parallel()
				object := withSpec(put(where, value))
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

// needed contains the optional fields that a rule requires: see violations.
var needed = []string{"spec.mysql", "spec.eureka", "spec.uuc", "spec.uuc.thirdParty", "spec.additionalServices[0].image",
	"spec.etcd.tls.serverSecret", "spec.etcd.tls.peerSecret", "spec.etcd.tls.clientSecret"}

// A null field counts as not set: the API server accepts null for every optional field that no rule requires, and the decoded spec is the
// same as without the field. The API server refuses an unknown field in each object with known fields.
func TestNullIsNotGiven(t *testing.T) {
	t.Parallel()
	fields := 0
	var answers sync.Map // the API server's answers to specs without a field, by the spec as JSON, because many of these specs are equal
	walk(specSchema(t), nil, func(where at, schema apiextensionsv1.JSONSchemaProps) {
		if len(schema.Properties) > 0 {
			err := validate(t, withSpec(put(where.below("unknown"), "a")))
			assert.ErrorContains(t, err, `unknown field "`+where.below("unknown").String()+`"`)
		}
		for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
			field := where.below(name)
			if slices.Contains(schema.Required, name) || slices.Contains(needed, field.String()) || where.last() == "destination" || len(field) == 1 && twins[name] != "" {
				continue
			}
			fields++
			t.Run(field.String(), func(t *testing.T) {
				t.Parallel()
				given, absent := withSpec(put(field, nil)), put(field, nil)
				assert.NilError(t, validate(t, given))
				delete(get(absent, where).(map[string]any), name)
				text, err := json.Marshal(absent)
				assert.NilError(t, err)
				answer, _ := answers.LoadOrStore(string(text), sync.OnceValues(func() (*dsv1.DataService, error) {
					object := withSpec(absent)
					err := validate(t, object)
					return decode(t, object), err
				}))
				without, err := answer.(func() (*dsv1.DataService, error))()
				assert.NilError(t, err)
				assert.DeepEqual(t, decode(t, given).Spec, without.Spec)
			})
		}
	})
	assert.Assert(t, fields > 250, "only %d optional fields were found", fields)
	for _, spec := range []string{"{mysql: null, eureka: null, uuc: null}", "mysql: null", "auth: null"} {
		assert.NilError(t, validate(t, resourceOf(t, spec)))
	}
	given := withSpec(put(at{"mysql", "importFrom", "cutOver"}, nil))
	assert.NilError(t, api.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(given), client.DryRunAll, client.FieldOwner("flux")))
}

// The status is a subresource: a write of the spec does not change it, and a write of the status does not change the spec.
func TestTheStatusIsASubresource(t *testing.T) {
	t.Parallel()
	ds := &dsv1.DataService{Spec: dsv1.DataServiceSpec{Eureka: &dsv1.Middleware{}}, Status: dsv1.DataServiceStatus{Phase: dsv1.PhaseRunning}}
	ds.Name, ds.Namespace = "platform", newNamespace(t)
	assert.NilError(t, api.Create(t.Context(), ds))
	assert.Equal(t, ds.Status.Phase, dsv1.Phase(""))
	ds.Status = dsv1.DataServiceStatus{Phase: dsv1.PhaseRunning, Components: []dsv1.ComponentStatus{{Name: "eureka"}}}
	ds.Spec.Paused = true
	assert.NilError(t, api.Status().Update(t.Context(), ds))
	got := &dsv1.DataService{}
	assert.NilError(t, api.Get(t.Context(), client.ObjectKeyFromObject(ds), got))
	assert.Equal(t, got.Status.Phase, dsv1.PhaseRunning)
	assert.Equal(t, got.Spec.Paused, false)
	assert.Equal(t, got.Generation, int64(1))
	// A status with zero ready pods is stored, not omitted.
	assert.Assert(t, is.Contains(asJSON(t, got.Status.Components[0]), "ready"))
	assert.Assert(t, is.Contains(asJSON(t, got.Status.Components[0]), "desired"))
}
