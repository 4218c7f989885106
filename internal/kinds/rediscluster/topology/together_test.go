// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"errors"
	"testing"

	"gotest.tools/v3/assert"
)

// Slots that a broken-off move left open are repaired together where they need the same.
func TestOpenSlotsTogether(t *testing.T) {
	t.Parallel()
	open := func(migrating, importing []int, keys map[int]map[string]int64) *scene {
		s := settled(3)
		from, to := s.node("a-0-0").self(), s.node("a-2-0").self()
		from.Migrating, to.Importing = map[int]string{}, map[int]string{}
		for _, slot := range migrating {
			from.Migrating[slot] = idOf("a-2-0")
		}
		for _, slot := range importing {
			to.Importing[slot] = idOf("a-0-0")
		}
		for i := range s.nodes {
			if n := &s.nodes[i]; n.self().Master {
				n.SlotKeys = map[int]int64{}
				for slot := range 200 {
					n.SlotKeys[slot] = keys[slot][n.Pod]
				}
			}
		}
		return s
	}
	some := map[string]int64{"a-0-0": 3}
	for _, c := range []struct {
		name   string
		scene  *scene
		action Action
		slots  string
		says   string
	}{
		{"one end alone, without keys", open(nil, []int{100, 101, 150}, nil), ActionMarkSlot, "100-101,150",
			"mark slot 100 on a-2-0 as STABLE: there is nothing to move; and so 2 more slots"},
		{"one end alone, some with keys", open(nil, []int{100, 101, 150}, map[int]map[string]int64{101: some}), ActionMarkSlot, "100,150",
			"mark slot 100 on a-2-0 as STABLE: there is nothing to move; and so 1 more slots"},
		{"both ends", open([]int{100, 101, 102}, []int{100, 101, 102}, map[int]map[string]int64{101: some}), ActionMoveSlots, "100-102",
			"finish moving 3 slots (100-102) from a-0-0 to a-2-0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := c.scene.decide()
			assert.Equal(t, len(d.Steps), 1, "%v", d.Steps)
			assert.Equal(t, d.Steps[0].Action, c.action)
			assert.Equal(t, d.Steps[0].Slots.String(), c.slots)
			assert.Equal(t, d.Steps[0].Message, c.says)
		})
	}
}

// Masters are spread over zones first, then over nodes.
func TestSpreadOverZones(t *testing.T) {
	t.Parallel()
	place := func(s *scene, pods map[string]string) {
		for pod, at := range pods {
			s.node(pod).Zone, s.node(pod).Host = at[:1], at
		}
	}
	for _, c := range []struct {
		name string
		at   map[string]string // zone and node
		want string            // the pod that becomes a master
	}{
		{"three masters in one zone", map[string]string{"a-0-0": "x1", "a-1-0": "x2", "a-2-0": "x3", "a-0-1": "y1", "a-1-1": "y2", "a-2-1": "x1"}, "a-0-1"},
		{"zones are even, nodes are not", map[string]string{"a-0-0": "x1", "a-1-0": "x1", "a-2-0": "y1", "a-0-1": "x2", "a-1-1": "y2", "a-2-1": "y2"}, "a-0-1"},
		{"even", map[string]string{"a-0-0": "x1", "a-1-0": "y1", "a-2-0": "z1", "a-0-1": "y1", "a-1-1": "z1", "a-2-1": "x1"}, ""},
		{"no zone is known", map[string]string{"a-0-0": " 1", "a-1-0": " 1", "a-2-0": " 1", "a-0-1": " 2", "a-1-1": " 3", "a-2-1": " 3"}, "a-0-1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := settled(3)
			place(s, c.at)
			if c.at["a-0-0"][:1] == " " {
				for i := range s.nodes {
					s.nodes[i].Zone = ""
				}
			}
			d := s.decide()
			if c.want == "" {
				assert.Equal(t, len(d.Steps), 0, "%v", d.Steps)
				return
			}
			assert.Equal(t, len(d.Steps), 1)
			assert.Equal(t, d.Steps[0].Action, ActionFailover)
			assert.Equal(t, d.Steps[0].Node.Pod, c.want, d.Steps[0].Message)
		})
	}
}

// A setting that Redis does not know is named, and keeps nothing else back.
func TestUnknownSetting(t *testing.T) {
	t.Parallel()
	s := settled(3)
	s.wanted.Settings = map[string]string{"maxmemory-polcy": "allkeys-lru", "hz": "10"}
	for i := range s.nodes {
		s.nodes[i].Settings = map[string]string{"hz": "10"}
	}
	d := s.decide()
	assert.Equal(t, d.Model.Settled, false)
	assert.Equal(t, d.Model.Phase, PhaseRunning)
	assert.ErrorContains(t, wantWait(d), `does not know the setting "maxmemory-polcy"`)
	assert.DeepEqual(t, Unset(s.wanted.Settings, s.nodes), map[string]bool{"maxmemory-polcy": true})
}

// wantWait returns what a decision waits for, as an error.
func wantWait(d Decision) error {
	if len(d.Steps) != 1 || d.Steps[0].Action != ActionWait {
		return nil
	}
	return errors.New(d.Steps[0].Message)
}
