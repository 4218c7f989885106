// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/redis/topology"
)

// refused asserts that clients are still redirected to the target if the owner cannot restore the target's keys.
func refused(r *rig, owner, target *rigNode, next func() (string, int)) {
	r.Helper()
	key, slot := next()
	_, other := next()
	r.do(owner, "SET", key, "first")
	r.do(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", owner.ID)
	r.do(owner, "CLUSTER", "SETSLOT", slot, "MIGRATING", target.ID)
	r.do(owner, "MIGRATE", target.IP, Port, key, 0, 5000)
	for what, c := range map[string]struct{ breaks, mends []any }{
		"cluster is down": {[]any{"CLUSTER", "DELSLOTS", other}, []any{"CLUSTER", "ADDSLOTS", other}},
		"OOM":             {[]any{"CONFIG", "SET", "maxmemory", 1}, []any{"CONFIG", "SET", "maxmemory", 0}},
	} {
		r.do(owner, c.breaks...)
		assert.ErrorContains(r, r.take(r.move(owner, target, topology.ModeBack, slot)), what)
		r.do(owner, c.mends...)
		assert.Assert(r, r.sends(owner, "SET", key, what), "%s: no node serves the key", what)
		assert.DeepEqual(r, r.keys(target, slot), []string{key})
	}
	r.operator(nil)
	r.settle()
	assert.Equal(r, len(r.keys(owner, slot))+len(r.keys(target, slot)), 1)
}

// A move back is interrupted at each of its commands in turn, while clients delete and write keys. In some cases, the
// owner or the target restarts. After another operator has finished the move back, each key is only on its owner, with
// the last acknowledged write.
func TestMoveBackIsBrokenOffAtEachCommand(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3)
	owner, target := r.nodes[0], r.nodes[1]
	next := r.slotsOf(owner)
	refused(r, owner, target, next)
	type slot struct {
		number int
		broken string
		want   map[string]string // by key; "" is a key that was deleted
	}
	for _, c := range []struct {
		name     string
		restarts []*rigNode
	}{{"no server restarts", nil}, {"the target restarts", []*rigNode{target}}, {"the owner restarts", []*rigNode{owner}}} {
		var slots []*slot
		for at, more := 1, true; more; at++ {
			for _, before := range []bool{true, false} {
				tag, number := next()
				s := &slot{number: number, want: map[string]string{}}
				for _, key := range []string{"stays", "moves", "is deleted", "is written", "is on both"} {
					s.want[tag+key] = "first"
					r.do(owner, "SET", tag+key, "first")
				}
				r.do(target, "CLUSTER", "SETSLOT", number, "IMPORTING", owner.ID)
				r.do(owner, "CLUSTER", "SETSLOT", number, "MIGRATING", target.ID)
				r.do(owner, "MIGRATE", target.IP, Port, "", 0, 5000, "KEYS", tag+"moves", tag+"is deleted", tag+"is written")
				r.do(owner, "MIGRATE", target.IP, Port, "", 0, 5000, "COPY", "KEYS", tag+"is on both")
				tap := &breaker{at: at, before: before}
				r.operator(tap)
				err := r.take(r.move(owner, target, topology.ModeBack, number))
				if more = errors.Is(err, ErrBrokenOff); !more {
					assert.NilError(t, err)
				}
				s.broken = fmt.Sprintf("%s, slot %d, broken off %s", c.name, number, tap.broken)
				if r.sends(owner, "DEL", tag+"is deleted") {
					s.want[tag+"is deleted"] = ""
				}
				if r.sends(owner, "SET", tag+"is written", "second") {
					s.want[tag+"is written"] = "second"
				}
				slots = append(slots, s)
			}
		}
		r.restart(c.restarts...)
		r.until("the cluster serves", func() error { return r.serve() })
		r.operator(nil)
		r.settle()
		for _, s := range slots {
			var names []string
			for key, value := range s.want {
				if value != "" {
					names = append(names, key)
				}
			}
			slices.Sort(names)
			holders := 0
			for _, n := range r.nodes {
				if held := r.keys(n, s.number); len(held) > 0 {
					holders++
					assert.Assert(t, slices.Equal(held, names), "%s: %s has %q of %q", s.broken, n.Pod, held, names)
				}
			}
			assert.Equal(t, holders, 1, s.broken)
			for _, key := range names {
				found := ""
				for _, n := range r.nodes {
					if value, err := n.client.Get(t.Context(), key).Result(); err == nil {
						found = value
					}
				}
				assert.Equal(t, found, s.want[key], "%s: %s", s.broken, key)
			}
		}
		t.Logf("%s: broken off at %d places", c.name, len(slots))
	}
}
