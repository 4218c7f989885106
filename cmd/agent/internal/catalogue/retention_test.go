// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"math/rand"
	"strings"
	"testing"
	"time"

	"d3os.com/d3os-operator/cmd/agent/contract"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
)

var now = time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)

// catalogue makes entries of a text, newest first, a day apart: g good, v verified, f failed verification, d damaged, n newer format.
func catalogue(text string) []Entry {
	var entries []Entry
	for i, c := range text {
		e := Entry{ID: string(rune('a' + i)), Manifest: &manifest.Backup{Completed: now.Add(-time.Duration(i) * 24 * time.Hour)}}
		switch c {
		case 'v', 'f':
			e.Verified = &manifest.Verification{OK: c == 'v'}
		case 'd':
			e.Err = contract.Errorf(contract.ReasonDamaged, "damaged")
		case 'n':
			e.Manifest, e.Err = nil, contract.Errorf(contract.ReasonNewerFormat, "newer")
		}
		entries = append(entries, e)
	}
	return entries
}

func TestRetention(t *testing.T) {
	day := 24 * time.Hour
	for _, c := range []struct {
		name, have string
		rule       Rule
		removed    string
	}{
		{"the newest stay", "ggggg", Rule{Keep: 2}, "cde"},
		{"by age", "ggggg", Rule{KeepFor: 3 * day}, "de"},
		{"by age, but at least some", "ggggg", Rule{KeepFor: day, AtLeast: 3}, "de"},
		{"both keep", "ggggg", Rule{Keep: 4, KeepFor: 2 * day}, "e"},
		{"the newest verified stays", "gggvv", Rule{Keep: 1}, "bce"},
		{"what failed does not count", "fggg", Rule{Keep: 1}, "acd"},
		{"damaged ones do not count", "dggg", Rule{Keep: 1}, "acd"},
		{"without a good one nothing goes", "dfd", Rule{Keep: 1}, ""},
		{"of a newer format nothing is known", "nggg", Rule{Keep: 1}, "cd"},
		{"a point in time needs the one before", "gggggg", Rule{Keep: 1, PointInTime: 36 * time.Hour}, "def"},
	} {
		t.Run(c.name, func(t *testing.T) {
			removed := ""
			for _, e := range c.rule.Remove(catalogue(c.have), now) {
				removed += e.ID
			}
			if removed != c.removed {
				t.Errorf("removed %q, wanted %q", removed, c.removed)
			}
		})
	}
}

// Of any catalogue and by any rule, the newest verified backup stays, and never are fewer left than the rule says.
func TestRetentionAlways(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	for range 20_000 {
		text := ""
		for range random.Intn(12) {
			text += string("gvfdn"[random.Intn(5)])
		}
		rule := Rule{Keep: random.Intn(4), KeepFor: time.Duration(random.Intn(5)) * 24 * time.Hour, AtLeast: random.Intn(4), PointInTime: time.Duration(random.Intn(72)) * time.Hour}
		removed := map[string]bool{}
		for _, e := range rule.Remove(catalogue(text), now) {
			removed[e.ID] = true
		}
		good, left := 0, 0
		for i, c := range text {
			if c == 'g' || c == 'v' {
				good++
				if !removed[string(rune('a'+i))] {
					left++
				}
			}
		}
		if i := strings.IndexByte(text, 'v'); i >= 0 && removed[string(rune('a'+i))] {
			t.Fatalf("%q: %+v removes the newest verified", text, rule)
		}
		if left < min(good, max(rule.AtLeast, rule.Keep)) {
			t.Fatalf("%q: %+v leaves %d of %d good ones", text, rule, left, good)
		}
	}
}
