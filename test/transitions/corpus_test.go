// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"

	"gotest.tools/v3/assert"
)

// Every property of the CRD has values, or its entry in the corpus names the suite that tests the property. The property's base
// contains the property's component.
func TestEveryPropertyHasValues(t *testing.T) {
	t.Parallel()
	all, err := load()
	assert.NilError(t, err)
	assert.Assert(t, len(all) > 600, "the schema is incomplete")
	for _, p := range all {
		assert.Check(t, len(p.entry.Values) > 0 || p.leaf() == "nodePort", "the property %s has no values", p)
		spec, err := base(where(p))
		assert.NilError(t, err)
		whole := []string{"defaults", "networkPolicy", "rollout", "paused", "hibernate"}
		assert.Check(t, spec[p.component()] != nil || slices.Contains(whole, p.component()), "%s: its base has no such component", p)
	}
}
