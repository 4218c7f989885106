// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"slices"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// Slot 100 of a-0-0 is being moved to a-2-0, or its move was interrupted. Decide continues the move, or repairs the
// slot.
func TestOpenSlots(t *testing.T) {
	both, source, target := map[string]int64{"a-0-0": 3, "a-2-0": 2}, map[string]int64{"a-0-0": 3}, map[string]int64{"a-2-0": 2}
	from, to, heir := migrating("a-0-0", "a-2-0"), importing("a-2-0", "a-0-0"), slotKeys(map[string]int64{"a-0-1": 3, "a-2-0": 2})
	self := migrating("a-0-0", "a-0-0")
	stranger := on("a-0-0", func(n *Node) { n.self().Migrating = map[int]string{100: "cccccccccccccccccccccccccccccccccccccccc"} })
	took := func(s *scene) { promoted("a-2-1", "a-2-0", true)(s); s.follow("a-2-0", "a-2-1"); from(s) }
	hers := slotKeys(map[string]int64{"a-0-0": 3, "a-2-1": 2})
	claims := sees("a-2-0", "a-0-0", func(e *Entry) { e.Owned = SlotSet{{100, 100}} })
	lacks := func(s *scene) {
		s.node("a-2-0").sees(idOf("a-0-1")).Owned = s.node("a-0-1").self().Owned.Minus(SlotSet{{100, 100}})
	}
	holdAll(t, []expectation{
		row("both ends marked", Healing, PhaseScaling, "MoveSlots a-0-0", "finish moving 1 slots (100)", from, to, slotKeys(both)),
		row("both ends marked, the target's shard has no replica in sync", Healing, "", "Wait", "open slots: 100", from, to, slotKeys(both), unlinked("a-2-1")),
		row("its keys were not counted", Healing, "", "Wait", "", from, to),
		row("only importing, the source has keys", Healing, "", "MarkSlot MIGRATING a-0-0", "", to, slotKeys(source)),
		row("only importing, the target has keys", Healing, "", "MarkSlot MIGRATING a-0-0", "", to, slotKeys(target)),
		row("only importing, no keys", Healing, "", "MarkSlot STABLE a-2-0", "", to, slotKeys(nil)),
		row("only migrating, nothing moved", Healing, "", "MarkSlot STABLE a-0-0", "", from, slotKeys(source)),
		row("only migrating, keys moved", Healing, "", "MarkSlot IMPORTING a-2-0", "", from, slotKeys(both)),
		row("only migrating, a third node has keys", Healing, "", "MarkSlot IMPORTING a-2-0", "", from, slotKeys(map[string]int64{"a-1-0": 1})),
		row("the owner imports its own slot", Healing, "", "MarkSlot STABLE a-0-0", "", importing("a-0-0", "a-1-0"), slotKeys(source)),
		row("the source did not hear of the end of the move", Healing, "", "MarkSlot STABLE a-1-0", "", migrating("a-1-0", "a-0-0"), slotKeys(source)),
		row("the source failed over: its successor does not know of the move", Healing, "", "AssignSlot a-2-0", "a-0-1 owns slot 100", sourceFailedOver, heir, claims, lacks),
		row("then the target imports from the successor", Healing, "", "MarkSlot IMPORTING a-2-0", "", sourceFailedOver, heir),
		row("then the successor migrates", Healing, "", "MarkSlot MIGRATING a-0-1", "", sourceFailedOver, importing("a-2-0", "a-0-1"), heir),
		row("the target failed over: its successor goes on", Healing, "", "MarkSlot IMPORTING a-2-1", "", took, hers),
		row("then the source migrates to it", Healing, "", "MarkSlot MIGRATING a-0-0", "", took, importing("a-2-1", "a-0-0"), hers),
		row("the target is down", Healing, "", "Wait", "", from, lost(15*time.Second, "a-2-0"), slotKeys(source)),
		row("the source is down", Healing, "", "Wait", "", to, lost(15*time.Second, "a-0-0"), slotKeys(target)),
		row("the target is lost, and no node has keys", Healing, "", "MarkSlot STABLE a-0-0", "", stranger, slotKeys(source)),
		row("two importers: the one that is named goes first", Healing, "", "MoveSlots a-0-0", "to a-2-0", from, to, importing("a-1-0", "a-0-0"),
			slotKeys(map[string]int64{"a-0-0": 3, "a-1-0": 1, "a-2-0": 2})),
		row("a move back that was broken off: the target has copies", Healing, "", "MoveSlots BACK a-0-0", "from a-2-0 back to a-0-0", self, slotKeys(both)),
		row("its target restarted", Healing, "", "MoveSlots BACK a-0-0", "a-2-0", self, to, slotKeys(both)),
		row("its target was replaced", Healing, "", "MoveSlots BACK a-0-0", "a-2-1", took, self, hers),
		row("its target is down", Healing, "", "Wait", "", self, lost(15*time.Second, "a-2-0"), slotKeys(source)),
		row("no node has copies", Healing, "", "MoveSlots BACK a-0-0", "", self, slotKeys(source)),
	})
}

// sourceFailedOver makes a-0-1 own the slots of a-0-0 while a-2-0 imports slot 100 from a-0-0.
func sourceFailedOver(s *scene) {
	s.promoted("a-0-1", "a-0-0", true)
	s.follow("a-0-0", "a-0-1")
	s.open("a-2-0", 100, "a-0-0", "")
}

// grow adds an empty fourth shard, which the spec wants.
func grow(s *scene) {
	s.wanted.Shards, s.record.Shards = []int{2, 2, 2, 2}, []int{2, 2, 2, 2}
	s.add(3, 0)
	s.add(3, 1)
	s.follow("a-3-1", "a-3-0")
}

// Changes of the number of shards or pods are done one shard or pod at a time.
func TestScaling(t *testing.T) {
	assign := func(entries ...Assignment) edit { return func(s *scene) { grow(s); s.wanted.Assign = entries } }
	shrink := func(s *scene) { grow(s); s.give("a-3-0", nil); s.wanted.Shards = []int{2, 2, 2} }
	table := func(shard int) edit {
		return func(s *scene) {
			s.record.Table = &Table{Generation: 1, Targets: map[int]SlotSet{shard: {{5461, 7460}}}}
		}
	}
	unmet := func(s *scene) {
		s.add(3, 0)
		unknown("a-3-0")(s)
		s.node("a-3-0").View = s.node("a-3-0").View[len(s.node("a-3-0").View)-1:]
		s.record.Shards = []int{2, 2, 2, 1}
	}
	from := func(slots int, pods ...string) Assignment { return Assignment{Slots: slots, From: pods} }
	holdAll(t, []expectation{
		row("even shares", Complete, PhaseScaling, "MoveSlots a-0-0", "move 1365 slots (0-1364) from a-0-0 to a-3-0", grow),
		row("a new shard without a replica in sync gets nothing", Complete, PhaseScaling, "Wait", "shard 3 has no replica in sync", grow, unlinked("a-3-1")),
		row("nor does it while another shard lacks one", Complete, "", "Wait", "shard 1 has no replica in sync", grow, syncing("a-1-1")),
		row("a new shard that is not there yet", Complete, PhaseScaling, "Wait", "waits for shard 3", wants(2, 2, 2, 2)),
		row("nodes of two versions: the rolling change goes first", Complete, "", "DeletePod a-0-1", "", grow, outdated("a-0-1"), on("a-0-0", func(n *Node) { n.Version = "7.0.15" })),
		row("a full cache makes room by its policy when it shrinks", Complete, PhaseScaling, "MoveSlots a-3-0", "", full(true)),
		row("one that refuses writes instead does not shrink", Complete, "", "Wait", "shards are not removed: a-0-0 would need", full(false)),
		row("functions go first", Complete, "", "Functions a-0-0", "", grow, on("a-0-0", func(n *Node) { n.Functions = "digest" })),
		row("as the table says", Complete, "", "Record", "record which slots go to the new shards [3]", assign(from(2000, idOf("a-1-0")))),
		row("the table is followed", Complete, "", "MoveSlots a-1-0", "move 2000 slots (5461-7460) from a-1-0 to a-3-0", assign(from(2000, "a-1-0")), table(3)),
		row("the table is done", Complete, "", "Record", "were moved", func(s *scene) { s.wanted.Assign = []Assignment{} }, table(1)),
		row("a node that is not there", Complete, PhaseRunning, "Wait", `names "nodeId1"`, assign(from(2000, "nodeId1"))),
		row("a replica", Complete, "", "Wait", "is a replica: name its master, a-1-0", assign(from(2000, "a-1-1"))),
		row("more than there is", Complete, "", "Wait", "the number of slots that fromReplicas own", assign(from(9000, "a-1-0"))),
		row("all that there is", Complete, "", "Wait", "left without slots", assign(from(5461, "a-1-0"))),
		row("one entry too many", Complete, "", "Wait", "has 2 entries, and 1 shards are new", assign(from(5, "a-1-0"), from(5, "a-1-0"))),
		row("no source", Complete, "", "Wait", "fromReplicas is empty", assign(from(5))),
		row("a shard is drained", Complete, PhaseScaling, "MoveSlots a-2-0", "", wants(2, 2)),
		row("its data does not fit", Complete, PhaseRunning, "Wait", "shards are not removed: a-0-0 would need 15 MiB of its 12 MiB", wants(2, 2),
			each(func(n *Node) { n.UsedMemory, n.MaxMemory = 10<<20, 12<<20 })),
		row("drained: its replica is forgotten", Complete, "", "Forget", "forget a-3-1", shrink),
		row("then reset", Complete, "", "Reset a-3-1", "", shrink, unknown("a-3-1")),
		row("then its master", Complete, "", "Forget", "forget a-3-0", shrink, unknown("a-3-1"), renewed("a-3-1")),
		row("then the record is lowered", Complete, "", "Record", "[2 2 2] pods now", shrink, unknown("a-3-1", "a-3-0"), renewed("a-3-1", "a-3-0")),
		row("a new shard that was recorded and not met yet, and is not wanted any more", Complete, "", "Record", "[2 2 2] pods now", unmet),
		row("drained, but another sees slots there", Healing, "", "BumpEpoch a-0-0", "", shrink, sees("a-1-0", "a-3-0", func(e *Entry) { e.Owned = SlotSet{{0, 0}} }),
			sees("a-1-0", "a-0-0", func(e *Entry) { e.Owned = SlotSet{{1, 5460}} })),
	})
}

// full has four shards without free memory. Three of the shards are wanted.
func full(evicts bool) edit {
	return func(s *scene) {
		*s = *settled(4)
		s.wanted.Shards = []int{2, 2, 2}
		each(func(n *Node) { n.UsedMemory, n.MaxMemory, n.Evicts = 999<<20, 1000<<20, evicts })(s)
	}
}

// Pods of an old revision are replaced, masters on one host are spread, and settings are changed.
func TestRolling(t *testing.T) {
	behind, saving := on("a-2-0", func(n *Node) { n.Replication.Offset = 1 << 30 }), on("a-0-0", func(n *Node) { n.Saving = true })
	cannotCopy := func(s *scene) {
		s.node("a-0-0").Replication = Replication{MasterHost: s.node("a-0-1").IP, Syncing: true}
	}
	together := onAll([]string{"a-0-0", "a-1-0", "a-2-0"}, func(n *Node) { n.Host = "h" })
	memory := func(s *scene) {
		s.wanted.Settings = map[string]string{"maxmemory": "1gb"}
		s.node("a-0-0").Settings, s.node("a-1-0").Settings = map[string]string{"maxmemory": "0"}, map[string]string{"maxmemory": "1073741824"}
	}
	third := func(s *scene) { s.add(0, 2); s.record.Shards = []int{3, 2, 2} }
	threeOf0 := func(s *scene) { third(s); s.wanted.Shards[0] = 3; s.follow("a-0-2", "a-0-0") }
	holdAll(t, []expectation{
		row("replica first", Complete, PhaseUpgrading, "DeletePod a-0-1", "", outdated(six...)),
		row("then a failover to it", Complete, PhaseUpgrading, "Failover a-0-1", "", outdated("a-0-0", "a-1-0", "a-1-1", "a-2-0", "a-2-1")),
		row("the next shard", Complete, "", "DeletePod a-1-1", "", outdated("a-1-0", "a-1-1", "a-2-0", "a-2-1")),
		row("a new shard without slots whose pods are down gets the right one", Complete, PhaseUpgrading, "DeletePod a-3-0", "its shard owns no slots", grow, lost(time.Hour, "a-3-0", "a-3-1"),
			outdated("a-3-0", "a-3-1")),
		row("so does one that is being removed", Complete, PhaseScaling, "DeletePod a-3-1", "", grow, wants(2, 2, 2), lost(time.Hour, "a-3-0", "a-3-1"), outdated("a-3-1")),
		row("and one of which only the replica runs", Complete, "", "DeletePod a-3-1", "", grow, lost(time.Hour, "a-3-0"), outdated("a-3-1")),
		row("but not while its pod loads its data", Complete, "", "Wait", "no pod of shard 3 is replaced: the shard has no master", grow, lost(time.Hour, "a-3-0", "a-3-1"), outdated("a-3-1"),
			on("a-3-1", func(n *Node) { n.Loading = true })),
		row("not while another shard lacks a replica", Complete, PhaseUpgrading, "Wait", "shard 2 has no replica in sync", outdated("a-0-1"), unlinked("a-2-1")),
		row("not while a replica is far behind", Complete, "", "Wait", "shard 2 has no replica in sync", outdated("a-0-1"), behind),
		row("not while it saves", Complete, "", "Wait", "a-0-0 is writing its data", outdated("a-0-1"), saving),
		row("not while a pod stops", Complete, "", "Wait", "", outdated("a-0-1"), on("a-1-1", func(n *Node) { n.Terminating = true })),
		row("nor is one of an old revision that is down beside one of the wanted revision that is down", Complete, "", "Wait", "", lost(time.Minute, "a-0-1", "a-1-1"), outdated("a-1-1")),
		row("a replica that started with another password is replaced", Complete, "", "DeletePod a-1-1", "another password", locked("a-1-1")),
		row("a master that started with another password is not", Unknown, "", "Wait", "does not accept the password", locked("a-1-0")),
		row("nor is a replica whose master is lost", Unknown, "", "Wait", "slots 5461-10921", locked("a-1-1"), lost(time.Minute, "a-1-0"), runs("a-1-0")),
		row("a revision that does not start is replaced", Complete, "", "DeletePod a-1-1", "does not come up", lost(time.Hour, "a-1-1"), outdated("a-1-1")),
		row("a shard whose pods never served with a bad template gets the right one", SlotsLost, "", "DeletePod a-1-0", "never served in this pod (a-1-0: connection refused)",
			neverUp("a-1-0", "a-1-1")),
		row("so does a cluster of which no pod served", Unknown, "", "DeletePod a-0-0", "", neverUp(six...)),
		row("so does most of one", SlotsLost, "", "DeletePod a-1-0", "", neverUp("a-1-0", "a-1-1", "a-2-0", "a-2-1")),
		row("so does one that was never formed", Unknown, "", "DeletePod a-1-1", "", neverUp("a-1-1"), func(s *scene) { s.record.Formed = false }),
		row("beside nodes that contradict each other, too", Inconsistent, "", "DeletePod a-1-1", "", neverUp("a-1-1"),
			on("a-2-0", func(n *Node) { n.self().Owned = SlotSet{{0, 0}, {10922, 16383}} })),
		row("a pod of the wanted revision that never served is left", SlotsLost, "", "Wait", "", neverUp("a-1-0", "a-1-1"), each(func(n *Node) { n.Outdated = false })),
		row("an old replica that cannot copy its new master is replaced", Complete, PhaseUpgrading, "DeletePod a-0-0", "not in sync with its master",
			outdated("a-0-0", "a-1-0", "a-1-1", "a-2-0", "a-2-1"), promoted("a-0-1", "a-0-0", true), follows("a-0-0", "a-0-1"), cannotCopy),
		row("also while a pod of the new revision is down in another shard", Complete, "", "DeletePod a-0-1", "not in sync with its master", outdated("a-0-1"), unlinked("a-0-1"), lost(time.Minute, "a-1-1")),
		row("but not while one is down in its own", Complete, "", "Wait", "a-0-1 has no link", outdated("a-0-1"), unlinked("a-0-1"), threeOf0, lost(time.Minute, "a-0-2")),
		row("nor while none is up", Complete, "", "Wait", "a-0-1 has no link", outdated("a-0-0", "a-0-1", "a-1-0", "a-2-0", "a-2-1"), unlinked("a-0-1"), lost(time.Minute, "a-1-1")),
		row("but not while its master has restarted without keys", Complete, "", "Wait", "a-1-0 has 0 keys since it restarted, and its replica a-1-1 has 7", outdated("a-1-1"), doubtful(0),
			on("a-1-1", func(n *Node) { n.Replication.MasterHost = "10.9.9.9" })),
		row("nor while that has one key, which hides the restart", Complete, "", "Wait", "a-1-0 has 1 keys since it restarted, and its replica a-1-1 has 7", outdated("a-1-1"), doubtful(1)),
		row("nor while the replica copies from somewhere", Complete, "", "Wait", "The operator changes neither a-1-1 nor its pod", outdated("a-1-1"), doubtful(1), syncing("a-1-1")),
		row("it is where a person gave up its keys", Complete, "", "DeletePod a-1-1", "", outdated("a-1-1"), doubtful(1), consent(idOf("a-1-1"))),
		row("a replica of an old revision that is down stays while its master has restarted and nothing shows with what", Complete, "", "Wait", "has an unknown number",
			doubtful(1), lost(time.Hour, "a-1-1"), outdated("a-1-1")),
		row("so does one that started with another password", Complete, "", "Wait", "a-1-0 may have lost data", doubtful(1), locked("a-1-1")),
		row("it is replaced where a person gave it up", Complete, "", "DeletePod a-1-1", "another password", doubtful(1), locked("a-1-1"), consent(idOf("a-1-1"))),
		row("but not while its master is lost", Healing, "", "Wait", "", outdated("a-1-1"), lost(15*time.Second, "a-1-0")),
		row("but not a shard's owner", Healing, "", "Wait", "", lost(15*time.Second, "a-1-0"), outdated("a-1-0")),
		row("masters on one host are spread", Complete, PhaseRunning, "Failover a-1-1", "has 3 masters", together, onAll([]string{"a-0-1", "a-2-1"}, func(n *Node) { n.Host = "h" })),
		row("but not back to an old revision", Complete, "", "Wait", "is writing its data", together, outdated("a-1-1"), on("a-1-1", func(n *Node) { n.Saving = true })),
		row("a setting", Complete, "", "Configure a-0-0", "maxmemory", memory),
		row("a third pod of a shard goes", Complete, "", "Forget", "forget a-0-2", third, follows("a-0-2", "a-0-0")),
		row("a third pod that is the master hands over", Complete, "", "Failover", "in place of a-0-2", third, promoted("a-0-2", "a-0-0", true), follows("a-0-0", "a-0-2"), follows("a-0-1", "a-0-2")),
	})
}

// neverUp makes pods outdated pods whose containers never served.
func neverUp(pods ...string) edit {
	return func(s *scene) {
		lost(time.Hour, pods...)(s)
		onAll(pods, func(n *Node) { n.Outdated, n.NeverUp = true, true })(s)
	}
}

// Pods of an old revision served before, but their servers cannot run any more, for example for lack of memory. They
// are replaced if no data can be lost.
func TestStuck(t *testing.T) {
	again := func(pod string) edit { return on(pod, func(n *Node) { n.Outdated, n.Stuck = false, false }) }
	holdAll(t, []expectation{
		row("a shard gets the wanted revision, its replica first", SlotsLost, "", "DeletePod a-1-1", "it cannot run (a-1-1: connection refused)", stuck("a-1-0", "a-1-1")),
		row("not while that is not up", SlotsLost, "", "Wait", "", stuck("a-1-0", "a-1-1"), again("a-1-1")),
		row("then its master", SlotsLost, "", "DeletePod a-1-0", "it cannot run", stuck("a-1-0"), restarted("a-1-1", 7)),
		row("a replica that is the recorded master comes last", SlotsLost, "", "DeletePod a-1-0", "", promoted("a-1-1", "a-1-0", true), follows("a-1-0", "a-1-1"), stuck("a-1-0", "a-1-1")),
		row("a whole cluster", Unknown, "", "DeletePod a-0-1", "", stuck(six...)),
		row("most masters", MajorityLost, "", "DeletePod a-1-0", "", stuck("a-1-0", "a-2-0")),
		row("a master whose replica may take over", Healing, "", "DeletePod a-1-0", "", stuck("a-1-0")),
		row("where nodes contradict each other, too", Inconsistent, "", "DeletePod a-1-1", "", stuck("a-1-1"),
			on("a-2-0", func(n *Node) { n.self().Owned = SlotSet{{0, 0}, {10922, 16383}} })),
		row("a refused deletion stops no other", SlotsLost, "", "DeletePod a-2-1", "", stuck("a-1-0", "a-1-1", "a-2-0", "a-2-1"),
			on("a-1-1", func(n *Node) { n.Failures = []Failure{{Action: ActionDeletePod, Cause: "its claim is being deleted"}} })),
		row("the claim of a pod is being deleted, and nothing else is wrong", Complete, PhaseRunning, "Wait", "the claims of a-1-1 are being deleted: their data would be lost with these pods", on("a-1-1", func(n *Node) { n.ClaimLeaves = true })),
		row("a replica waits while its master may come up by itself", SlotsLost, "", "Wait", "", stuck("a-1-1"), lost(time.Hour, "a-1-0")),
		row("or runs", Unknown, "", "Wait", "", stuck("a-1-1"), lost(time.Hour, "a-1-0"), runs("a-1-0")),
		row("or has restarted, and nothing shows with what", Complete, "", "Wait", "has an unknown number", doubtful(1), stuck("a-1-1")),
		row("it is replaced where a person gave it up", Complete, "", "DeletePod a-1-1", "", doubtful(1), stuck("a-1-1"), consent(idOf("a-1-1"))),
		row("a server that refuses its volume stays", SlotsLost, "", "Wait", "is damaged", stuck("a-1-0", "a-1-1"),
			onAll([]string{"a-1-0", "a-1-1"}, func(n *Node) { n.NotStarted = "DataDamaged: a file is damaged" })),
		row("so does one that other nodes reach", Unknown, "", "Wait", "is reached by other nodes", stuck("a-1-0"),
			everywhere("a-1-0", func(e *Entry) { e.Fail, e.Connected = false, true })),
		row("and one of the wanted revision", SlotsLost, "", "Wait", "", stuck("a-1-0", "a-1-1"), each(func(n *Node) { n.Outdated = false })),
		row("and one that is to stop", SlotsLost, "", "Record", "replicas stop before", stuck("a-1-0", "a-1-1"), func(s *scene) { s.wanted.Parked, s.wanted.Shards = true, nil }),
	})
}

// stuck makes pods outdated, and their servers end again and again.
func stuck(pods ...string) edit {
	return func(s *scene) {
		lost(time.Hour, pods...)(s)
		onAll(pods, func(n *Node) { n.Outdated, n.Stuck = true, true })(s)
	}
}

// locked makes a node refuse the password. Other nodes still see it.
func locked(pod string) edit {
	return on(pod, func(n *Node) {
		*n = Node{Pod: n.Pod, UID: n.UID, Host: n.Host, Shard: n.Shard, Ordinal: n.Ordinal, IP: n.IP, Running: true, Ready: true, Locked: true,
			Problem: "it does not accept the password of the cluster"}
	})
}

// A failed step is skipped while it is not due, and blocks no other step.
func TestFailedStepsYield(t *testing.T) {
	open := func(s *scene) {
		s.open("a-0-0", 100, "", "a-2-0")
		s.open("a-2-0", 100, "a-0-0", "")
		s.slotKeys(100, map[string]int64{"a-0-0": 3, "a-2-0": 2})
	}
	fails := func(pod string, f Failure) edit {
		f.Action, f.Cause = ActionMoveSlots, "its memory is full"
		return on(pod, func(n *Node) { n.Failures = append(n.Failures, f) })
	}
	sets := func(has string) edit {
		return func(s *scene) {
			s.wanted.Settings = map[string]string{"maxmemory": "2gb"}
			each(func(n *Node) { n.Settings = map[string]string{"maxmemory": has} })(s)
		}
	}
	refuses := func(setting, cause string) edit {
		return on("a-1-0", func(n *Node) { n.Failures = []Failure{{Action: ActionConfigure, Target: setting, Cause: cause}} })
	}
	full, to := Failure{Into: true}, idOf("a-3-0")
	holdAll(t, []expectation{
		row("settings come before an open slot is finished", Healing, "", "Configure", "", open, sets("1gb")),
		row("so do joins", Healing, "", "Record", "record a-1-1", open, renewed("a-1-1")),
		row("a move whose target is full goes back", Healing, "", "MoveSlots BACK a-0-0", "its memory is full", open, fails("a-2-0", full)),
		row("a move to a shard that is removed goes back", Healing, "", "MoveSlots BACK a-0-0", "", open, wants(2, 2)),
		row("where both fail, later rules go on", Healing, "", "Wait", "its memory is full", open, fails("a-2-0", full), fails("a-0-0", Failure{Mode: ModeBack, Target: idOf("a-2-0")})),
		row("a failure of another slot stops nothing", Healing, "", "MoveSlots", "", open, fails("a-0-0", Failure{Target: idOf("a-2-0"), Slots: SlotSet{{7, 7}}})),
		row("a slot that cannot move is left out", Complete, PhaseScaling, "MoveSlots a-0-0", "move 1365 slots (0-2,4-1365)", grow, fails("a-0-0", Failure{Target: to, Slots: SlotSet{{3, 3}}})),
		row("where a pair fails, another one goes on", Complete, PhaseScaling, "MoveSlots a-1-0", "to a-3-0", grow, fails("a-0-0", Failure{Target: to})),
		row("where no slot moves, pods are replaced", Complete, PhaseScaling, "DeletePod a-0-1", "", grow, fails("a-3-0", full), outdated("a-0-1")),
		row("a setting that a node refuses does not stop the rolling change", Complete, "", "DeletePod a-0-1", "refused by the server", sets("2gb"),
			on("a-1-0", func(n *Node) { n.Settings = map[string]string{"maxmemory": "1gb"} }), refuses("map[maxmemory:2gb]", "refused by the server"), outdated("a-0-1")),
		row("another value of a setting that a node refused is set at once", Complete, "", "Configure a-0-0", "and 5 more", sets("1gb"), refuses("map[maxmemory:x]", "x")),
		row("a failover that was sent may take effect", Complete, "", "Wait", "waits until this has taken effect: make a-0-1 the master", outdated("a-0-0", "a-1-0"), sent("a-0-1", time.Second)),
		row("it is sent again after a time", Complete, "", "Failover a-0-1", "", outdated("a-0-0", "a-1-0"), sent("a-0-1", 5*time.Second)),
		row("of several nodes, those that do not fail are set", Complete, "", "Configure a-0-0", "and 4 more", sets("1gb"), refuses("map[maxmemory:2gb]", "x")),
	})
}

// sent records a failover that was sent to a pod some time ago.
func sent(pod string, since time.Duration) edit {
	return on(pod, func(n *Node) { n.Sent = map[Action]time.Duration{ActionFailover: since} })
}

// After a step was sent, and while it may still take effect, the next pass is one second later.
func TestASentStepIsAwaited(t *testing.T) {
	t.Parallel()
	s := settled(3)
	outdated("a-0-0")(s)
	assert.Equal(t, s.decide().LookAgain, afterEffect)
	sent("a-0-1", time.Second)(s)
	assert.Equal(t, s.decide().LookAgain, whileWaiting)
}

// The record keeps the node of a wanted pod that does not run, even if no member knows that node.
func TestRecordIsLoweredWithoutAPod(t *testing.T) {
	s := settled(3)
	grow(s)
	s.give("a-3-0", nil)
	s.wanted.Shards = []int{2, 2, 2}
	unknown("a-3-1", "a-3-0", "a-1-1")(s)
	renewed("a-3-1", "a-3-0")(s)
	s.nodes = slices.DeleteFunc(s.nodes, func(n Node) bool { return n.Pod == "a-1-1" })
	step := s.decide().Steps[0]
	assert.Equal(t, step.Action, ActionRecord, step.Message)
	assert.DeepEqual(t, step.Record.Shards, []int{2, 2, 2})
	assert.Equal(t, step.Record.Nodes["a-1-1"], idOf("a-1-1"))
}
