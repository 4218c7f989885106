// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/rig/chance"
	"d3os.com/d3os-operator/internal/contract"
)

var now = time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)

// by sets the writers of the entries: a letter for each, or a space for none. Entries without a readable manifest get no writer.
func by(writers string, entries []Entry) []Entry {
	for i := range entries {
		if entries[i].Manifest != nil && writers != "" {
			entries[i].Manifest.Writer = strings.TrimSpace(writers[i : i+1])
		}
	}
	return entries
}

// catalogue makes entries from a text, newest first, a day apart. g: good; v: verified; f: proven damaged; o: failed in a check of an
// older agent, for an unknown reason; u: unreadable verdict; d: object missing; m: verified, object missing; n: newer format; s:
// unreadable; w: unreadable, verified.
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
		writers    string // "": all entries have one writer
	}{
		{"the newest stay", "ggggg", Rule{Keep: 2}, "cde", ""},
		{"by age", "ggggg", Rule{KeepFor: 3 * day}, "de", ""},
		{"by age, but at least some", "ggggg", Rule{KeepFor: day, AtLeast: 3}, "de", ""},
		{"a backup stays if Keep or KeepFor keeps it", "ggggg", Rule{Keep: 4, KeepFor: 2 * day}, "e", ""},
		{"the newest verified and all newer ones stay", "gggvv", Rule{Keep: 1}, "e", ""},
		{"a backup with proven damage does not count", "fggg", Rule{Keep: 1}, "cd", ""},
		{"a backup with a missing object does not count", "dggg", Rule{Keep: 1}, "cd", ""},
		{"without a good backup nothing is removed", "dfd", Rule{Keep: 1}, "", ""},
		{"backups newer than the verified one stay, damaged or not", "fgdgvgf", Rule{Keep: 1}, "fg", ""},
		{"a verified backup that has lost an object does not count as verified", "gmgv", Rule{Keep: 1}, "", ""},
		{"a failed check of an older agent proves no damage", "oog", Rule{Keep: 2}, "c", ""},
		{"a backup with an unreadable verdict may be verified", "gugg", Rule{Keep: 1}, "cd", ""},
		{"a backup with an unreadable verdict stays, even if a newer one is verified", "vgug", Rule{Keep: 1}, "bd", ""},
		{"of several backups with unreadable verdicts, the oldest may be verified", "uggugg", Rule{Keep: 1}, "ef", ""},
		{"the verified one cannot be read now", "gggwg", Rule{Keep: 1}, "e", ""},
		{"an unreadable backup stays", "gsgs", Rule{Keep: 1}, "c", ""},
		{"a damaged backup is removed if enough newer ones are good", "gfgf", Rule{Keep: 2}, "d", ""},
		{"a backup of a newer format stays", "nggg", Rule{Keep: 1}, "cd", ""},
		{"the newest backup before the window of points in time stays", "gggggg", Rule{Keep: 1, PointInTime: 36 * time.Hour}, "def", ""},
		{"the rule applies to each writer separately", "vvvvvv", Rule{Keep: 2, Writer: "x", Former: []string{"y"}}, "cf", "xxxyyy"},
		{"verified backups of a new database do not replace former ones", "vvvvvv", Rule{Keep: 3, Writer: "x"}, "", "xxxyyy"},
		{"all verified backups of a former database stay", "vvvvvv", Rule{Keep: 1, KeepFor: day, Writer: "x"}, "bc", "xxxyyy"},
		{"if the rule names no writer, each writer may be a former one", "vvvvvv", Rule{Keep: 1}, "", "xxxyyy"},
		{"the newest verified backup of each writer stays", "vggvgg", Rule{KeepFor: day, AtLeast: 1, Writer: "x"}, "bcef", "xxxyyy"},
		{"two writers alternate", "vgvgvg", Rule{Keep: 1, Writer: "x"}, "cf", "xyxyyx"},
		{"a verified backup of a former database that has lost an object is removed", "vvmv", Rule{Keep: 1, Writer: "x"}, "c", "xyyy"},
		{"an unreadable backup may be the verified one of any writer", "gwggwg", Rule{Keep: 1, Writer: "x"}, "f", "xxxyyy"},
		{"backups without a writer may be of a former database", "vvvv", Rule{Keep: 1, Writer: "x"}, "b", "xx  "},
		{"the newest backups have no writer, but the rule names one", "vvvv", Rule{KeepFor: day, Writer: "x"}, "", "   x"},
		{"the newest backups have no writer, and the rule names none", "vvvv", Rule{KeepFor: day}, "", "   x"},
		{"no backup has a writer, but the rule names one", "vvvv", Rule{KeepFor: day, Writer: "x"}, "", "    "},
		{"neither the backups nor the rule name a writer", "vvvv", Rule{KeepFor: day}, "bcd", "    "},
		{"the rule names the former databases", "vvvvvv", Rule{Keep: 1, Writer: "x", Former: []string{"y", Unnamed}}, "bdf", "xxyy  "},
	} {
		t.Run(c.name, func(t *testing.T) {
			removed := ""
			for _, e := range c.rule.Remove(by(c.writers, catalogue(c.have)), now) {
				removed += e.ID
			}
			if removed != c.removed {
				t.Errorf("removed %q, want %q", removed, c.removed)
			}
		})
	}
}

// For any catalogue, writers and rule, Remove keeps the newest verified backup of each writer and all newer backups of that writer, and
// each verified backup of a former writer. If no verification is certain, Remove keeps the oldest backup that may be verified, and all
// newer ones. It keeps as many backups of each writer as the rule requires.
func TestRetentionAlways(t *testing.T) {
	random := chance.New(t, 1)
	for range 20_000 {
		text, writers := "", ""
		for range random.Intn(12) {
			text += string("gvfdnousw"[random.Intn(9)])
			writers += string("xyz "[random.Intn(4)])
		}
		rule := Rule{Keep: random.Intn(4), KeepFor: time.Duration(random.Intn(5)) * 24 * time.Hour, AtLeast: random.Intn(4), PointInTime: time.Duration(random.Intn(72)) * time.Hour,
			Writer: "x", Former: []string{"y"}}
		removed := map[string]bool{}
		for _, e := range rule.Remove(by(writers, catalogue(text)), now) {
			removed[e.ID] = true
		}
		for i, c := range text {
			if c == 'v' && strings.ContainsRune("z ", rune(writers[i])) && removed[string(rune('a'+i))] {
				t.Fatalf("%q by %q: %+v removes a verified backup of a former database", text, writers, rule)
			}
		}
		for _, writer := range "xyz " {
			if problem := broken(text, func(i int) bool {
				return strings.ContainsRune("nsw", rune(text[i])) || rune(writers[i]) == writer // an unreadable backup may belong to any writer
			}, rule, removed); problem != "" {
				t.Fatalf("%q by %q: of writer %c, %+v %s", text, writers, writer, rule, problem)
			}
		}
	}
}

// broken describes the requirement that the removal of these backups violates; "" for none. It looks only at the backups for
// which own returns true.
func broken(text string, own func(i int) bool, rule Rule, removed map[string]bool) string {
	good, left, verified, maybe := 0, 0, -1, -1
	for i, c := range text {
		if !own(i) {
			continue
		}
		if strings.ContainsRune("gvou", c) {
			good++
			if !removed[string(rune('a'+i))] {
				left++
			}
		}
		if c == 'v' && verified < 0 {
			verified = i
		}
		if c == 'u' || c == 'w' {
			maybe = i
		}
	}
	last := verified
	if last < 0 {
		last = maybe
	}
	for i := range last + 1 {
		if own(i) && removed[string(rune('a'+i))] {
			return "removes the newest verified one, or a newer one"
		}
	}
	if left < min(good, max(rule.AtLeast, rule.Keep)) {
		return fmt.Sprintf("leaves %d of %d good ones", left, good)
	}
	return ""
}
