// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

// FuzzDecode checks two facts: a decoded object equals its round trip and its copy, and setting defaults twice has no
// further effect.
func FuzzDecode(f *testing.F) {
	samples, err := filepath.Glob("../../../config/samples/*.yaml")
	assert.NilError(f, err)
	cases, err := filepath.Glob("../../../test/fields/bases/*.yaml")
	assert.NilError(f, err)
	for _, file := range append(samples, cases...) {
		data, err := os.ReadFile(file)
		assert.NilError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		ds := &dsv1.DataService{}
		if len(data) > 1<<16 || yaml.Unmarshal(data, ds) != nil {
			t.Skip("no DataService, or too much of it")
		}
		assert.Assert(t, equality.Semantic.DeepEqual(ds, ds.DeepCopy()), "the copy differs")
		dsv1.SetDefaults(ds)
		once := ds.DeepCopy()
		dsv1.SetDefaults(ds)
		assert.Assert(t, equality.Semantic.DeepEqual(once, ds), "SetDefaults changes the result when it is called again")
		text, err := yaml.Marshal(ds)
		assert.NilError(t, err)
		again := &dsv1.DataService{}
		assert.NilError(t, yaml.Unmarshal(text, again))
		second, err := yaml.Marshal(again)
		assert.NilError(t, err)
		assert.Equal(t, string(text), string(second))
	})
}
