// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/test/cluster"
)

// lastRelease returns the newest release before this version.
func lastRelease(t *testing.T) string {
	t.Helper()
	version, err := os.ReadFile(filepath.Join(cluster.Root(), "VERSION"))
	assert.NilError(t, err)
	script := filepath.Join(cluster.Root(), "hack", "released.sh")
	out, err := exec.CommandContext(t.Context(), script, strings.TrimSpace(string(version))).Output()
	assert.NilError(t, err)
	return strings.TrimSpace(string(out))
}

// released returns the digests that a release has rendered.
func released(t *testing.T, version string) map[string]string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(cluster.Root(), testdata, "v"+version+".txt"))
	assert.NilError(t, err, "make release writes it, see docs/develop/releasing.md")
	digests := map[string]string{}
	for line := range strings.Lines(string(content)) {
		at := strings.LastIndex(line, " ")
		assert.Assert(t, at > 0, "no object and digest: %q", line)
		digests[line[:at]] = strings.TrimSpace(line[at:])
	}
	return digests
}

// differing returns every object that one side lacks or has with another digest.
func differing(before, now map[string]string) []string {
	all := maps.Clone(before)
	maps.Copy(all, now)
	var found []string
	for object := range all {
		if before[object] != now[object] {
			found = append(found, object)
		}
	}
	slices.Sort(found)
	return found
}

// faults holds the objects that differ against the changes that are meant to be.
func faults(all, differ []string, changes []change) []string {
	var found []string
	explained := map[string]bool{}
	for _, c := range changes {
		if c.because == "" {
			found = append(found, c.objects+": changed.go does not say why it changes")
		}
		pattern, used := regexp.MustCompile("^(?:"+c.objects+")$"), false
		for _, object := range all {
			switch {
			case !pattern.MatchString(object):
			case slices.Contains(differ, object):
				explained[object], used = true, true
			default:
				found = append(found, object+": has not changed, but changed.go says so: "+c.objects)
			}
		}
		if !used {
			found = append(found, c.objects+": changed.go has it, but no such object has changed")
		}
	}
	for _, object := range differ {
		if !explained[object] {
			found = append(found, object+": an upgrade would write it. Is that meant? Then changed.go has to say why")
		}
	}
	return found
}

// An upgrade from the last release writes, adds and removes nothing but what changed.go names.
func TestUpgradeWritesOnlyWhatIsMeantToChange(t *testing.T) {
	before := released(t, lastRelease(t))
	assert.Assert(t, len(before) > 200, "the list of the release has only %d objects", len(before))
	now, err := render()
	assert.NilError(t, err)
	all := maps.Clone(before)
	maps.Copy(all, now)
	for _, fault := range faults(slices.Sorted(maps.Keys(all)), differing(before, now), changed) {
		t.Error(fault)
	}
}
