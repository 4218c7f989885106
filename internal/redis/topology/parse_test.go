// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"
)

// The texts of 7.0.15 are from real servers, the others from each version's documentation.
func TestParseNodes(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/nodes/*.txt")
	assert.NilError(t, err)
	assert.Assert(t, len(files) >= 7)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			assert.NilError(t, err)
			entries, err := ParseNodes(string(text))
			assert.NilError(t, err)
			for i := range entries {
				entries[i].PingSent, entries[i].PongReceived = entries[i].PingSent.UTC(), entries[i].PongReceived.UTC()
			}
			out, err := json.MarshalIndent(entries, "", " ")
			assert.NilError(t, err)
			golden.Assert(t, string(out)+"\n", strings.TrimPrefix(strings.TrimSuffix(file, ".txt"), "testdata/")+".golden")
		})
	}
}

const (
	lineOfSelf  = "e7d1eecce10fd6bb5eb35b9f99a514335d9ba9ca 127.0.0.1:30001@31001 myself,master - 0 0 1 connected 0-5460"
	lineOfOther = "67ed2db8d677e59ec4a4cefb06858cf2a1a89fa1 127.0.0.1:30002@31002 master - 0 1426238316232 2 connected 5461-10922"
)

func TestParseNodesRefuses(t *testing.T) {
	t.Parallel()
	_, err := ParseNodes(lineOfSelf + "\n" + lineOfOther + "\n")
	assert.NilError(t, err)
	for name, change := range map[string][2]string{
		"no self":             {"myself,", ""},
		"two selves":          {"30002@31002 master", "30002@31002 myself,master"},
		"unknown flag":        {"31002 master", "31002 master,observer"},
		"both roles":          {"31002 master", "31002 master,slave"},
		"role of self":        {"myself,master", "myself"},
		"short id":            {"67ed2db8", "67ed2db"},
		"upper id":            {"67ed2db8", "67ED2DB8"},
		"same id":             {"67ed2db8d677e59ec4a4cefb06858cf2a1a89fa1", "e7d1eecce10fd6bb5eb35b9f99a514335d9ba9ca"},
		"no bus port":         {":30002@31002", ":30002"},
		"port too large":      {":30002@", ":70000@"},
		"no port":             {"127.0.0.1:30002@31002", "127.0.0.1"},
		"not an address":      {"127.0.0.1:30002", "localhost:30002"},
		"odd extension":       {"@31002", "@31002,host,more"},
		"link state":          {"2 connected", "2 waiting"},
		"epoch":               {" 2 connected", " -2 connected"},
		"time":                {"1426238316232", "yesterday"},
		"time before 1970":    {"1426238316232", "-5"},
		"master id":           {"31002 master -", "31002 slave nobody"},
		"slot too high":       {"5461-10922", "5461-16384"},
		"slots in a list":     {"5461-10922", "5461-6000,7000"},
		"backward slots":      {"5461-10922", "10922-5461"},
		"open slot elsewhere": {"5461-10922", "[5->-e7d1eecce10fd6bb5eb35b9f99a514335d9ba9ca]"},
		"open slot unclosed":  {"0-5460", "[5->-67ed2db8d677e59ec4a4cefb06858cf2a1a89fa1"},
		"open slot mark":      {"0-5460", "[5-67ed2db8d677e59ec4a4cefb06858cf2a1a89fa1]"},
		"open slot peer":      {"0-5460", "[5->-me]"},
		"slots of a replica":  {"31002 master -", "31002 slave e7d1eecce10fd6bb5eb35b9f99a514335d9ba9ca"},
		"fields missing":      {" 2 connected 5461-10922", ""},
	} {
		text := strings.Replace(lineOfSelf+"\n"+lineOfOther+"\n", change[0], change[1], 1)
		assert.Assert(t, text != lineOfSelf+"\n"+lineOfOther+"\n", "%s changes nothing", name)
		_, err := ParseNodes(text)
		assert.Assert(t, err != nil, "%s was read: %s", name, text)
	}
	_, err = ParseNodes("")
	assert.Assert(t, err != nil)
}

// Every parsed result is valid: exactly one line of the node itself, valid ids, and only existing slots.
func FuzzParseNodes(f *testing.F) {
	files, _ := filepath.Glob("testdata/nodes/*.txt")
	for _, file := range files {
		text, err := os.ReadFile(file)
		assert.NilError(f, err)
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		entries, err := ParseNodes(text)
		if err != nil {
			return
		}
		self := 0
		for _, e := range entries {
			if e.Myself {
				self++
			}
			if !isNodeID(e.ID) || e.MasterID != "" && !isNodeID(e.MasterID) {
				t.Fatalf("ids %q, %q", e.ID, e.MasterID)
			}
			if len(e.Owned.Minus(AllSlots())) > 0 || e.Replica && len(e.Owned) > 0 {
				t.Fatalf("slots %v of %+v", e.Owned, e)
			}
			if !e.Myself && len(e.Migrating)+len(e.Importing) > 0 {
				t.Fatalf("open slots in a line of another node: %+v", e)
			}
		}
		if self != 1 {
			t.Fatalf("%d lines are of the node itself, want 1", self)
		}
	})
}

// Sets of ranges behave like sets of single slots.
func TestSlotSets(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	some := func() (SlotSet, map[int]bool) {
		var ranges []Range
		single := map[int]bool{}
		for range random.IntN(6) {
			from := random.IntN(60)
			r := Range{from, from + random.IntN(8)}
			ranges = append(ranges, r)
			for slot := r.From; slot <= r.To; slot++ {
				single[slot] = true
			}
		}
		return NewSlotSet(ranges...), single
	}
	same := func(set SlotSet, want func(int) bool, what string, of ...SlotSet) {
		t.Helper()
		for slot := range 80 {
			if set.Has(slot) != want(slot) { // 640,000 times
				t.Fatalf("slot %d of the %s of %v: %t", slot, what, of, set.Has(slot))
			}
		}
		for i := 1; i < len(set); i++ {
			assert.Assert(t, set[i].From > set[i-1].To+1, "%v is not in its shortest form", set)
		}
		n := 0
		for range set.All {
			n++
		}
		assert.Equal(t, set.Len(), n)
		back, err := ParseSlotSet(set.String())
		assert.NilError(t, err)
		assert.DeepEqual(t, back, set)
	}
	for range 2000 {
		a, inA := some()
		b, inB := some()
		same(a, func(s int) bool { return inA[s] }, "set", a)
		same(a.Union(b), func(s int) bool { return inA[s] || inB[s] }, "union", a, b)
		same(a.Intersect(b), func(s int) bool { return inA[s] && inB[s] }, "intersection", a, b)
		same(a.Minus(b), func(s int) bool { return inA[s] && !inB[s] }, "difference", a, b)
		n := random.IntN(10)
		assert.Equal(t, a.First(n).Len(), min(n, a.Len()))
		assert.Equal(t, a.First(n).Minus(a).Len(), 0)
	}
	assert.Equal(t, AllSlots().Len(), Slots)
}

func TestParseSlotSetRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"16384", "-1", "1-", "5-4", "a", "1,,2", "01", " 1", "0-16384"} {
		_, err := ParseSlotSet(text)
		assert.Assert(t, err != nil, "%q was read", text)
	}
}

// Redis reports the output buffer limits of all classes. They match the wanted limits if the wanted classes have these
// values.
func TestOutputBufferLimits(t *testing.T) {
	t.Parallel()
	const has = "normal 0 0 0 slave 536870912 67108864 60 pubsub 33554432 8388608 60"
	for want, same := range map[string]bool{"replica 512mb 64mb 60": true, "slave 536870912 64mb 60 pubsub 32mb 8mb 60": true, "replica 1gb 64mb 60": false} {
		if got := sameValue("client-output-buffer-limit", has, want); got != same {
			t.Errorf("%q: %v", want, got)
		}
	}
}
