// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"strings"
	"testing"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/rig/chance"
	"d3os.com/d3os-operator/internal/contract"
)

var now = time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)

// catalogue makes entries of a text, newest first, a day apart: g good, v verified, f proven damaged,
// o failed for any reason by an older agent, u with a verdict that cannot be read, d an object missing, m that of a verified one, n newer format, s not to be read, w that of a verified one.
func catalogue(text string) []Entry {
	var entries []Entry
	for i, c := range text {
		e := Entry{ID: string(rune('a' + i)), Manifest: &manifest.Backup{Completed: now.Add(-time.Duration(i) * 24 * time.Hour)}}
		switch c {
		case 'v', 'f', 'o':
			e.Verified = &manifest.Verification{OK: c == 'v', Damaged: c == 'f'}
		case 'm':
			e.Verified, e.Err = &manifest.Verification{OK: true}, contract.Errorf(contract.ReasonDamaged, "missing")
		case 'u':
			e.IsVerdictUnknown = true
		case 'w':
			e.Manifest, e.Err = nil, contract.Errorf(contract.ReasonStoreUnreachable, "no answer")
			e.Verified = &manifest.Verification{OK: true}
		case 's':
			e.Manifest, e.Err = nil, contract.Errorf(contract.ReasonStoreUnreachable, "no answer")
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
		{"the newest verified and all newer ones stay", "gggvv", Rule{Keep: 1}, "e"},
		{"what is damaged takes no good one's place", "fggg", Rule{Keep: 1}, "cd"},
		{"damaged ones do not count", "dggg", Rule{Keep: 1}, "cd"},
		{"without a good one nothing goes", "dfd", Rule{Keep: 1}, ""},
		{"newer than the verified one, damaged or not", "fgdgvgf", Rule{Keep: 1}, "fg"},
		{"an object of the verified one is missing since", "gmgv", Rule{Keep: 1}, ""},
		{"a check that failed by an older agent convicts nothing", "oog", Rule{Keep: 2}, "c"},
		{"a verdict that cannot be read may be a good one", "gugg", Rule{Keep: 1}, "cd"},
		{"a verdict that cannot be read, behind a good one", "vgug", Rule{Keep: 1}, "bd"},
		{"of several verdicts that cannot be read the oldest may be the good one", "uggugg", Rule{Keep: 1}, "ef"},
		{"the verified one cannot be read now", "gggwg", Rule{Keep: 1}, "e"},
		{"what cannot be read now stays", "gsgs", Rule{Keep: 1}, "c"},
		{"damaged ones go behind enough good ones", "gfgf", Rule{Keep: 2}, "d"},
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

// For any catalogue and rule, the newest verified backup and all newer ones stay. If no verification is certain, the oldest backup that may
// be verified counts instead. At least as many backups stay as the rule demands.
func TestRetentionAlways(t *testing.T) {
	random := chance.New(t, 1)
	for range 20_000 {
		text := ""
		for range random.Intn(12) {
			text += string("gvfdnousw"[random.Intn(9)])
		}
		rule := Rule{Keep: random.Intn(4), KeepFor: time.Duration(random.Intn(5)) * 24 * time.Hour, AtLeast: random.Intn(4), PointInTime: time.Duration(random.Intn(72)) * time.Hour}
		removed := map[string]bool{}
		for _, e := range rule.Remove(catalogue(text), now) {
			removed[e.ID] = true
		}
		good, left := 0, 0
		for i, c := range text {
			if strings.ContainsRune("gvou", c) {
				good++
				if !removed[string(rune('a'+i))] {
					left++
				}
			}
		}
		last := strings.IndexByte(text, 'v')
		if last < 0 {
			last = strings.LastIndexAny(text, "uw")
		}
		for i := range last + 1 {
			if removed[string(rune('a'+i))] {
				t.Fatalf("%q: %+v removes the newest verified one, or a newer one", text, rule)
			}
		}
		if left < min(good, max(rule.AtLeast, rule.Keep)) {
			t.Fatalf("%q: %+v leaves %d of %d good ones", text, rule, left, good)
		}
	}
}
