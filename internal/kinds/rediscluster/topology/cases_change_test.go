// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"testing"
	"time"
)

// Slot 100 is a-0-0's; it is, or was, on its way to a-2-0.
func TestOpenSlots(t *testing.T) {
	both := map[string]int64{"a-0-0": 3, "a-2-0": 2}
	source := map[string]int64{"a-0-0": 3}
	target := map[string]int64{"a-2-0": 2}
	holdAll(t, []expectation{
		{name: "both ends marked", verdict: Healing, phase: PhaseScaling, action: ActionMoveSlots, on: "a-0-0", says: "finish moving 1 slots (100)",
			change: func(s *scene) {
				s.open("a-0-0", 100, "", "a-2-0")
				s.open("a-2-0", 100, "a-0-0", "")
				s.slotKeys(100, both)
			}},
		{name: "both ends marked, the target's shard has no replica in step", verdict: Healing, action: ActionWait, says: "open slots: 100",
			change: func(s *scene) {
				s.open("a-0-0", 100, "", "a-2-0")
				s.open("a-2-0", 100, "a-0-0", "")
				s.slotKeys(100, both)
				s.node("a-2-1").Replication.LinkUp = false
			}},
		{name: "nobody counted its keys", verdict: Healing, action: ActionWait,
			change: func(s *scene) { s.open("a-0-0", 100, "", "a-2-0"); s.open("a-2-0", 100, "a-0-0", "") }},
		{name: "only importing, the source has keys", verdict: Healing, action: ActionMarkSlot, mode: "MIGRATING", on: "a-0-0",
			change: func(s *scene) { s.open("a-2-0", 100, "a-0-0", ""); s.slotKeys(100, source) }},
		{name: "only importing, the target has keys", verdict: Healing, action: ActionMarkSlot, mode: "MIGRATING", on: "a-0-0",
			change: func(s *scene) { s.open("a-2-0", 100, "a-0-0", ""); s.slotKeys(100, target) }},
		{name: "only importing, no keys", verdict: Healing, action: ActionMarkSlot, mode: "STABLE", on: "a-2-0",
			change: func(s *scene) { s.open("a-2-0", 100, "a-0-0", ""); s.slotKeys(100, nil) }},
		{name: "only migrating, nothing moved", verdict: Healing, action: ActionMarkSlot, mode: "STABLE", on: "a-0-0",
			change: func(s *scene) { s.open("a-0-0", 100, "", "a-2-0"); s.slotKeys(100, source) }},
		{name: "only migrating, keys moved", verdict: Healing, action: ActionMarkSlot, mode: "IMPORTING", on: "a-2-0",
			change: func(s *scene) { s.open("a-0-0", 100, "", "a-2-0"); s.slotKeys(100, both) }},
		{name: "only migrating, a third node has keys", verdict: Healing, action: ActionMarkSlot, mode: "IMPORTING", on: "a-2-0",
			change: func(s *scene) { s.open("a-0-0", 100, "", "a-2-0"); s.slotKeys(100, map[string]int64{"a-1-0": 1}) }},
		{name: "the owner imports its own slot", verdict: Healing, action: ActionMarkSlot, mode: "STABLE", on: "a-0-0",
			change: func(s *scene) { s.open("a-0-0", 100, "a-1-0", ""); s.slotKeys(100, source) }},
		{name: "the source did not hear of the end of the move", verdict: Healing, action: ActionMarkSlot, mode: "STABLE", on: "a-1-0",
			change: func(s *scene) { s.open("a-1-0", 100, "", "a-0-0"); s.slotKeys(100, source) }},
		{name: "the source failed over: its successor does not know of the move", verdict: Healing, action: ActionAssignSlot, on: "a-2-0", says: "a-0-1 owns slot 100",
			change: func(s *scene) {
				sourceFailedOver(s)
				s.slotKeys(100, map[string]int64{"a-0-1": 3, "a-2-0": 2})
				s.node("a-2-0").sees(idOf("a-0-0")).Owned = SlotSet{{100, 100}}
				s.node("a-2-0").sees(idOf("a-0-1")).Owned = s.node("a-0-1").self().Owned.Minus(SlotSet{{100, 100}})
			}},
		{name: "then the target imports from the successor", verdict: Healing, action: ActionMarkSlot, mode: "IMPORTING", on: "a-2-0",
			change: func(s *scene) { sourceFailedOver(s); s.slotKeys(100, map[string]int64{"a-0-1": 3, "a-2-0": 2}) }},
		{name: "then the successor migrates", verdict: Healing, action: ActionMarkSlot, mode: "MIGRATING", on: "a-0-1",
			change: func(s *scene) {
				sourceFailedOver(s)
				s.open("a-2-0", 100, "a-0-1", "")
				s.slotKeys(100, map[string]int64{"a-0-1": 3, "a-2-0": 2})
			}},
		{name: "the target failed over: its successor goes on", verdict: Healing, action: ActionMarkSlot, mode: "IMPORTING", on: "a-2-1",
			change: func(s *scene) {
				s.promoted("a-2-1", "a-2-0", true)
				s.follow("a-2-0", "a-2-1")
				s.open("a-0-0", 100, "", "a-2-0")
				s.slotKeys(100, map[string]int64{"a-0-0": 3, "a-2-1": 2})
			}},
		{name: "then the source migrates to it", verdict: Healing, action: ActionMarkSlot, mode: "MIGRATING", on: "a-0-0",
			change: func(s *scene) {
				s.promoted("a-2-1", "a-2-0", true)
				s.follow("a-2-0", "a-2-1")
				s.open("a-0-0", 100, "", "a-2-0")
				s.open("a-2-1", 100, "a-0-0", "")
				s.slotKeys(100, map[string]int64{"a-0-0": 3, "a-2-1": 2})
			}},
		{name: "the target is down", verdict: Healing, action: ActionWait,
			change: func(s *scene) {
				s.open("a-0-0", 100, "", "a-2-0")
				s.lose("a-2-0", 15*time.Second)
				s.slotKeys(100, source)
			}},
		{name: "the source is down", verdict: Healing, action: ActionWait,
			change: func(s *scene) {
				s.open("a-2-0", 100, "a-0-0", "")
				s.lose("a-0-0", 15*time.Second)
				s.slotKeys(100, target)
			}},
		{name: "the target is gone for good, and nobody has keys", verdict: Healing, action: ActionMarkSlot, mode: "STABLE", on: "a-0-0",
			change: func(s *scene) {
				s.node("a-0-0").self().Migrating = map[int]string{100: "cccccccccccccccccccccccccccccccccccccccc"}
				s.slotKeys(100, source)
			}},
		{name: "two importers: the one that is named goes first", verdict: Healing, action: ActionMoveSlots, on: "a-0-0", says: "to a-2-0",
			change: func(s *scene) {
				s.open("a-0-0", 100, "", "a-2-0")
				s.open("a-2-0", 100, "a-0-0", "")
				s.open("a-1-0", 100, "a-0-0", "")
				s.slotKeys(100, map[string]int64{"a-0-0": 3, "a-1-0": 1, "a-2-0": 2})
			}},
	})
}

// sourceFailedOver has a-0-1 own the slots of a-0-0 while a-2-0 imports slot 100 from that one.
func sourceFailedOver(s *scene) {
	s.promoted("a-0-1", "a-0-0", true)
	s.follow("a-0-0", "a-0-1")
	s.open("a-2-0", 100, "a-0-0", "")
}

// Changes that were asked for, one shard or pod at a time.
func TestScaling(t *testing.T) {
	grow := func(s *scene) {
		s.wanted.Shards = []int{2, 2, 2, 2}
		s.record.Shards = []int{2, 2, 2, 2}
		s.add(3, 0)
		s.add(3, 1)
		s.follow("a-3-1", "a-3-0")
	}
	assign := func(entries ...Assignment) func(*scene) {
		return func(s *scene) { grow(s); s.wanted.Assign = entries }
	}
	shrink := func(s *scene) { grow(s); s.give("a-3-0", nil); s.wanted.Shards = []int{2, 2, 2} }
	holdAll(t, []expectation{
		{name: "even shares", verdict: Complete, phase: PhaseScaling, action: ActionMoveSlots, on: "a-0-0", says: "move 1365 slots (0-1364) from a-0-0 to a-3-0", change: grow},
		{name: "a new shard without a replica in step gets nothing", verdict: Complete, phase: PhaseScaling, action: ActionWait, says: "shard 3 has no replica in step",
			change: func(s *scene) { grow(s); s.node("a-3-1").Replication.LinkUp = false }},
		{name: "nor does it while another shard lacks one", verdict: Complete, action: ActionWait, says: "shard 1 has no replica in step",
			change: func(s *scene) { grow(s); s.node("a-1-1").Replication.Syncing = true }},
		{name: "a new shard that is not there yet", verdict: Complete, phase: PhaseScaling, action: ActionWait, says: "waits for shard 3",
			change: func(s *scene) { s.wanted.Shards = []int{2, 2, 2, 2} }},
		{name: "nodes of two versions: the rolling change goes first", verdict: Complete, action: ActionDeletePod, on: "a-0-1",
			change: func(s *scene) { grow(s); s.node("a-0-0").Version = "7.0.15"; s.node("a-0-1").Outdated = true }},
		{name: "a full cache makes room by its policy when it shrinks", verdict: Complete, phase: PhaseScaling, action: ActionMoveSlots, on: "a-3-0",
			change: func(s *scene) { full(s, true) }},
		{name: "one that refuses writes instead does not shrink", verdict: Complete, action: ActionWait, says: "shards are not removed: a-0-0 would need",
			change: func(s *scene) { full(s, false) }},
		{name: "functions go first", verdict: Complete, action: ActionFunctions, on: "a-0-0",
			change: func(s *scene) { grow(s); s.node("a-0-0").Functions = "digest" }},
		{name: "as the table says", verdict: Complete, action: ActionRecord, says: "record which slots go to the new shards [3]",
			change: assign(Assignment{Slots: 2000, From: []string{idOf("a-1-0")}})},
		{name: "the table is followed", verdict: Complete, action: ActionMoveSlots, on: "a-1-0", says: "move 2000 slots (5461-7460) from a-1-0 to a-3-0",
			change: func(s *scene) {
				assign(Assignment{Slots: 2000, From: []string{"a-1-0"}})(s)
				s.record.Table = &Table{Generation: 1, Targets: map[int]SlotSet{3: {{5461, 7460}}}}
			}},
		{name: "the table is done", verdict: Complete, action: ActionRecord, says: "were moved",
			change: func(s *scene) {
				s.wanted.Assign = []Assignment{}
				s.record.Table = &Table{Generation: 1, Targets: map[int]SlotSet{1: {{5461, 7460}}}}
			}},
		{name: "a node that is not there", verdict: Complete, phase: PhaseRunning, action: ActionWait, says: `names "nodeId1"`,
			change: assign(Assignment{Slots: 2000, From: []string{"nodeId1"}})},
		{name: "a replica", verdict: Complete, action: ActionWait, says: "is a replica: name its master, a-1-0",
			change: assign(Assignment{Slots: 2000, From: []string{"a-1-1"}})},
		{name: "more than there is", verdict: Complete, action: ActionWait, says: "it must be from 1 to that",
			change: assign(Assignment{Slots: 9000, From: []string{"a-1-0"}})},
		{name: "all that there is", verdict: Complete, action: ActionWait, says: "left without slots",
			change: assign(Assignment{Slots: 5461, From: []string{"a-1-0"}})},
		{name: "one entry too many", verdict: Complete, action: ActionWait, says: "has 2 entries, and 1 shards are new",
			change: assign(Assignment{Slots: 5, From: []string{"a-1-0"}}, Assignment{Slots: 5, From: []string{"a-1-0"}})},
		{name: "no source", verdict: Complete, action: ActionWait, says: "fromReplicas is empty", change: assign(Assignment{Slots: 5})},
		{name: "a shard is drained", verdict: Complete, phase: PhaseScaling, action: ActionMoveSlots, on: "a-2-0",
			change: func(s *scene) { s.wanted.Shards = []int{2, 2} }},
		{name: "its data does not fit", verdict: Complete, phase: PhaseRunning, action: ActionWait, says: "shards are not removed: a-0-0 would need 15 MiB of its 12 MiB",
			change: func(s *scene) {
				s.wanted.Shards = []int{2, 2}
				for i := range s.nodes {
					s.nodes[i].UsedMemory, s.nodes[i].MaxMemory = 10<<20, 12<<20
				}
			}},
		{name: "drained: its replica is forgotten", verdict: Complete, action: ActionForget, says: "forget a-3-1", change: shrink},
		{name: "then reset", verdict: Complete, action: ActionReset, on: "a-3-1",
			change: func(s *scene) { shrink(s); s.forgotten("a-3-1") }},
		{name: "then its master", verdict: Complete, action: ActionForget, says: "forget a-3-0",
			change: func(s *scene) { shrink(s); s.forgotten("a-3-1"); s.renew("a-3-1") }},
		{name: "then the record is lowered", verdict: Complete, action: ActionRecord, says: "[2 2 2] pods now",
			change: func(s *scene) {
				shrink(s)
				s.forgotten("a-3-1")
				s.forgotten("a-3-0")
				s.renew("a-3-1")
				s.renew("a-3-0")
			}},
		{name: "a new shard that was recorded and not met yet, and is not wanted any more", verdict: Complete, action: ActionRecord, says: "[2 2 2] pods now",
			change: func(s *scene) {
				s.add(3, 0)
				s.forgotten("a-3-0")
				s.node("a-3-0").View = s.node("a-3-0").View[len(s.node("a-3-0").View)-1:]
				s.record.Shards = []int{2, 2, 2, 1}
			}},
		{name: "drained, but another sees slots there", verdict: Healing, action: ActionBumpEpoch, on: "a-0-0",
			change: func(s *scene) {
				shrink(s)
				s.node("a-1-0").sees(idOf("a-3-0")).Owned = SlotSet{{0, 0}}
				s.node("a-1-0").sees(idOf("a-0-0")).Owned = SlotSet{{1, 5460}}
			}},
	})
}

// full has four shards without free memory, of which three are wanted.
func full(s *scene, evicts bool) {
	*s = *settled(4)
	s.wanted.Shards = []int{2, 2, 2}
	for i := range s.nodes {
		s.nodes[i].UsedMemory, s.nodes[i].MaxMemory, s.nodes[i].Evicts = 999<<20, 1000<<20, evicts
	}
}

// forgotten takes a node out of all other views.
func (s *scene) forgotten(pod string) {
	for i := range s.nodes {
		if s.nodes[i].Pod != pod {
			forgetIn(&s.nodes[i], idOf(pod))
		}
	}
}

// Pods of an old revision, masters on one host, settings.
func TestRolling(t *testing.T) {
	outdated := func(pods ...string) func(*scene) {
		return func(s *scene) {
			for _, pod := range pods {
				s.node(pod).Outdated = true
			}
		}
	}
	holdAll(t, []expectation{
		{name: "replica first", verdict: Complete, phase: PhaseUpgrading, action: ActionDeletePod, on: "a-0-1",
			change: outdated("a-0-0", "a-0-1", "a-1-0", "a-1-1", "a-2-0", "a-2-1")},
		{name: "then a failover to it", verdict: Complete, phase: PhaseUpgrading, action: ActionFailover, on: "a-0-1",
			change: outdated("a-0-0", "a-1-0", "a-1-1", "a-2-0", "a-2-1")},
		{name: "the next shard", verdict: Complete, action: ActionDeletePod, on: "a-1-1", change: outdated("a-1-0", "a-1-1", "a-2-0", "a-2-1")},
		{name: "not while another shard lacks a replica", verdict: Complete, phase: PhaseUpgrading, action: ActionWait, says: "shard 2 has no replica in step",
			change: func(s *scene) { outdated("a-0-1")(s); s.node("a-2-1").Replication.LinkUp = false }},
		{name: "not while a replica is far behind", verdict: Complete, action: ActionWait, says: "shard 2 has no replica in step",
			change: func(s *scene) { outdated("a-0-1")(s); s.node("a-2-0").Replication.Offset = 1 << 30 }},
		{name: "not while it saves", verdict: Complete, action: ActionWait, says: "a-0-0 is writing its data",
			change: func(s *scene) { outdated("a-0-1")(s); s.node("a-0-0").Saving = true }},
		{name: "not while a pod stops", verdict: Complete, action: ActionWait,
			change: func(s *scene) { outdated("a-0-1")(s); s.node("a-1-1").Terminating = true }},
		{name: "nor is one of an old revision that is down beside one of the wanted revision that is down", verdict: Complete, action: ActionWait,
			change: func(s *scene) {
				s.lose("a-0-1", time.Minute)
				s.lose("a-1-1", time.Minute)
				s.node("a-1-1").Outdated = true
			}},
		{name: "a replica that started with another password is replaced", verdict: Complete, action: ActionDeletePod, on: "a-1-1", says: "another password",
			change: func(s *scene) { lock(s, "a-1-1") }},
		{name: "a master that started with another password is not", verdict: Unknown, action: ActionWait, says: "does not accept the password",
			change: func(s *scene) { lock(s, "a-1-0") }},
		{name: "nor is a replica whose master is lost", verdict: Unknown, action: ActionWait, says: "slots 5461-10921",
			change: func(s *scene) { lock(s, "a-1-1"); s.lose("a-1-0", time.Minute); s.node("a-1-0").Running = true }},
		{name: "a revision that does not start is replaced", verdict: Complete, action: ActionDeletePod, on: "a-1-1", says: "does not come up",
			change: func(s *scene) { s.lose("a-1-1", time.Hour); outdated("a-1-1")(s) }},
		{name: "a shard whose pods never served with a bad template gets the right one", verdict: SlotsLost, action: ActionDeletePod, on: "a-1-0", says: "never served in this pod (a-1-0: connection refused)",
			change: func(s *scene) { neverUp(s, "a-1-0", "a-1-1") }},
		{name: "so does a cluster of which no pod served", verdict: Unknown, action: ActionDeletePod, on: "a-0-0",
			change: func(s *scene) { neverUp(s, "a-0-0", "a-0-1", "a-1-0", "a-1-1", "a-2-0", "a-2-1") }},
		{name: "so does most of one", verdict: SlotsLost, action: ActionDeletePod, on: "a-1-0",
			change: func(s *scene) { neverUp(s, "a-1-0", "a-1-1", "a-2-0", "a-2-1") }},
		{name: "so does one that was never formed", verdict: Unknown, action: ActionDeletePod, on: "a-1-1",
			change: func(s *scene) { neverUp(s, "a-1-1"); s.record.Formed = false }},
		{name: "beside nodes that contradict each other, too", verdict: Inconsistent, action: ActionDeletePod, on: "a-1-1",
			change: func(s *scene) {
				neverUp(s, "a-1-1")
				s.node("a-2-0").self().Owned = SlotSet{{0, 0}, {10922, 16383}}
			}},
		{name: "a pod of the wanted revision that never served is left", verdict: SlotsLost, action: ActionWait,
			change: func(s *scene) {
				neverUp(s, "a-1-0", "a-1-1")
				s.node("a-1-0").Outdated, s.node("a-1-1").Outdated = false, false
			}},
		{name: "an old replica that cannot copy its new master is replaced", verdict: Complete, phase: PhaseUpgrading, action: ActionDeletePod, on: "a-0-0", says: "no copy of its master",
			change: func(s *scene) {
				outdated("a-0-0", "a-1-0", "a-1-1", "a-2-0", "a-2-1")(s)
				s.promoted("a-0-1", "a-0-0", true)
				s.follow("a-0-0", "a-0-1")
				s.node("a-0-0").Replication = Replication{MasterHost: s.node("a-0-1").IP, Syncing: true}
			}},
		{name: "but not while a pod of the new revision is down", verdict: Complete, action: ActionWait, says: "a-0-1 has no link",
			change: func(s *scene) {
				outdated("a-0-1")(s)
				s.node("a-0-1").Replication.LinkUp = false
				s.lose("a-1-1", time.Minute)
			}},
		{name: "but not while its master has restarted without keys", verdict: Complete, action: ActionWait, says: "a-1-0 has 0 keys since it restarted, and its replica a-1-1 has 7",
			change: func(s *scene) {
				outdated("a-1-1")(s)
				s.doubtful(0)
				s.node("a-1-1").Replication.MasterHost = "10.9.9.9"
			}},
		{name: "nor while that has one key, which hides the restart", verdict: Complete, action: ActionWait, says: "a-1-0 has 1 keys since it restarted, and its replica a-1-1 has 7",
			change: func(s *scene) { outdated("a-1-1")(s); s.doubtful(1) }},
		{name: "nor while the replica copies from somewhere", verdict: Complete, action: ActionWait, says: "a-1-1 is left as it is",
			change: func(s *scene) { outdated("a-1-1")(s); s.doubtful(1); s.node("a-1-1").Replication.Syncing = true }},
		{name: "it is where a person gave up its keys", verdict: Complete, action: ActionDeletePod, on: "a-1-1",
			change: func(s *scene) { outdated("a-1-1")(s); s.doubtful(1); s.wanted.Consent = []string{idOf("a-1-1")} }},
		{name: "a replica of an old revision that is down stays while its master has restarted and nothing shows with what", verdict: Complete, action: ActionWait, says: "has an unknown number",
			change: func(s *scene) { s.doubtful(1); s.lose("a-1-1", time.Hour); outdated("a-1-1")(s) }},
		{name: "so does one that started with another password", verdict: Complete, action: ActionWait, says: "nothing shows that a-1-0 has not lost them",
			change: func(s *scene) { s.doubtful(1); lock(s, "a-1-1") }},
		{name: "it is replaced where a person gave it up", verdict: Complete, action: ActionDeletePod, on: "a-1-1", says: "another password",
			change: func(s *scene) { s.doubtful(1); lock(s, "a-1-1"); s.wanted.Consent = []string{idOf("a-1-1")} }},
		{name: "but not while its master is lost", verdict: Healing, action: ActionWait,
			change: func(s *scene) { outdated("a-1-1")(s); s.lose("a-1-0", 15*time.Second) }},
		{name: "but not a shard's owner", verdict: Healing, action: ActionWait,
			change: func(s *scene) { s.lose("a-1-0", 15*time.Second); outdated("a-1-0")(s) }},
		{name: "masters on one host are spread", verdict: Complete, phase: PhaseRunning, action: ActionFailover, on: "a-1-1", says: "has 3 masters",
			change: func(s *scene) {
				s.node("a-0-0").Host, s.node("a-1-0").Host, s.node("a-2-0").Host = "h", "h", "h"
				s.node("a-0-1").Host, s.node("a-2-1").Host = "h", "h"
			}},
		{name: "but not back to an old revision", verdict: Complete, action: ActionWait, says: "is writing its data",
			change: func(s *scene) {
				s.node("a-0-0").Host, s.node("a-1-0").Host, s.node("a-2-0").Host = "h", "h", "h"
				s.node("a-1-1").Outdated, s.node("a-1-1").Saving = true, true
			}},
		{name: "a setting", verdict: Complete, action: ActionConfigure, on: "a-0-0", says: "maxmemory",
			change: func(s *scene) {
				s.wanted.Settings = map[string]string{"maxmemory": "1gb"}
				s.node("a-0-0").Settings = map[string]string{"maxmemory": "0"}
				s.node("a-1-0").Settings = map[string]string{"maxmemory": "1073741824"}
			}},
		{name: "a third pod of a shard goes", verdict: Complete, action: ActionForget, says: "forget a-0-2",
			change: func(s *scene) { s.add(0, 2); s.follow("a-0-2", "a-0-0"); s.record.Shards = []int{3, 2, 2} }},
		{name: "a third pod that is the master hands over", verdict: Complete, action: ActionFailover, says: "in place of a-0-2",
			change: func(s *scene) {
				s.add(0, 2)
				s.promoted("a-0-2", "a-0-0", true)
				s.follow("a-0-0", "a-0-2")
				s.follow("a-0-1", "a-0-2")
				s.record.Shards = []int{3, 2, 2}
			}},
	})
}

// neverUp has pods of an old revision that served nothing since they were made.
func neverUp(s *scene, pods ...string) {
	for _, pod := range pods {
		s.lose(pod, time.Hour)
		s.node(pod).Outdated, s.node(pod).NeverUp = true, true
	}
}

// lock has a node, which the others see as ever, refuse the password.
func lock(s *scene, pod string) {
	n := s.node(pod)
	*n = Node{Pod: n.Pod, UID: n.UID, Host: n.Host, Shard: n.Shard, Ordinal: n.Ordinal, IP: n.IP, Running: true, Ready: true, Locked: true,
		Problem: "it does not accept the password of the cluster"}
}
