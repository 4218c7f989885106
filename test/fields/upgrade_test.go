// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// kept is the name of the file in which keep stores the digests of a release. hack/release.sh sets it.
var kept = flag.String("keep", "", "write the digests that this version renders to this file")

func keep(t *testing.T, digests map[string]string) {
	t.Helper()
	if *kept == "" {
		return
	}
	var list strings.Builder
	for _, object := range slices.Sorted(maps.Keys(digests)) {
		fmt.Fprintln(&list, object, digests[object])
	}
	assert.NilError(t, os.WriteFile(filepath.Join(digestsOf, *kept), []byte(list.String()), 0o600))
}

// lastRelease returns the newest release that is older than this version.
func lastRelease(t *testing.T) string {
	t.Helper()
	version, err := os.ReadFile("../../VERSION")
	assert.NilError(t, err)
	out, err := exec.CommandContext(t.Context(), "../../hack/released.sh", strings.TrimSpace(string(version))).Output()
	assert.NilError(t, err)
	return strings.TrimSpace(string(out))
}

// released returns the digests that a release rendered.
func released(t *testing.T, version string) map[string]string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(digestsOf, "v"+version+".txt"))
	assert.NilError(t, err, "make release writes it, see docs/develop/releasing.md")
	found := map[string]string{}
	for line := range strings.Lines(string(content)) {
		at := strings.LastIndex(line, " ")
		assert.Assert(t, at > 0, "no object and digest: %q", line)
		found[line[:at]] = strings.TrimSpace(line[at:])
	}
	return found
}

// differing returns every object that only one side has, or whose digests differ.
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

// faults compares the changed objects with the expected changes.
func faults(all, differ []string, changes []change) []string {
	var found []string
	explained := map[string]bool{}
	for _, c := range changes {
		if c.because == "" {
			found = append(found, c.objects+": changed_test.go has no reason for this change")
		}
		pattern, used := regexp.MustCompile("^(?:"+c.objects+")$"), false
		for _, object := range all {
			switch {
			case !pattern.MatchString(object):
			case slices.Contains(differ, object):
				explained[object], used = true, true
			default:
				found = append(found, object+": has not changed, but changed_test.go lists it:  "+c.objects)
			}
		}
		if !used {
			found = append(found, c.objects+": changed_test.go lists it, but no such object has changed")
		}
	}
	for _, object := range differ {
		if !explained[object] {
			found = append(found, object+": an upgrade would write it. If that is intended, add it with its reason to changed_test.go")
		}
	}
	return found
}

// An upgrade from the last release writes, adds and removes exactly the objects that changed_test.go names.
func TestUpgradeWritesOnlyWhatIsMeantToChange(t *testing.T) {
	t.Parallel()
	before := released(t, lastRelease(t))
	assert.Assert(t, len(before) > 200, "the list of the release has only %d objects", len(before))
	now, err := digests()
	assert.NilError(t, err)
	keep(t, now)
	all := maps.Clone(before)
	maps.Copy(all, now)
	for _, fault := range faults(slices.Sorted(maps.Keys(all)), differing(before, now), changed) {
		t.Error(fault)
	}
}
