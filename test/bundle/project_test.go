// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/test/cluster"
)

// Everything that leads to the project leads to the address of hack/project.env, and no file names another one.
func TestLinksLeadToThePublisher(t *testing.T) {
	t.Parallel()
	project := map[string]string{}
	for line := range strings.Lines(string(mustRead(t, "hack/project.env"))) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(line, "#") {
			project[name] = value
		}
	}
	url, email := project["PROJECT_URL"], project["PROJECT_EMAIL"]
	assert.Assert(t, url != "" && email != "", "%v", project)
	catalogued := read[struct {
		Metadata struct {
			Annotations map[string]string
		}
		Spec struct {
			Links       []struct{ URL string }
			Maintainers []struct{ Email string }
			Provider    struct{ URL string }
		}
	}](t, csvFile)
	assert.Equal(t, catalogued.Metadata.Annotations["repository"], url)
	assert.Equal(t, catalogued.Spec.Provider.URL, url)
	assert.Equal(t, catalogued.Spec.Maintainers[0].Email, email)
	assert.Assert(t, len(catalogued.Spec.Links) > 3)
	for _, link := range catalogued.Spec.Links {
		assert.Check(t, strings.HasPrefix(link.URL, url), link.URL)
	}
	assert.Assert(t, strings.Contains(string(mustRead(t, "SECURITY.md")), "<"+email+">"))
	rules := string(mustRead(t, "config/prometheus/rules.yaml"))
	assert.Equal(t, strings.Count(rules, "runbook_url: "), strings.Count(rules, "runbook_url: "+url+"/"))
	assert.NilError(t, filepath.WalkDir(cluster.Root(), func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(cluster.Root(), path)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == "bin" || name == "dist" || name == "releases" || strings.HasPrefix(entry.Name(), ".") && name != "."):
			return filepath.SkipDir
		case entry.IsDir() || !entry.Type().IsRegular():
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		// hack/catalog.sh replaces what released bundles have, and this test searches for it.
		if name != "hack/catalog.sh" && !strings.HasSuffix(name, "project_test.go") {
			assert.Check(t, !stranger.Match(data), "%s leads to %s", name, stranger.Find(data))
		}
		return nil
	}))
}

// stranger finds addresses that earlier releases had, on accounts that are not the project's.
var stranger = regexp.MustCompile(`github\.com/d3os/|https://d3os\.com|@d3os\.com`)
