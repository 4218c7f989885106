// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"testing"

	"gotest.tools/v3/assert"
)

// A rename of mysql means another volume. Where there is none yet, or none any more, and for
// middleware without data, a name may change.
func TestNamesThatMayChange(t *testing.T) {
	t.Parallel()
	const elsewhere = "kind: ThirdParty, thirdParty: {url: 'mysql://example.com'}"
	for name, test := range map[string][2]string{
		"the default, told":           {"mysql: {}", "mysql: {name: mysql-dataservice}"},
		"the default, told no more":   {"mysql: {name: mysql-dataservice}", "mysql: {name: null}"},
		"the same, of another kind":   {"mysql: {name: a}", "mysql: {name: a, kind: Deployment}"},
		"mysql added":                 {"{}", "mysql: {name: a}"},
		"mysql taken out":             {"mysql: {name: a}", "{}"},
		"of mysql elsewhere":          {"mysql: {name: a, " + elsewhere + "}", "mysql: {name: b, " + elsewhere + "}"},
		"of mysql elsewhere, as 3":    {"mysql: {name: a, kind: 3, thirdParty: {url: 'mysql://example.com'}}", "mysql: {name: b, kind: 3, thirdParty: {url: 'mysql://example.com'}}"},
		"with mysql moving elsewhere": {"mysql: {name: a}", "mysql: {name: b, " + elsewhere + "}"},
		"with mysql moving in":        {"mysql: {name: a, " + elsewhere + "}", "mysql: {name: b}"},
		"of eureka":                   {"eureka: {name: a}", "eureka: {name: b}"},
		"of uuc":                      {"uuc: {name: a, thirdParty: {url: 'http://a'}}", "uuc: {thirdParty: {url: 'http://a'}}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.NilError(t, update(t, resourceOf(t, test[0]), resourceOf(t, test[1])))
		})
	}
}

// mysql that is taken out and declared again later may have any name: its data was retained under
// the old one, and the author has said twice that this is what is meant.
func TestMySQLMayComeBackUnderAnotherName(t *testing.T) {
	t.Parallel()
	object := resourceOf(t, "mysql: {name: a}")
	object.SetNamespace(newNamespace(t))
	assert.NilError(t, api.Create(t.Context(), object))
	for _, spec := range []string{"{}", "mysql: {name: b}"} {
		changed := resourceOf(t, spec)
		changed.SetNamespace(object.GetNamespace())
		changed.SetResourceVersion(object.GetResourceVersion())
		assert.NilError(t, api.Update(t.Context(), changed))
		object = changed
	}
}
