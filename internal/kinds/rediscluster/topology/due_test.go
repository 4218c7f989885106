// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import "testing"

// A step that failed is left out while it is not due, and keeps no other from being taken.
func TestFailedStepsYield(t *testing.T) {
	open := func(s *scene) {
		s.open("a-0-0", 100, "", "a-2-0")
		s.open("a-2-0", 100, "a-0-0", "")
		s.slotKeys(100, map[string]int64{"a-0-0": 3, "a-2-0": 2})
	}
	grow := func(s *scene) {
		s.wanted.Shards, s.record.Shards = []int{2, 2, 2, 2}, []int{2, 2, 2, 2}
		s.add(3, 0)
		s.add(3, 1)
		s.follow("a-3-1", "a-3-0")
	}
	fails := func(s *scene, pod string, f Failure) {
		f.Action, f.Cause = ActionMoveSlots, "its memory is full"
		s.node(pod).Failures = append(s.node(pod).Failures, f)
	}
	full := Failure{Into: true}
	setting := func(s *scene, differs bool) {
		s.wanted.Settings = map[string]string{"maxmemory": "2gb"}
		for i := range s.nodes {
			s.nodes[i].Settings = map[string]string{"maxmemory": map[bool]string{true: "1gb", false: "2gb"}[differs]}
		}
	}
	holdAll(t, []expectation{
		{name: "settings come before an open slot is finished", verdict: Healing, action: ActionConfigure,
			change: func(s *scene) { open(s); setting(s, true) }},
		{name: "so do joins", verdict: Healing, action: ActionRecord, says: "record a-1-1",
			change: func(s *scene) { open(s); s.renew("a-1-1") }},
		{name: "a move whose target is full goes back", verdict: Healing, action: ActionMoveSlots, mode: ModeBack, on: "a-0-0", says: "its memory is full",
			change: func(s *scene) { open(s); fails(s, "a-2-0", full) }},
		{name: "a move to a shard that is removed goes back", verdict: Healing, action: ActionMoveSlots, mode: ModeBack, on: "a-0-0",
			change: func(s *scene) { open(s); s.wanted.Shards = []int{2, 2} }},
		{name: "where both fail, later rules go on", verdict: Healing, action: ActionWait, says: "its memory is full",
			change: func(s *scene) {
				open(s)
				fails(s, "a-2-0", full)
				fails(s, "a-0-0", Failure{Mode: ModeBack, Target: idOf("a-2-0")})
			}},
		{name: "a failure of another slot stops nothing", verdict: Healing, action: ActionMoveSlots, mode: "",
			change: func(s *scene) { open(s); fails(s, "a-0-0", Failure{Target: idOf("a-2-0"), Slots: SlotSet{{7, 7}}}) }},
		{name: "a slot that cannot move is left out", verdict: Complete, phase: PhaseScaling, action: ActionMoveSlots, on: "a-0-0", says: "move 1365 slots (0-2,4-1365)",
			change: func(s *scene) { grow(s); fails(s, "a-0-0", Failure{Target: idOf("a-3-0"), Slots: SlotSet{{3, 3}}}) }},
		{name: "where a pair fails, another one goes on", verdict: Complete, phase: PhaseScaling, action: ActionMoveSlots, on: "a-1-0", says: "to a-3-0",
			change: func(s *scene) { grow(s); fails(s, "a-0-0", Failure{Target: idOf("a-3-0")}) }},
		{name: "where no slot moves, pods are replaced", verdict: Complete, phase: PhaseScaling, action: ActionDeletePod, on: "a-0-1",
			change: func(s *scene) { grow(s); fails(s, "a-3-0", full); s.node("a-0-1").Outdated = true }},
		{name: "a setting that a node refuses does not stop the rolling change", verdict: Complete, action: ActionDeletePod, on: "a-0-1", says: "refused by the server",
			change: func(s *scene) {
				setting(s, false)
				s.node("a-1-0").Settings = map[string]string{"maxmemory": "1gb"}
				s.node("a-1-0").Failures = []Failure{{Action: ActionConfigure, Target: "map[maxmemory:2gb]", Cause: "refused by the server"}}
				s.node("a-0-1").Outdated = true
			}},
		{name: "another value of a setting that a node refused is set at once", verdict: Complete, action: ActionConfigure, on: "a-0-0", says: "and 5 more",
			change: func(s *scene) {
				setting(s, true)
				s.node("a-1-0").Failures = []Failure{{Action: ActionConfigure, Target: "map[maxmemory:x]", Cause: "x"}}
			}},
		{name: "of several nodes, those that do not fail are set", verdict: Complete, action: ActionConfigure, on: "a-0-0", says: "and 4 more",
			change: func(s *scene) {
				setting(s, true)
				s.node("a-1-0").Failures = []Failure{{Action: ActionConfigure, Target: "map[maxmemory:2gb]", Cause: "x"}}
			}},
	})
}
