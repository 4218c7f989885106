// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/diff"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/platform/plan"
)

const kubeVersion = "v1.36.0"

func table(t *testing.T) []Case {
	t.Helper()
	cases, err := Cases()
	assert.NilError(t, err)
	assert.Assert(t, len(cases) > 100, "the table is incomplete")
	return cases
}

func rendered(t *testing.T, ds *unstructured.Unstructured) []*unstructured.Unstructured {
	t.Helper()
	data, err := ds.MarshalJSON()
	assert.NilError(t, err)
	parsed, err := plan.Parse(data)
	assert.NilError(t, err)
	parsed.Namespace = "data"
	objects, err := plan.Objects(parsed, kubeVersion)
	assert.NilError(t, err)
	return objects
}

// Every case shows what it changes, and its golden file says the same.
func TestGolden(t *testing.T) {
	t.Parallel()
	bases, err := Bases()
	assert.NilError(t, err)
	before := map[string][]*unstructured.Unstructured{}
	for _, name := range bases {
		base, err := Load(name)
		assert.NilError(t, err)
		before[name] = rendered(t, base)
	}
	for _, c := range table(t) {
		t.Run(c.Name(), func(t *testing.T) {
			t.Parallel()
			changed, err := c.Changed()
			assert.NilError(t, err)
			text := show(t, before[c.Base], rendered(t, changed))
			if c.Unchanged != "" {
				assert.Equal(t, text, "", "the case says: "+c.Unchanged)
				return
			}
			assert.Assert(t, text != "", "the change is without effect")
			golden.Assert(t, text, c.Name()+".diff")
		})
	}
}

// show renders a difference as unified diffs of YAML: what goes, what changes, what comes.
func show(t *testing.T, before, after []*unstructured.Unstructured) string {
	t.Helper()
	var out strings.Builder
	was, is := ByID(before), ByID(after)
	d := Compare(before, after)
	for _, id := range slices.Concat(d.Removed, d.Changed, d.Added) {
		from, to, old, planned := "/dev/null", "/dev/null", "", ""
		if was[id] != nil {
			from, old = id, Text(was[id])
		}
		if is[id] != nil {
			to, planned = id, Text(is[id])
		}
		_, text, _ := bytes.Cut(diff.Diff(from, []byte(old), to, []byte(planned)), []byte("\n"))
		out.Write(text)
	}
	return out.String()
}

// Two cases of one name would share a golden file, and one without a case would pass for ever; a base that nothing changes
// is of no use.
func TestGoldenFilesAndBasesAreUsed(t *testing.T) {
	t.Parallel()
	want, used := map[string]bool{}, map[string]bool{}
	for _, c := range table(t) {
		_, twice := want[c.Name()]
		assert.Assert(t, !twice, "there are two cases %s", c.Name())
		want[c.Name()], used[c.Base] = c.Unchanged == "", true
	}
	found, err := filepath.Glob("testdata/*")
	assert.NilError(t, err)
	for _, file := range found {
		assert.Assert(t, want[strings.TrimSuffix(filepath.Base(file), ".diff")], "%s has no case", file)
	}
	bases, err := Bases()
	assert.NilError(t, err)
	for _, base := range bases {
		assert.Assert(t, used[base], "nothing changes %s", base)
	}
}
