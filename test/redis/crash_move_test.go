// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/kinds/rediscluster/server"
	"d3os.com/d3os-operator/internal/kinds/rediscluster/topology"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/redis/rig"
)

// An operator that is ended between any two commands of a move leaves what the next one finishes, and nobody who
// writes or reads meanwhile notices.
func TestMoveBrokenOffAtEveryCommand(t *testing.T) {
	harness.Long(t)
	t.Parallel()
	f := rig.NewFleet(t, rig.Options{Shards: []int{1, 1, 1}, NodeTimeout: 5 * time.Second})
	d := rig.NewDriver(f)
	d.Pipeline = 3
	d.Form(0)
	assert.NilError(t, f.Fill(t.Context(), 30_000, 10))
	before := digest(t, f)
	ledger := f.Keep(rig.LedgerOptions{})
	slots := keySlots(t, f, "ledger-1-", 4).Union(topology.SlotSet{{From: 0, To: 2}})
	boundaries := map[string]int{}
	n := 0
	for ; ; n++ {
		from, to := f.Pod(0, 0), f.Pod(1, 0)
		if n%2 == 1 {
			from, to = to, from
		}
		some := owned(t, from).Intersect(slots)
		if n == 0 {
			drive(t, d, f.Pod(1, 0), from, slots.Intersect(owned(t, f.Pod(1, 0))))
			drive(t, d, f.Pod(2, 0), from, slots.Intersect(owned(t, f.Pod(2, 0))))
			some = slots
		}
		crash := &rig.Crash{At: n}
		d.Tap = func() server.Tap { return crash }
		d.Restart()
		err := d.Take(t.Context(), d.MoveStep(from, to, some))
		_, broken := crash.Seen()
		if broken != errors.Is(err, server.ErrBrokenOff) || !broken && err != nil {
			t.Fatalf("broken off at %d: %v, and the move says: %v", n, broken, err)
		}
		boundaries[strings.Join(strings.Fields(crash.Where)[:min(2, len(strings.Fields(crash.Where)))], " ")]++
		d.Tap = nil
		d.Restart()
		drive(t, d, from, to, slots)
		rig.Until(t, fmt.Sprintf("after a crash before %q all is as it should be", crash.Where), func() error { return settled(t, f, slots) })
		if !broken {
			break
		}
	}
	figures := ledger.Close()
	figures.Nothing(t, fmt.Sprintf("moves of %d slots broken off at %d commands (%v)", slots.Len(), n, boundaries))
	unchanged(t, f, before)
	if n < 40 {
		t.Errorf("only %d commands were broken off", n)
	}
}

// settled fails while a slot is open, or nodes differ in who owns what.
func settled(t *testing.T, f *rig.Fleet, slots topology.SlotSet) error {
	t.Helper()
	first := ""
	for _, pod := range f.Pods() {
		text, err := pod.Client().ClusterNodes(t.Context()).Result()
		if err != nil {
			return err
		}
		entries, err := topology.ParseNodes(text)
		if err != nil {
			return err
		}
		owners := map[string]string{}
		for _, e := range entries {
			if len(e.Migrating)+len(e.Importing) > 0 {
				return fmt.Errorf("%s has open slots: %v, %v", pod.Name, e.Migrating, e.Importing)
			}
			owners[e.ID] = e.Owned.Intersect(slots).String()
		}
		if view := fmt.Sprint(owners); first == "" {
			first = view
		} else if view != first {
			return fmt.Errorf("views differ: %s, %s", first, view)
		}
	}
	return nil
}

// keySlots returns the slots of the first keys of a name.
func keySlots(t *testing.T, f *rig.Fleet, prefix string, n int) topology.SlotSet {
	t.Helper()
	var ranges []topology.Range
	for i := range n {
		slot, err := f.Pod(0, 0).Client().ClusterKeySlot(t.Context(), fmt.Sprintf("%s%d", prefix, i)).Result()
		assert.NilError(t, err)
		ranges = append(ranges, topology.Range{From: int(slot), To: int(slot)})
	}
	return topology.NewSlotSet(ranges...)
}
