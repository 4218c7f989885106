// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package why_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/why"
)

// The troubleshooting page contains all texts of the plugin. Its tables are generated from test/why. For each cause in
// test/why, a file in testdata/golden contains it, or a fault in test/why produces it.
func TestTroubleIsWhatThePluginSays(t *testing.T) {
	t.Parallel()
	const page = "docs/operate/troubleshooting.md"
	causes, err := why.Page()
	assert.NilError(t, err)
	assert.Assert(t, len(causes) > 20, "%d rows", len(causes))
	faults, err := why.Read()
	assert.NilError(t, err)
	data, err := os.ReadFile(filepath.Join(cluster.Root(), page))
	assert.NilError(t, err)
	text := string(data)
	assert.Equal(t, text, why.Fill(text, causes), "make docs")
	goldens, err := filepath.Glob("testdata/golden/*.txt")
	assert.NilError(t, err)
	said := map[string]string{}
	for _, golden := range goldens {
		data, err := os.ReadFile(golden)
		assert.NilError(t, err)
		said[filepath.Base(golden)], _, _ = strings.Cut(string(data), "\n")
	}
	for _, c := range causes {
		assert.Check(t, strings.Contains(text, c.Says), "%s has no table for section %s", page, c.Section)
		found := slices.ContainsFunc(slices.Collect(maps.Values(said)), c.Pattern().MatchString) ||
			slices.ContainsFunc(faults, func(f why.Fault) bool { return f.Name == c.Row })
		assert.Check(t, found, "no golden file and no row of the corpus has the text %s", c.Says)
	}
	for name, text := range said {
		if !strings.HasSuffix(name, "well.txt") {
			assert.Check(t, slices.ContainsFunc(causes, func(c why.Cause) bool { return c.Pattern().MatchString(text) }), "%s has no row for %s: %s", page, name, text)
		}
	}
}
