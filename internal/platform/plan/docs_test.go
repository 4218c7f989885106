// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/platform/plan"
)

// example matches a block of YAML in a page.
var example = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// Every DataService that a page shows completely can be rendered.
func TestExamplesRender(t *testing.T) {
	t.Parallel()
	const root = "../../.."
	count := 0
	pages, err := filepath.Glob(filepath.Join(root, "*.md"))
	assert.NilError(t, err)
	assert.NilError(t, filepath.WalkDir(filepath.Join(root, "docs"), func(page string, _ os.DirEntry, err error) error {
		if filepath.Ext(page) == ".md" {
			pages = append(pages, page)
		}
		return err
	}))
	for _, page := range pages {
		content, err := os.ReadFile(page)
		assert.NilError(t, err)
		for _, found := range example.FindAllSubmatch(content, -1) {
			text := string(found[1])
			if !strings.Contains(text, "kind: "+dsv1.Kind+"\n") {
				continue
			}
			count++
			ds, err := plan.Parse([]byte(text))
			assert.NilError(t, err, "%s:\n%s", page, text)
			ds.Namespace = "default"
			objects, err := plan.Objects(ds, plan.KubeVersion)
			assert.NilError(t, err, "%s:\n%s", page, text)
			assert.Assert(t, len(objects) > 0)
		}
	}
	assert.Assert(t, count >= 3, "%d examples", count)
}
