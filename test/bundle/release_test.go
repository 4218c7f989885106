// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/test/cluster"
)

// Every release has a bundle and the commit that it was built from.
func TestReleasesHaveCommits(t *testing.T) {
	folders, err := filepath.Glob(filepath.Join(cluster.Root(), "releases", "v*"))
	assert.NilError(t, err)
	var released, committed []string
	for _, folder := range folders {
		released = append(released, strings.TrimPrefix(filepath.Base(folder), "v"))
	}
	for line := range strings.Lines(string(mustRead(t, "releases/commits"))) {
		version, commit, _ := strings.Cut(strings.TrimSpace(line), " ")
		assert.Assert(t, regexp.MustCompile("^[0-9a-f]{40}$").MatchString(commit), "no commit: %q", line)
		committed = append(committed, version)
	}
	assert.DeepEqual(t, sorted(committed), sorted(released))
}

// Commands that users copy install this version, and upgrade to it from the last release.
func TestDocsNameThisVersion(t *testing.T) {
	version := strings.TrimSpace(string(mustRead(t, "VERSION")))
	previous := strings.TrimSpace(string(script(t, "hack/released.sh", version)))
	for _, c := range []struct {
		file, pattern string
		want          []string
	}{
		{"docs/install.md", `d3os-operator-catalog:v([0-9.]+)`, []string{version}},
		{"config/olmv1/clustercatalog.yaml", `d3os-operator-catalog:v([0-9.]+)`, []string{version}},
		{"config/olmv1/clusterextension.yaml", `version: ([0-9.]+)`, []string{version}},
		{"docs/install.md", `path: /spec/source/catalog/version, value: ([0-9.]+)`, []string{previous}},
		{"docs/install.md", `newTag: v([0-9.]+)`, []string{version}},
		{"docs/install.md", `d3os-operator-bundle:v([0-9.]+)`, []string{previous, version}},
		{"docs/develop/images.md", `d3os-operator-catalog:v([0-9.]+)`, []string{version}},
	} {
		var named []string
		for _, match := range regexp.MustCompile(c.pattern).FindAllStringSubmatch(string(mustRead(t, c.file)), -1) {
			named = append(named, match[1])
		}
		assert.DeepEqual(t, slices.Compact(named), c.want)
	}
}

// A mirror of the printed images carries every upgrade that the catalog offers, from the first release on.
func TestImagesOfEveryUpgradeAreListed(t *testing.T) {
	version := strings.TrimSpace(string(mustRead(t, "VERSION")))
	const base = "registry-edge.cosmoplat.com/dataservice/d3os-operator"
	c := command(t, "hack/images.sh", "list")
	c.Env = append(c.Environ(), "IMAGE_TAG_BASE="+base, "VERSION="+version)
	out, err := c.Output()
	assert.NilError(t, err)
	listed := strings.Fields(string(out))
	folders, err := filepath.Glob(filepath.Join(cluster.Root(), "releases", "v*"))
	assert.NilError(t, err)
	for _, folder := range append(folders, filepath.Join(cluster.Root(), "bundle")) {
		folder, err = filepath.Rel(cluster.Root(), folder)
		assert.NilError(t, err)
		release := read[csv](t, folder+"/manifests/d3os-operator.clusterserviceversion.yaml")
		want := []string{release.Annotations["containerImage"], base + "-bundle:" + strings.TrimPrefix(release.Name, "d3os-operator.")}
		for _, related := range release.Spec.RelatedImages {
			want = append(want, related.Image)
		}
		for _, container := range release.Spec.Install.Spec.Deployments[0].Spec.Template.Spec.Containers {
			want = append(want, container.Image)
		}
		assert.Assert(t, len(want) > 10, folder)
		for _, image := range want {
			assert.Check(t, slices.Contains(listed, image), "%s needs %s", folder, image)
		}
	}
	assert.Equal(t, len(listed), len(slices.Compact(sorted(listed))), "an image is listed twice")
}
