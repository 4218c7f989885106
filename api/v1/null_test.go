// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"maps"
	"slices"
	"testing"

	"gotest.tools/v3/assert"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// needed are the optional fields that a rule asks for all the same: see violations.
var needed = []string{"spec.mysql", "spec.eureka", "spec.uuc", "spec.uuc.thirdParty", "spec.additionalServices[0].image",
	"spec.etcd.tls.serverSecret", "spec.etcd.tls.peerSecret", "spec.etcd.tls.clientSecret"}

// null means not given, everywhere: it is accepted for every optional field and reads as its
// absence. A field that does not exist is refused beside every one that does.
func TestNullIsNotGiven(t *testing.T) {
	t.Parallel()
	fields := 0
	walk(specSchema(t), nil, func(where at, schema apiextensionsv1.JSONSchemaProps) {
		if len(schema.Properties) > 0 {
			err := validate(t, withSpec(put(t, where.below("unknown"), "a")))
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
				given, absent := withSpec(put(t, field, nil)), put(t, field, nil)
				assert.NilError(t, validate(t, given))
				delete(get(absent, where).(map[string]any), name)
				without := withSpec(absent)
				assert.NilError(t, validate(t, without))
				assert.DeepEqual(t, decode(t, given).Spec, decode(t, without).Spec)
			})
		}
	})
	assert.Assert(t, fields > 250, "only %d optional fields were found", fields)
	for _, spec := range []string{"{mysql: null, eureka: null, uuc: null}", "mysql: null", "auth: null"} {
		assert.NilError(t, validate(t, resourceOf(t, spec)))
	}
}
