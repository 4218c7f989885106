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
		row("the keys of the slot were not counted", Healing, "", "Wait", "", from, to),
		row("only importing, the source has keys", Healing, "", "MarkSlot MIGRATING a-0-0", "", to, slotKeys(source)),
		row("only importing, the target has keys", Healing, "", "MarkSlot MIGRATING a-0-0", "", to, slotKeys(target)),
		row("only importing, no keys", Healing, "", "MarkSlot STABLE a-2-0", "", to, slotKeys(nil)),
		row("only migrating, nothing moved", Healing, "", "MarkSlot STABLE a-0-0", "", from, slotKeys(source)),
		row("only migrating, keys moved", Healing, "", "MarkSlot IMPORTING a-2-0", "", from, slotKeys(both)),
		row("only migrating, a third node has keys", Healing, "", "MarkSlot IMPORTING a-2-0", "", from, slotKeys(map[string]int64{"a-1-0": 1})),
		row("the owner imports its own slot", Healing, "", "MarkSlot STABLE a-0-0", "", importing("a-0-0", "a-1-0"), slotKeys(source)),
		row("a former owner still has the mark of a completed move", Healing, "", "MarkSlot STABLE a-1-0", "", migrating("a-1-0", "a-0-0"), slotKeys(source)),
		row("the source failed over: the target's view has the former owner", Healing, "", "AssignSlot a-2-0", "a-0-1 owns slot 100", sourceFailedOver, heir, claims, lacks),
		row("the source failed over: the target imports from the new owner", Healing, "", "MarkSlot IMPORTING a-2-0", "", sourceFailedOver, heir),
		row("the source failed over: the new owner migrates", Healing, "", "MarkSlot MIGRATING a-0-1", "", sourceFailedOver, importing("a-2-0", "a-0-1"), heir),
		row("the target failed over: the new master imports", Healing, "", "MarkSlot IMPORTING a-2-1", "", took, hers),
		row("the target failed over: the source migrates to the new master", Healing, "", "MarkSlot MIGRATING a-0-0", "", took, importing("a-2-1", "a-0-0"), hers),
		row("the target is down", Healing, "", "Wait", "", from, lost(15*time.Second, "a-2-0"), slotKeys(source)),
		row("the source is down", Healing, "", "Wait", "", to, lost(15*time.Second, "a-0-0"), slotKeys(target)),
		row("the target is lost, and no node has keys", Healing, "", "MarkSlot STABLE a-0-0", "", stranger, slotKeys(source)),
		row("two importers: the importer in the owner's mark is chosen", Healing, "", "MoveSlots a-0-0", "to a-2-0", from, to, importing("a-1-0", "a-0-0"),
			slotKeys(map[string]int64{"a-0-0": 3, "a-1-0": 1, "a-2-0": 2})),
		row("an interrupted move back: the target has copies", Healing, "", "MoveSlots BACK a-0-0", "from a-2-0 back to a-0-0", self, slotKeys(both)),
		row("an interrupted move back: the target restarted", Healing, "", "MoveSlots BACK a-0-0", "a-2-0", self, to, slotKeys(both)),
		row("an interrupted move back: the target was replaced", Healing, "", "MoveSlots BACK a-0-0", "a-2-1", took, self, hers),
		row("an interrupted move back: the target is down", Healing, "", "Wait", "", self, lost(15*time.Second, "a-2-0"), slotKeys(source)),
		row("an interrupted move back: no node has copies", Healing, "", "MoveSlots BACK a-0-0", "", self, slotKeys(source)),
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
		row("a new shard gets nothing while another shard has no replica in sync", Complete, "", "Wait", "shard 1 has no replica in sync", grow, syncing("a-1-1")),
		row("a new shard has no pods yet", Complete, PhaseScaling, "Wait", "waits for shard 3", wants(2, 2, 2, 2)),
		row("nodes have two versions: pods are replaced before slots move", Complete, "", "DeletePod a-0-1", "", grow, outdated("a-0-1"), on("a-0-0", func(n *Node) { n.Version = "7.0.15" })),
		row("a shard is removed although all nodes are full: they evict keys", Complete, PhaseScaling, "MoveSlots a-3-0", "", full(true)),
		row("a shard is not removed if all nodes are full and evict no keys", Complete, "", "Wait", "shards are not removed: a-0-0 would need", full(false)),
		row("functions are copied before slots move", Complete, "", "Functions a-0-0", "", grow, on("a-0-0", func(n *Node) { n.Functions = "digest" })),
		row("AssignReceive: the table is recorded", Complete, "", "Record", "record which slots go to the new shards [3]", assign(from(2000, idOf("a-1-0")))),
		row("AssignReceive: slots move by the table", Complete, "", "MoveSlots a-1-0", "move 2000 slots (5461-7460) from a-1-0 to a-3-0", assign(from(2000, "a-1-0")), table(3)),
		row("AssignReceive: the table is completed", Complete, "", "Record", "were moved", func(s *scene) { s.wanted.Assign = []Assignment{} }, table(1)),
		row("AssignReceive names an unknown node", Complete, PhaseRunning, "Wait", `names "nodeId1"`, assign(from(2000, "nodeId1"))),
		row("AssignReceive names a replica", Complete, "", "Wait", "is a replica: name its master, a-1-0", assign(from(2000, "a-1-1"))),
		row("AssignReceive wants more slots than the source has", Complete, "", "Wait", "the number of slots that fromReplicas own", assign(from(9000, "a-1-0"))),
		row("AssignReceive wants all slots of the source", Complete, "", "Wait", "left without slots", assign(from(5461, "a-1-0"))),
		row("AssignReceive has more entries than new shards", Complete, "", "Wait", "has 2 entries, but 1 shards are new", assign(from(5, "a-1-0"), from(5, "a-1-0"))),
		row("AssignReceive names no source", Complete, "", "Wait", "fromReplicas is empty", assign(from(5))),
		row("a shard is removed: its slots move", Complete, PhaseScaling, "MoveSlots a-2-0", "", wants(2, 2)),
		row("a shard is not removed if its data does not fit", Complete, PhaseRunning, "Wait", "shards are not removed: a-0-0 would need 15 MiB of its 12 MiB", wants(2, 2),
			each(func(n *Node) { n.UsedMemory, n.MaxMemory = 10<<20, 12<<20 })),
		row("a removed shard without slots: its replica is forgotten", Complete, "", "Forget", "forget a-3-1", shrink),
		row("a removed shard without slots: its forgotten replica is reset", Complete, "", "Reset a-3-1", "", shrink, unknown("a-3-1")),
		row("a removed shard without slots: its master is forgotten", Complete, "", "Forget", "forget a-3-0", shrink, unknown("a-3-1"), renewed("a-3-1")),
		row("a removed shard without slots: the record is lowered", Complete, "", "Record", "[2 2 2] pods now", shrink, unknown("a-3-1", "a-3-0"), renewed("a-3-1", "a-3-0")),
		row("a new shard is removed before its nodes meet other nodes", Complete, "", "Record", "[2 2 2] pods now", unmet),
		row("a shard is removed, but another node still sees slots there", Healing, "", "BumpEpoch a-0-0", "", shrink, sees("a-1-0", "a-3-0", func(e *Entry) { e.Owned = SlotSet{{0, 0}} }),
			sees("a-1-0", "a-0-0", func(e *Entry) { e.Owned = SlotSet{{1, 5460}} })),
	})
}

// full makes a scene of four shards without free memory. The spec wants three shards.
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
		row("a replica is replaced first", Complete, PhaseUpgrading, "DeletePod a-0-1", "", outdated(six...)),
		row("the updated replica becomes the master", Complete, PhaseUpgrading, "Failover a-0-1", "", outdated("a-0-0", "a-1-0", "a-1-1", "a-2-0", "a-2-1")),
		row("the next shard: a replica is replaced first", Complete, "", "DeletePod a-1-1", "", outdated("a-1-0", "a-1-1", "a-2-0", "a-2-1")),
		row("a new shard without slots is down: its pods get the wanted revision", Complete, PhaseUpgrading, "DeletePod a-3-0", "its shard owns no slots", grow, lost(time.Hour, "a-3-0", "a-3-1"),
			outdated("a-3-0", "a-3-1")),
		row("a shard without slots is removed and down: its pods get the wanted revision", Complete, PhaseScaling, "DeletePod a-3-1", "", grow, wants(2, 2, 2), lost(time.Hour, "a-3-0", "a-3-1"), outdated("a-3-1")),
		row("the master of a new shard without slots is down: its replica gets the wanted revision", Complete, "", "DeletePod a-3-1", "", grow, lost(time.Hour, "a-3-0"), outdated("a-3-1")),
		row("a new shard without slots is down: a pod that loads its data is kept", Complete, "", "Wait", "no pod of shard 3 is replaced: the shard has no master", grow, lost(time.Hour, "a-3-0", "a-3-1"), outdated("a-3-1"),
			on("a-3-1", func(n *Node) { n.Loading = true })),
		row("no pod is replaced while another shard has no replica in sync", Complete, PhaseUpgrading, "Wait", "shard 2 has no replica in sync", outdated("a-0-1"), unlinked("a-2-1")),
		row("no pod is replaced while a replica is far behind its master", Complete, "", "Wait", "shard 2 has no replica in sync", outdated("a-0-1"), behind),
		row("no pod is replaced while its shard writes data to disk", Complete, "", "Wait", "a-0-0 is writing its data", outdated("a-0-1"), saving),
		row("no pod is replaced while another pod stops", Complete, "", "Wait", "", outdated("a-0-1"), on("a-1-1", func(n *Node) { n.Terminating = true })),
		row("an old pod that is down is kept while a pod of the wanted revision is down", Complete, "", "Wait", "", lost(time.Minute, "a-0-1", "a-1-1"), outdated("a-1-1")),
		row("a replica that started with another password is replaced", Complete, "", "DeletePod a-1-1", "another password", locked("a-1-1")),
		row("a master that started with another password is kept", Unknown, "", "Wait", "does not accept the password", locked("a-1-0")),
		row("a replica that started with another password is kept while its master is lost", Unknown, "", "Wait", "slots 5461-10921", locked("a-1-1"), lost(time.Minute, "a-1-0"), runs("a-1-0")),
		row("a revision that does not start is replaced", Complete, "", "DeletePod a-1-1", "does not come up", lost(time.Hour, "a-1-1"), outdated("a-1-1")),
		row("a shard whose pods never served gets the wanted revision", SlotsLost, "", "DeletePod a-1-0", "never served in this pod (a-1-0: connection refused)",
			neverUp("a-1-0", "a-1-1")),
		row("a cluster whose pods never served gets the wanted revision", Unknown, "", "DeletePod a-0-0", "", neverUp(six...)),
		row("two of three shards whose pods never served get the wanted revision", SlotsLost, "", "DeletePod a-1-0", "", neverUp("a-1-0", "a-1-1", "a-2-0", "a-2-1")),
		row("a cluster that was never formed gets the wanted revision", Unknown, "", "DeletePod a-1-1", "", neverUp("a-1-1"), func(s *scene) { s.record.Formed = false }),
		row("a pod that never served is replaced although nodes contradict each other", Inconsistent, "", "DeletePod a-1-1", "", neverUp("a-1-1"),
			on("a-2-0", func(n *Node) { n.self().Owned = SlotSet{{0, 0}, {10922, 16383}} })),
		row("a pod of the wanted revision that never served is kept", SlotsLost, "", "Wait", "", neverUp("a-1-0", "a-1-1"), each(func(n *Node) { n.Outdated = false })),
		row("an old replica that cannot copy its new master is replaced", Complete, PhaseUpgrading, "DeletePod a-0-0", "not in sync with its master",
			outdated("a-0-0", "a-1-0", "a-1-1", "a-2-0", "a-2-1"), promoted("a-0-1", "a-0-0", true), follows("a-0-0", "a-0-1"), cannotCopy),
		row("an old replica that is not in sync is replaced while a new pod of another shard is down", Complete, "", "DeletePod a-0-1", "not in sync with its master", outdated("a-0-1"), unlinked("a-0-1"), lost(time.Minute, "a-1-1")),
		row("an old replica that is not in sync is kept while a new pod of its shard is down", Complete, "", "Wait", "a-0-1 has no link", outdated("a-0-1"), unlinked("a-0-1"), threeOf0, lost(time.Minute, "a-0-2")),
		row("an old replica that is not in sync is kept while no new pod is up", Complete, "", "Wait", "a-0-1 has no link", outdated("a-0-0", "a-0-1", "a-1-0", "a-2-0", "a-2-1"), unlinked("a-0-1"), lost(time.Minute, "a-1-1")),
		row("an old replica is kept while its master has restarted without keys", Complete, "", "Wait", "a-1-0 has 0 keys since it restarted, and its replica a-1-1 has 7", outdated("a-1-1"), doubtful(0),
			on("a-1-1", func(n *Node) { n.Replication.MasterHost = "10.9.9.9" })),
		row("an old replica is kept while its master has restarted with one key", Complete, "", "Wait", "a-1-0 has 1 keys since it restarted, and its replica a-1-1 has 7", outdated("a-1-1"), doubtful(1)),
		row("an old replica is kept while it copies data", Complete, "", "Wait", "The operator changes neither a-1-1 nor its pod", outdated("a-1-1"), doubtful(1), syncing("a-1-1")),
		row("an old replica whose keys a user gave up is replaced", Complete, "", "DeletePod a-1-1", "", outdated("a-1-1"), doubtful(1), consent(idOf("a-1-1"))),
		row("an old replica that is down is kept while its restarted master may lack data", Complete, "", "Wait", "has an unknown number",
			doubtful(1), lost(time.Hour, "a-1-1"), outdated("a-1-1")),
		row("a replica that started with another password is kept while its restarted master may lack data", Complete, "", "Wait", "a-1-0 may have lost data", doubtful(1), locked("a-1-1")),
		row("a replica that started with another password is replaced if a user gave up its keys", Complete, "", "DeletePod a-1-1", "another password", doubtful(1), locked("a-1-1"), consent(idOf("a-1-1"))),
		row("an old replica is kept while its master is lost", Healing, "", "Wait", "", outdated("a-1-1"), lost(15*time.Second, "a-1-0")),
		row("an old owner of slots is kept", Healing, "", "Wait", "", lost(15*time.Second, "a-1-0"), outdated("a-1-0")),
		row("masters on one host are spread", Complete, PhaseRunning, "Failover a-1-1", "has 3 masters", together, onAll([]string{"a-0-1", "a-2-1"}, func(n *Node) { n.Host = "h" })),
		row("no replica of an old revision becomes the master to spread masters", Complete, "", "Wait", "is writing its data", together, outdated("a-1-1"), on("a-1-1", func(n *Node) { n.Saving = true })),
		row("a changed setting is set on the servers", Complete, "", "Configure a-0-0", "maxmemory", memory),
		row("an unwanted third pod of a shard is removed", Complete, "", "Forget", "forget a-0-2", third, follows("a-0-2", "a-0-0")),
		row("a third pod that is the master hands over", Complete, "", "Failover", "in place of a-0-2", third, promoted("a-0-2", "a-0-0", true), follows("a-0-0", "a-0-2"), follows("a-0-1", "a-0-2")),
	})
}

// neverUp makes pods outdated, and their containers have never served.
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
		row("a shard waits while its updated replica is not up", SlotsLost, "", "Wait", "", stuck("a-1-0", "a-1-1"), again("a-1-1")),
		row("a shard gets the wanted revision: its master follows when the replica runs", SlotsLost, "", "DeletePod a-1-0", "it cannot run", stuck("a-1-0"), restarted("a-1-1", 7)),
		row("a replica that is the recorded master comes last", SlotsLost, "", "DeletePod a-1-0", "", promoted("a-1-1", "a-1-0", true), follows("a-1-0", "a-1-1"), stuck("a-1-0", "a-1-1")),
		row("a whole cluster", Unknown, "", "DeletePod a-0-1", "", stuck(six...)),
		row("the masters of most shards", MajorityLost, "", "DeletePod a-1-0", "", stuck("a-1-0", "a-2-0")),
		row("a master whose replica may take over", Healing, "", "DeletePod a-1-0", "", stuck("a-1-0")),
		row("a stuck pod is replaced although nodes contradict each other", Inconsistent, "", "DeletePod a-1-1", "", stuck("a-1-1"),
			on("a-2-0", func(n *Node) { n.self().Owned = SlotSet{{0, 0}, {10922, 16383}} })),
		row("a refused deletion stops no other deletion", SlotsLost, "", "DeletePod a-2-1", "", stuck("a-1-0", "a-1-1", "a-2-0", "a-2-1"),
			on("a-1-1", func(n *Node) { n.Failures = []Failure{{Action: ActionDeletePod, Cause: "its claim is being deleted"}} })),
		row("the claim of a pod is being deleted, and nothing else is wrong", Complete, PhaseRunning, "Wait", "the claims of a-1-1 are being deleted: their data would be lost with these pods", on("a-1-1", func(n *Node) { n.ClaimLeaves = true })),
		row("a replica waits while its master may come up by itself", SlotsLost, "", "Wait", "", stuck("a-1-1"), lost(time.Hour, "a-1-0")),
		row("a replica waits while its master runs, but does not answer", Unknown, "", "Wait", "", stuck("a-1-1"), lost(time.Hour, "a-1-0"), runs("a-1-0")),
		row("a replica waits while its restarted master may lack data", Complete, "", "Wait", "has an unknown number", doubtful(1), stuck("a-1-1")),
		row("a stuck replica is replaced if a user gave up its keys", Complete, "", "DeletePod a-1-1", "", doubtful(1), stuck("a-1-1"), consent(idOf("a-1-1"))),
		row("a server that refuses its volume stays", SlotsLost, "", "Wait", "is damaged", stuck("a-1-0", "a-1-1"),
			onAll([]string{"a-1-0", "a-1-1"}, func(n *Node) { n.NotStarted = "DataDamaged: a file is damaged" })),
		row("a stuck server that other nodes reach stays", Unknown, "", "Wait", "is reached by other nodes", stuck("a-1-0"),
			everywhere("a-1-0", func(e *Entry) { e.Fail, e.Connected = false, true })),
		row("a stuck server of the wanted revision stays", SlotsLost, "", "Wait", "", stuck("a-1-0", "a-1-1"), each(func(n *Node) { n.Outdated = false })),
		row("a stuck server stays while the cluster is being parked", SlotsLost, "", "Record", "replicas stop before", stuck("a-1-0", "a-1-1"), func(s *scene) { s.wanted.Parked, s.wanted.Shards = true, nil }),
	})
}

// stuck makes pods outdated, and their servers keep exiting.
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
		row("joins come before an open slot is finished", Healing, "", "Record", "record a-1-1", open, renewed("a-1-1")),
		row("a move whose target is full goes back", Healing, "", "MoveSlots BACK a-0-0", "its memory is full", open, fails("a-2-0", full)),
		row("a move to a shard that is removed goes back", Healing, "", "MoveSlots BACK a-0-0", "", open, wants(2, 2)),
		row("if the move and the move back fail, later rules run", Healing, "", "Wait", "its memory is full", open, fails("a-2-0", full), fails("a-0-0", Failure{Mode: ModeBack, Target: idOf("a-2-0")})),
		row("a failure of another slot stops nothing", Healing, "", "MoveSlots", "", open, fails("a-0-0", Failure{Target: idOf("a-2-0"), Slots: SlotSet{{7, 7}}})),
		row("a slot that cannot move is left out", Complete, PhaseScaling, "MoveSlots a-0-0", "move 1365 slots (0-2,4-1365)", grow, fails("a-0-0", Failure{Target: to, Slots: SlotSet{{3, 3}}})),
		row("if the move between two shards fails, another shard moves slots", Complete, PhaseScaling, "MoveSlots a-1-0", "to a-3-0", grow, fails("a-0-0", Failure{Target: to})),
		row("if no slot can move, pods are replaced", Complete, PhaseScaling, "DeletePod a-0-1", "", grow, fails("a-3-0", full), outdated("a-0-1")),
		row("a setting that a node refuses does not stop the rolling change", Complete, "", "DeletePod a-0-1", "refused by the server", sets("2gb"),
			on("a-1-0", func(n *Node) { n.Settings = map[string]string{"maxmemory": "1gb"} }), refuses("map[maxmemory:2gb]", "refused by the server"), outdated("a-0-1")),
		row("another value of a setting that a node refused is set at once", Complete, "", "Configure a-0-0", "and 5 more", sets("1gb"), refuses("map[maxmemory:x]", "x")),
		row("a failover that was sent may take effect", Complete, "", "Wait", "waits until this has taken effect: make a-0-1 the master", outdated("a-0-0", "a-1-0"), sent("a-0-1", time.Second)),
		row("a failover is sent again after its interval", Complete, "", "Failover a-0-1", "", outdated("a-0-0", "a-1-0"), sent("a-0-1", 5*time.Second)),
		row("a setting that one node refuses is set on the other nodes", Complete, "", "Configure a-0-0", "and 4 more", sets("1gb"), refuses("map[maxmemory:2gb]", "x")),
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
