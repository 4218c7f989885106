// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
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

// Every case changes manifests, unless its field `unchanged` gives the reason. The golden file of its base lists the changed leaves, and
// so shows a reviewer the effect of each field.
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
	cases := table(t)
	after := make([][]*unstructured.Unstructured, len(cases))
	t.Run("render", func(t *testing.T) {
		for i, c := range cases {
			t.Run(c.Name(), func(t *testing.T) {
				t.Parallel()
				changed, err := c.Changed()
				assert.NilError(t, err)
				after[i] = rendered(t, changed)
				assert.Equal(t, Compare(before[c.Base], after[i]).Empty(), c.Unchanged != "", "no manifest changes: %q", c.Unchanged)
			})
		}
	})
	for _, base := range bases {
		t.Run(base, func(t *testing.T) {
			var out strings.Builder
			former := map[string]addition{}
			for i, c := range cases {
				if c.Base == base && c.Unchanged == "" {
					fmt.Fprintf(&out, "\n== %s\n", c.Name())
					show(&out, c.Name(), before[base], after[i], former)
				}
			}
			golden.Assert(t, strings.TrimPrefix(out.String(), "\n"), base+".txt")
		})
	}
}

// addition is an object that a case adds.
type addition struct {
	by     string
	object *unstructured.Unstructured
}

// show writes the difference that a case makes: removed objects by name, and the changed leaves of others. If an earlier case has added the
// same object, show compares the two.
func show(out *strings.Builder, name string, before, after []*unstructured.Unstructured, former map[string]addition) {
	was, is := ByID(before), ByID(after)
	d := Compare(before, after)
	for _, id := range d.Removed {
		fmt.Fprintf(out, "- %s\n", id)
	}
	for _, id := range d.Changed {
		fmt.Fprintf(out, "~ %s\n%s", id, changes(was[id], is[id]))
	}
	for _, id := range d.Added {
		if first, ok := former[id]; ok {
			fmt.Fprintf(out, "+ %s, as by %s\n%s", id, first.by, changes(first.object, is[id]))
			continue
		}
		former[id] = addition{name, is[id]}
		fmt.Fprintf(out, "+ %s\n%s", id, changes(&unstructured.Unstructured{}, is[id]))
	}
}

// common matches the paths that the function changes omits.
var common = regexp.MustCompile(`^$|^apiVersion$|^kind$|^metadata\.(name|namespace|ownerReferences.*|annotations\.d3os-product\.com\.d3os/digest|labels\.app\.kubernetes\.io/.*)$`)

// changes lists the leaves that differ, each with its path. It omits digests, which follow from other leaves, and the fields that all
// objects have.
func changes(from, to *unstructured.Unstructured) string {
	was, is := map[string]string{}, map[string]string{}
	flatten(was, "", from.Object)
	flatten(is, "", to.Object)
	paths := maps.Clone(was)
	maps.Copy(paths, is)
	var out strings.Builder
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		old, had := was[path]
		planned, has := is[path]
		switch {
		case old == planned && had == has, common.MatchString(path):
		case strings.HasSuffix(path, "annotations.checksum/config"):
			fmt.Fprintf(&out, "    %s: another\n", path)
		case strings.Contains(old+planned, "\n"):
			fmt.Fprintf(&out, "    %s:\n", path)
			for _, line := range strings.SplitAfter(string(diff.Diff("", []byte(old+"\n"), "", []byte(planned+"\n"))), "\n") {
				if (line[:min(1, len(line))] == "+" || line[:min(1, len(line))] == "-") && !strings.HasPrefix(line, "+++") && !strings.HasPrefix(line, "---") {
					out.WriteString("      " + line)
				}
			}
		case !had:
			fmt.Fprintf(&out, "    %s: %s\n", path, planned)
		case !has:
			fmt.Fprintf(&out, "    %s: %s -> none\n", path, old)
		default:
			fmt.Fprintf(&out, "    %s: %s -> %s\n", path, old, planned)
		}
	}
	return out.String()
}

// flatten adds the leaves of a value to a map by their paths. The path of a list item contains its index and, if it has a name, the name.
func flatten(leaves map[string]string, path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, item := range v {
			flatten(leaves, strings.TrimPrefix(path+"."+key, "."), item)
		}
		if len(v) == 0 {
			leaves[path] = "{}"
		}
	case []any:
		for i, item := range v {
			at := strconv.Itoa(i)
			if named, ok := item.(map[string]any); ok && named["name"] != nil {
				at = fmt.Sprintf("%d %v", i, named["name"])
			}
			flatten(leaves, path+"["+at+"]", item)
		}
		if len(v) == 0 {
			leaves[path] = "[]"
		}
	case string:
		leaves[path] = v
	default:
		leaves[path] = fmt.Sprint(v)
	}
}

// Two cases with the same name would share an entry of the golden files. A base without cases has no use.
func TestCasesAndBasesAreUsed(t *testing.T) {
	t.Parallel()
	names, used := map[string]bool{}, map[string]bool{}
	for _, c := range table(t) {
		assert.Assert(t, !names[c.Name()], "two cases have the name %s", c.Name())
		names[c.Name()], used[c.Base] = true, true
	}
	bases, err := Bases()
	assert.NilError(t, err)
	for _, base := range bases {
		assert.Assert(t, used[base], "nothing changes %s", base)
	}
	found, err := filepath.Glob("testdata/*.txt")
	assert.NilError(t, err)
	assert.Assert(t, len(found) == len(bases), "each base has a golden file: %v", found)
}
