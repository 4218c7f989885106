// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"math/rand/v2"
	"testing"

	"gotest.tools/v3/assert"
)

// Sets of ranges do what sets of single slots do.
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
			assert.Equal(t, set.Has(slot), want(slot), "slot %d of %s of %v", slot, what, of)
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

// The limits of output buffers are the same where those that were asked for are.
func TestOutputBufferLimits(t *testing.T) {
	t.Parallel()
	const has = "normal 0 0 0 slave 536870912 67108864 60 pubsub 33554432 8388608 60"
	for want, same := range map[string]bool{"replica 512mb 64mb 60": true, "slave 536870912 64mb 60 pubsub 32mb 8mb 60": true, "replica 1gb 64mb 60": false} {
		if got := sameValue("client-output-buffer-limit", has, want); got != same {
			t.Errorf("%q: %v", want, got)
		}
	}
}
