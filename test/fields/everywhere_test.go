// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

// A field that components share means something on each of them: the cases of web, on others.
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
		// What runs elsewhere has a pod that asks for it, and no port or settings of ours.
		{"eureka", "elsewhere", "eureka", []string{
			"port", "nodePort", "serviceType", "serviceAnnotations", "serviceLabels", "config", "replica", "size",
			"probes.path", "probes.startup", "probes.startup.disabled", "probes.liveness.disabled",
		}},
		{"auth", "base", "auth", nil},
		{"reports", "few", "additionalServices", nil},
		// Without a port there is nothing that a probe without a handler could ask.
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
					continue // others have to know it
				}
				all := ByID(slices.Concat(before, after))
				for _, id := range slices.Concat(d.Added, d.Changed, d.Removed) {
					assert.Check(t, all[id].GetLabels()["app.kubernetes.io/name"] == on.name, "%s changes %s", field, id)
				}
			}
		})
	}
}

// shared returns what a case changes on web, if that means the same on any other component.
func shared(c *Case) (field string, change any) {
	field = strings.TrimPrefix(c.Field, "web.")
	switch field {
	case "name", "podTemplate", "volumeMounts": // they refer to what web has
		return "", nil
	}
	if c.Base != "base" || c.What != "" || c.Unchanged != "" {
		return "", nil
	}
	return field, c.Set["web"]
}
