// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// expectation describes the decision for a scene: the verdict, the phase ("" for any), the first step ("" for none), and a part of the
// step's message or of the reason. The text of the step consists of the action, its mode, and for some steps the pod.
type expectation struct {
	name              string
	verdict           Verdict
	phase, step, says string
	edits             []edit
}

func row(name string, verdict Verdict, phase, step, says string, edits ...edit) expectation {
	return expectation{name, verdict, phase, step, says, edits}
}

func (e expectation) hold(t *testing.T) {
	t.Helper()
	s := settled(3)
	for _, change := range e.edits {
		change(s)
	}
	d := s.decide()
	assert.Equal(t, d.Model.Verdict, e.verdict, d.Model.Reason)
	if e.phase != "" {
		assert.Equal(t, d.Model.Phase, e.phase, d.Model.Reason)
	}
	var step Step
	text := d.Model.Reason
	if len(d.Steps) > 0 {
		step = d.Steps[0]
		text += " | " + step.Message
		if len(step.Batch) > 0 {
			step = step.Batch[0]
		}
	}
	is := strings.TrimSpace(string(step.Action) + " " + step.Mode)
	assert.Assert(t, e.step == is || e.step == is+" "+step.Node.Pod, "%s %s, not %s: %s", is, step.Node.Pod, e.step, text)
	assert.Assert(t, strings.Contains(text, e.says), "%q is not in: %s", e.says, text)
}

func holdAll(t *testing.T, all []expectation) {
	t.Helper()
	t.Parallel()
	for _, e := range all {
		t.Run(e.name, func(t *testing.T) { t.Parallel(); e.hold(t) })
	}
}

// Nodes that do not see each other meet again. Replicas that follow a former address of their master get its present address.
func TestHealing(t *testing.T) {
	slots := func(viewer, of string, add, take SlotSet) edit {
		return sees(viewer, of, func(e *Entry) { e.Owned = e.Owned.Union(add).Minus(take) })
	}
	ghost := Entry{ID: strings.Repeat("c", 40), IP: "127.5.8.8", Master: true, Fail: true}
	holdAll(t, []expectation{
		row("a replica has a new address", Healing, "", "Meet a-0-0", "a-2-1 at 127.7.2.2", readdressed("a-2-1")),
		row("all pods have new addresses", DisconnectedIntact, PhaseFailed, "Meet", "and 29 more", readdressed(six...)),
		row("a replica follows its master's former address", Complete, PhaseFailed, "Replicate a-1-1", "127.5.9.9", elsewhere("a-1-1"), unlinked("a-1-1")),
		row("a replica follows a stranger at its master's former address", Complete, "", "Replicate a-1-1", "127.5.9.9", elsewhere("a-1-1")),
		row("a replica has no link yet", Complete, PhaseFailed, "Wait", "a-1-1 has no link", unlinked("a-1-1")),
		row("a master does not accept its replica", Complete, PhaseFailed, "Replicate a-1-1", "let a-1-0 accept its replica a-1-1", unlinked("a-1-1"), closed("a-1-0")),
		row("a master does not accept its replica, and has lost the replica's data", Complete, PhaseFailed, "Wait", "", unlinked("a-1-1"), closed("a-1-0"), keys("a-1-0", 1), keys("a-1-1", 100),
			on("a-1-0", func(n *Node) { n.RunID, n.Replication.ID = "other", "other" })),
		row("a master accepts no replica, but its own replica is linked", Complete, "", "", "", closed("a-1-0")),
		row("a replica is down", Complete, PhaseFailed, "Wait", "a-1-1: connection refused", lost(time.Minute, "a-1-1")),
		row("a replica lost its volume", Complete, "", "Forget", "gone and owns no slots", lost(time.Minute, "a-1-1"), renewed("a-1-1")),
		row("a new node gets an epoch that no other has", Healing, "", "SetEpoch a-1-1", "the config epoch 51", lost(time.Minute, "a-1-1"), renewed("a-1-1", "a-2-1"), unknown("a-1-1", "a-2-1"),
			func(s *scene) { s.record.Nodes["a-1-1"] = s.node("a-1-1").ID }, on("a-2-1", func(n *Node) { n.self().Epoch, n.Keys = 50, 1 })),
		row("a replica lost its volume, and its former node was forgotten", Complete, "", "Record", "record a-1-1", lost(time.Minute, "a-1-1"), renewed("a-1-1"), unknown("a-1-1")),
		row("a view that missed a move, and never learns of it", Healing, "", "BumpEpoch a-0-0", "correct the view of a-1-1: slots 100 are owned by a-0-0",
			slots("a-1-1", "a-0-0", nil, SlotSet{{100, 100}}), slots("a-1-1", "a-2-0", SlotSet{{100, 100}}, nil)),
		row("a view that missed a move, and will learn of it", Healing, "", "Wait", "do not agree yet",
			slots("a-1-1", "a-2-0", nil, SlotSet{{16000, 16000}}), slots("a-1-1", "a-0-0", SlotSet{{16000, 16000}}, nil)),
		row("a node that no pod has is in a view again, and is forgotten", Complete, "", "Forget", "forget node", knows("a-2-0", ghost)),
		row("a replica follows a node that no pod has", Complete, "", "Replicate a-2-1", "", knows("a-2-1", ghost), everywhere("a-2-1", func(e *Entry) { e.MasterID = ghost.ID })),
	})
}

// A lost master is replaced by a replica whose data is proven, or the decision waits.
func TestLostMasters(t *testing.T) {
	hidden := everywhere("a-1-0", func(e *Entry) { e.IP, e.NoAddress, e.Fail = "", true, false })
	fresh := on("a-1-1", func(n *Node) { n.Keys, n.Replication.Offset = 0, 1 })
	late := on("a-1-1", func(n *Node) { n.Replication.LinkUp, n.Replication.LinkDown = false, 2*time.Second })
	// The record is from the time before a-1-0 became the master again. Since then, a-1-1 has copied from a-1-0.
	promotedBack := func(former string) edit {
		return func(s *scene) {
			h, r := s.record.Histories[1], &s.node("a-1-1").Replication
			if former == "" {
				former = h.Repl
			}
			r.ID, r.FormerID = "history-between", former
			s.record.Histories[1] = History{Node: idOf("a-1-1"), Run: "run-before", Repl: h.Repl}
		}
	}
	holdAll(t, []expectation{
		row("a master is lost, and no node has noticed yet", Healing, PhaseFailed, "Wait", "a-1-1 to be elected", lost(time.Second, "a-1-0")),
		row("nodes consider a lost master failed, and an election is due", Healing, PhaseFailed, "Wait", "a-1-1 to be elected", lost(15*time.Second, "a-1-0")),
		row("no replica of a lost master was elected in time", Healing, "", "Failover FORCE a-1-1", "", lost(30*time.Second, "a-1-0")),
		row("a lost master does not come back", Healing, "", "Failover FORCE a-1-1", "slots 5461-10921", lost(2*time.Minute, "a-1-0")),
		row("a node of another cluster has the address of a lost master", Healing, "", "Failover FORCE a-1-1", "", lost(30*time.Second, "a-1-0"), hidden),
		row("a master hangs, and its replica never had its data", Unknown, PhaseFailed, "Wait", "look at the node's logs", lost(time.Hour, "a-1-0"), runs("a-1-0"), fresh),
		row("a master has lost its data, but keeps its pod", Healing, "", "DeletePod a-1-0", "would copy an empty node", lost(time.Second, "a-1-0"), on("a-1-0", func(n *Node) { n.LostData = true })),
		row("a master has lost its volume", Healing, "", "Failover FORCE a-1-1", "", lost(30*time.Second, "a-1-0"), renewed("a-1-0")),
		row("a master loads its data", Healing, "", "Wait", "a-1-0 loads its data", lost(time.Hour, "a-1-0"), runs("a-1-0"), on("a-1-0", func(n *Node) { n.Loading = true })),
		row("only the operator does not reach a master", Unknown, PhaseFailed, "Wait", "is reached by other nodes",
			on("a-1-0", func(n *Node) {
				*n = Node{Pod: "a-1-0", UID: "u", Shard: 1, Running: true, Problem: "no answer within 2s"}
			})),
		row("the replica of a lost master never had its data", SlotsLost, PhaseFailed, "Wait", `accept-data-loss: "`+idOf("a-1-0"), lost(time.Hour, "a-1-0"), fresh),
		row("the replica of a lost master has not copied all data", SlotsLost, "", "Wait", "bring a-1-0 back with its data", lost(time.Hour, "a-1-0"), syncing("a-1-1")),
		row("the whole shard is down", SlotsLost, PhaseFailed, "Wait", "slots 5461-10921: owner a-1-0", lost(time.Hour, "a-1-0", "a-1-1")),
		row("a master restarted without its data", Complete, "", "Failover FORCE a-1-1", "restarted without its data and kept slots", restarted("a-1-0", 0), late),
		row("a master restarted without its data before its start was recorded", Complete, "", "Failover FORCE a-1-1", "restarted without its data and kept slots", restarted("a-1-0", 0), late, promotedBack("")),
		row("a master restarted without its data, and its replica has the data of a foreign node", Complete, "", "Wait", "a-1-1", restarted("a-1-0", 0), late, promotedBack("stranger")),
		row("a master and its replica are empty and in sync", Complete, "", "", "", keys("a-1-0", 0), keys("a-1-1", 0)),
		row("the majority is lost, containers start again", MajorityLost, PhaseFailed, "Wait", "waits 35s", lost(30*time.Second, "a-1-0", "a-2-0")),
		row("the majority is lost for long", MajorityLost, "", "Failover TAKEOVER a-1-1", "without a vote", lost(time.Minute, "a-1-0", "a-2-0")),
		row("the majority is cut off and may serve", MajorityLost, "", "Wait", "only when the container of the lost master does not run", lost(time.Hour, "a-1-0", "a-2-0"), runs("a-2-0")),
		row("nothing is reached", Unknown, PhaseFailed, "Wait", "no pod could be reached", each(func(n *Node) { n.Reached = false })),
		row("all volumes are lost", SlotsLost, PhaseFailed, "Wait", `no pod has the data of the recorded cluster: put the former volumes back`, allRenewed),
		row("all volumes are lost, and a pod is not reached", Unknown, PhaseFailed, "Wait", "no pod could be reached: a-1-0", allRenewed, lost(time.Hour, "a-1-0")),
	})
}

// Losses that need a user's consent are repaired only after the user has given it.
func TestConsent(t *testing.T) {
	shard := lost(time.Hour, "a-1-0", "a-1-1")
	accepts := func(s *scene) { s.record.Accepted = SlotSet{{5461, 10921}} }
	drops := func(s *scene) { delete(s.record.Nodes, "a-1-0") }
	twice := func(n *Node) { n.self().Owned = n.self().Owned.Union(SlotSet{{100, 100}}) }
	holdAll(t, []expectation{
		row("consent after the loss of all volumes", SlotsLost, "", "Record", "as members", allRenewed, consent("0-16383")),
		row("consent to a part after the loss of all volumes", SlotsLost, "", "Record", "slots 0-5460 was accepted", allRenewed, consent("0-5460")),
		row("consent to the other part after the loss of all volumes", SlotsLost, "", "Record", "as members", allRenewed, consent("5461-16383"), func(s *scene) { s.record.Accepted = SlotSet{{0, 5460}} }),
		row("consent that was used before the loss of all volumes", SlotsLost, "", "Wait", `accept-data-loss: "0-16383"`, allRenewed, consent("0-16383"), used("0-16383")),
		row("consent by id", SlotsLost, "", "Record", "slots 5461-10921 was accepted", shard, consent(idOf("a-1-0"))),
		row("consent by slots", SlotsLost, "", "Record", "slots 5461-10921 was accepted", shard, consent("5000-11000")),
		row("consent by some of the slots", SlotsLost, "", "Wait", "", shard, consent("5461-6000")),
		row("consent by all ranges of a shard", SlotsLost, "", "Record", "slots 5461-6000,7000-10921 was accepted", ranges, consent("5461-6000", "7000-10921")),
		row("consent by some ranges of a shard", SlotsLost, "", "Wait", "", ranges, consent("5461-6000")),
		row("consent by ranges of which one was used before", SlotsLost, "", "Wait", "", ranges, consent("5461-6000", "7000-10921"), used("7000-10921")),
		row("a consent while nothing is lost covers no later loss", Complete, "", "Record", "which values of accept-data-loss were used", consent("5461-10921")),
		row("a consent to the loss of a running node covers no later loss", Complete, "", "Record", "which values of accept-data-loss were used", consent(idOf("a-1-0"))),
		row("a used consent has no effect", Complete, "", "", "", consent("5461-10921"), used("5461-10921")),
		row("slots without an owner, in many ranges: the message has a value for the annotation", SlotsLost, "", "Wait", `accept-data-loss: "0,2,4,6,8,10,12,14,16,18,20"`,
			func(s *scene) { s.give("a-0-0", AllSlots().Minus(even).Intersect(SlotSet{{0, 5460}})) }),
		row("a node that was given up and is back drops its slots", Complete, "", "DropSlots a-1-1", "", givenUp, on("a-1-1", func(n *Node) { n.self().Owned = SlotSet{{5461, 10921}} })),
		row("a node that was given up and is back keeps its data: the consent was used", Complete, "", "Wait", "was used already: remove the annotation first", givenUp),
		row("a node that was given up is a member if it is back before another node owns its slots", Complete, "", "", "", func(s *scene) { s.record.GivenUp = []string{idOf("a-1-0")} }),
		row("a consent by the id of another node", SlotsLost, "", "Wait", "", shard, consent(idOf("a-2-0"))),
		row("a consent by slots that was used before", SlotsLost, "", "Wait", "", shard, consent("5000-11000"), used("5000-11000")),
		row("a recorded consent: the lost node is forgotten", SlotsLost, "", "Forget CONSENT", "", shard, accepts, drops),
		row("a recorded consent: an empty replica takes over", SlotsLost, "", "Failover TAKEOVER a-1-1", "", lost(time.Hour, "a-1-0"), accepts, drops,
			on("a-1-1", func(n *Node) { n.Keys, n.Replication.Offset = 0, 0 })),
		row("a forgotten node: its slots are assigned", SlotsLost, "", "AddSlots a-1-0", "assign slots 5461-10921", accepted),
		row("slots whose loss was not accepted are not assigned", SlotsLost, "", "Wait", "5461-10921 have no owner", accepted, func(s *scene) { s.record.Accepted = nil }),
		row("the accepted slots are owned again", Complete, "", "Record", "owned again", accepts),
		row("data of another cluster", Complete, "", "Wait", "is not of this cluster", foreign),
		row("data of another cluster, given up", Complete, "", "Flush CONSENT a-1-1", "", foreign, func(s *scene) { s.wanted.Consent = []string{s.node("a-1-1").ID} }),
		row("a copied volume", Inconsistent, PhaseFailed, "Wait", "one volume is a copy of the other", func(s *scene) { copied(s.node("a-1-1"), *s.node("a-1-0")) }),
		row("two shards own a slot", Inconsistent, PhaseFailed, "Wait", "slots 100 are owned by", on("a-2-0", twice)),
		row("an empty replica was elected, and its master has the data", Inconsistent, "", "Wait", "0 keys", promoted("a-1-1", "a-1-0", false), keys("a-1-1", 0)),
		row("a master has not heard of its successor", Healing, "", "Wait", "do not agree yet", promoted("a-1-1", "a-1-0", false)),
	})
}

// closedSince restarts a-1-0 like doubtful, and a-1-0 accepts no replica. used is the time since the last mark of the
// volume of a-1-0, seen the time since the mark that a-1-1 has noted.
func closedSince(keys int64, used, seen time.Duration) edit {
	return func(s *scene) {
		s.doubtful(keys)
		n := s.node("a-1-0")
		n.Closed, n.Used = true, sceneNow.Add(-used)
		sawMark("a-1-1", "a-1-0", seen)(s)
	}
}

// sawMark notes a mark of a pod's volume on another pod. since is the time since that mark; 0: the pod has noted no mark.
func sawMark(pod, of string, since time.Duration) edit {
	return on(pod, func(n *Node) {
		if n.Seen = nil; since > 0 {
			n.Seen = map[string]time.Time{idOf(of): sceneNow.Add(-since)}
		}
	})
}

// copied makes a pod's node a copy of another pod's node.
func copied(n *Node, other Node) { other.Pod, other.Ordinal = n.Pod, n.Ordinal; *n = other }

// accepted restarts the pods of a shard as new nodes without data, after a user has accepted the loss of the shard's
// data.
func accepted(s *scene) {
	for _, change := range []edit{lost(time.Hour, "a-1-0", "a-1-1"), renewed("a-1-0", "a-1-1")} {
		change(s)
	}
	s.record.Nodes["a-1-0"], s.record.Nodes["a-1-1"] = s.node("a-1-0").ID, s.node("a-1-1").ID
	for i := range s.nodes {
		for j := range s.nodes {
			if i != j && (s.nodes[i].Shard == 1 || s.nodes[j].Shard == 1) {
				forgetIn(&s.nodes[i], idOf(s.nodes[j].Pod))
				e := *s.nodes[j].self()
				e.Myself, e.IP, e.Connected = false, s.nodes[j].IP, true
				s.nodes[i].View = append(s.nodes[i].View, e)
			}
		}
	}
	n, m := s.node("a-1-1"), s.node("a-1-0")
	s.everywhere(n.ID, func(e *Entry) { e.Master, e.Replica, e.MasterID = false, true, m.ID })
	n.Replication = Replication{MasterHost: m.IP, LinkUp: true}
	s.record.Consents, s.record.Accepted = []string{idOf("a-1-0")}, SlotSet{{5461, 10921}}
	s.wanted.Consent = s.record.Consents
}

// foreign replaces a replica with a node of another cluster, with its data.
func foreign(s *scene) {
	s.lose("a-1-1", time.Hour)
	s.renew("a-1-1")
	n := s.node("a-1-1")
	n.Keys = 7
	n.View = append(n.View, Entry{ID: strings.Repeat("d", 40), IP: "127.5.8.9", Master: true, Connected: true})
	unknown("a-1-1")(s)
}

// even is a set of slots of which no two are adjacent.
var even = NewSlotSet(Range{0, 0}, Range{2, 2}, Range{4, 4}, Range{6, 6}, Range{8, 8}, Range{10, 10}, Range{12, 12}, Range{14, 14}, Range{16, 16}, Range{18, 18}, Range{20, 20})

// ranges makes a scene in which a shard with two ranges of slots is lost.
func ranges(s *scene) {
	s.give("a-0-0", SlotSet{{0, 5460}, {6001, 6999}})
	s.give("a-1-0", SlotSet{{5461, 6000}, {7000, 10921}})
	lost(time.Hour, "a-1-0", "a-1-1")(s)
}

// givenUp restarts a-1-1 with old data, after a user gave up the node's data and all members forgot the node.
func givenUp(s *scene) {
	const id = "dddddddddddddddddddddddddddddddddddddddd"
	unknown("a-1-1")(s)
	n := s.node("a-1-1")
	delete(s.record.Nodes, "a-1-1")
	n.ID, n.Keys, n.Replication = id, 7, Replication{Master: true}
	n.View = []Entry{{ID: id, Myself: true, Master: true, Connected: true}, *s.node("a-0-0").self()}
	n.View[1].Myself = false
	s.record.GivenUp, s.wanted.Consent, s.record.Consents = []string{id}, []string{id}, []string{id}
}

// A replica replaces a lost master without a user's consent only in two cases (see candidate). (1) The replica's data
// belongs to the recorded history of the shard, and the link to the master lasted until the loss. (2) The master's
// data is lost, and all other pods of the shard were reached.
func TestProofsOfHistory(t *testing.T) {
	gone, again, unreached := lost(time.Hour, "a-1-0"), restarted("a-1-1", 3), everywhere("a-1-0", func(e *Entry) { e.IP, e.NoAddress, e.Fail = "", true, false })
	strange := on("a-1-1", func(n *Node) { n.Replication.ID = "history-a-0-0" })
	down := func(d time.Duration) edit {
		return on("a-1-1", func(n *Node) { n.Replication.LinkUp, n.Replication.LinkDown = false, d })
	}
	noHistory := func(s *scene) { delete(s.record.Histories, 1) }
	waits := func(name, says string, edits ...edit) expectation {
		return row(name, SlotsLost, PhaseFailed, "Wait", says, append([]edit{gone}, edits...)...)
	}
	// third adds a third pod to shard 1.
	third := func(s *scene) {
		s.wanted.Shards[1], s.record.Shards[1] = 3, 3
		s.add(1, 2)
		s.follow("a-1-2", "a-1-0")
	}
	older := sees("a-1-0", "a-1-0", func(e *Entry) { e.Epoch = 1 })
	absent := func(s *scene) {
		s.wanted.Shards[1] = 3
		s.nodes = append(s.nodes, Node{Pod: "a-1-2", Shard: 1, Ordinal: 2, Problem: "connection refused"})
	}
	holdAll(t, []expectation{
		waits("the replica copied a foreign node, and is linked to that node", "its keys may be of another master", strange, on("a-1-1", func(n *Node) { n.Replication.LinkUp = true })),
		waits("the replica copied a foreign node, and no view has the master's address", "may be of another master", strange, unreached),
		waits("the replica was cut off for hours when its master was lost", "was out of sync for 2h0m0s", on("a-1-1", func(n *Node) { n.Replication.LinkDown = 3 * time.Hour })),
		waits("the replica restarted, and its master was lost before the replica had copied", "restarted since it was in sync", again),
		row("the master runs, but does not answer", Unknown, "", "Wait", "restarted since it was in sync", gone, again, runs("a-1-0")),
		waits("a majority is lost, and the replicas restarted", "restarted since it was in sync", lost(time.Hour, "a-2-0"), again, restarted("a-2-1", 3)),
		waits("the record names no history", "may be of another master", noHistory),
		row("the master's volume is lost, and the replica restarted", Healing, "", "Failover FORCE a-1-1", "", gone, again, renewed("a-1-0")),
		row("the master's volume is lost, but another pod may have more data", SlotsLost, "", "Record", "restarted since it was in sync", absent, gone, again, renewed("a-1-0")),
		row("the master's volume is lost, and the replica copied a foreign node", SlotsLost, "", "Record", "may be of another master", gone, strange, renewed("a-1-0")),
		waits("a record that is older than the master", "restarted since it was in sync", again, func(s *scene) { s.record.Nodes["a-1-0"] = strings.Repeat("9", 40) }),
		row("the replica continues the recorded history after its master was promoted", Healing, "", "Failover FORCE a-1-1", "", gone,
			on("a-1-1", func(n *Node) { n.Replication.ID, n.Replication.FormerID = "history-next", "history-a-1-0" })),
		row("clients deleted all keys of the master", Complete, PhaseFailed, "Wait", "a-1-1 has no link", keys("a-1-0", 0), again),
		// Redis begins a new history for a master that has had no replica for a while.
		row("clients deleted all keys of the master, which had no replica for hours", Complete, "", "Wait", "a-1-1 has no link", keys("a-1-0", 0),
			on("a-1-0", func(n *Node) { n.Replication.ID = "history-after-the-backlog" }), down(2*time.Hour)),
		row("the master restarted without keys, and the replica had been cut off before", Complete, "", "Wait", "a-1-1 has no link", restarted("a-1-0", 0), down(time.Hour)),
		row("master and replica restarted, the master without keys and at another address", Complete, "", "Wait", "The operator changes neither a-1-1 nor its pod", restarted("a-1-0", 0), again, elsewhere("a-1-1")),
		row("the master restarted with one key, at another address", Complete, PhaseFailed, "Wait", "a-1-1 has 7 keys: a-1-0 may have lost data", doubtful(1), elsewhere("a-1-1")),
		row("the master restarted without keys, at another address, and the replica copies data", Complete, "", "Wait", "a-1-1 has 7 keys: a-1-0 may have lost data", doubtful(0), elsewhere("a-1-1"), syncing("a-1-1")),
		row("the master restarted with one key: the doubt is reported although no step is due", Complete, "", "Wait", "a-1-1 has 7 keys: a-1-0 may have lost data", doubtful(1)),
		row("the master restarted with one key, and another history is recorded", Complete, "", "Wait", "a-1-1 has 7 keys: a-1-0 may have lost data", doubtful(1), elsewhere("a-1-1"),
			func(s *scene) {
				s.record.Histories[1] = History{Node: idOf("a-1-0"), Run: "run-before", Repl: "history-before"}
			}),
		row("a restart of the master with all keys raises no doubt", Complete, "", "Replicate a-1-1", "", doubtful(8), elsewhere("a-1-1")),
		row("a restart of the master on an old volume raises a doubt, although no key is missing", Complete, "", "Wait", "storage has put the volume of a-1-0 back", doubtful(8), elsewhere("a-1-1"), older),
		row("a restart on a volume that was last in use before the replica lost its link raises a doubt", Complete, "", "Wait",
			"storage has put the volume of a-1-0 back to an earlier state: it was last in use at 2023-11-14 21:13:20, and a-1-1 has seen it in use at 2023-11-14 22:03:20", closedSince(8, time.Hour, 10*time.Minute)),
		row("a volume that is older by seconds raises a doubt, with as many keys", Complete, "", "Wait", "storage has put the volume of a-1-0 back", closedSince(8, time.Minute, 50*time.Second), keys("a-1-1", 8)),
		row("a later mark that only another master has noted raises a doubt", Complete, "", "Wait", "and a-0-0 has seen it in use at 2023-11-14 22:12:30", closedSince(8, time.Minute, time.Minute), sawMark("a-0-0", "a-1-0", 50*time.Second)),
		row("a note of another node's volume proves nothing", Complete, "", "Replicate a-1-1", "", closedSince(8, time.Hour, 0), sawMark("a-1-1", "a-0-0", time.Minute)),
		row("no node meets a master on an old volume at its new address", DisconnectedIntact, "", "Meet a-0-0", "and 19 more", closedSince(8, time.Hour, 10*time.Minute), readdressed(six...)),
		row("a master on an old volume gets no other replica", Complete, "", "Wait", "storage has put the volume of a-1-0 back", closedSince(8, time.Hour, 10*time.Minute), third, follows("a-1-2", "a-2-0"), keys("a-1-2", 0),
			on("a-1-2", func(n *Node) { n.Replication = Replication{Master: true} }), everywhere("a-1-2", func(e *Entry) { e.Master, e.Replica, e.MasterID = true, false, "" })),
		row("the replica replaces a master on an old volume whose data a user gave up", Complete, "", "Failover FORCE a-1-1", "was given up", closedSince(8, time.Hour, 10*time.Minute), consent(idOf("a-1-0"))),
		row("a replica that was linked until its master stopped may copy, with more keys", Complete, "", "Replicate a-1-1", "let a-1-0 accept its replica a-1-1", closedSince(5, time.Hour, time.Hour)),
		row("a replica that lost its link before its master stopped may copy", Complete, "", "Replicate a-1-1", "", closedSince(5, time.Hour, 2*time.Hour)),
		row("a replica does not copy from a restarted master without keys", Complete, "", "Wait", "a-1-1 has 7 keys: a-1-0 may have lost data", closedSince(0, time.Hour, time.Hour)),
		row("a replica with more keys does not copy if it has noted no mark", Complete, "", "Wait", "a-1-1 has 7 keys: a-1-0 may have lost data", closedSince(5, time.Hour, 0)),
		row("a replica does not copy while a third pod may have more data", Complete, "", "Wait", "a-1-2 has an unknown number", third, closedSince(8, time.Hour, 2*time.Hour), lost(time.Hour, "a-1-2")),
		row("a replica that was linked until its master stopped copies although a third pod is down", Complete, "", "Replicate a-1-1", "", third, closedSince(8, time.Hour, time.Hour), lost(time.Hour, "a-1-2")),
		row("a master on an old volume gets a new epoch when its replica has its data", Complete, "", "BumpEpoch a-1-0", "its volume was put back", restarted("a-1-0", 5), older,
			func(s *scene) { s.node("a-1-1").Replication.ID = s.node("a-1-0").Replication.ID }),
		row("a recorded start of the master with fewer keys raises no doubt", Complete, "", "Replicate a-1-1", "", keys("a-1-0", 1), unlinked("a-1-1"), elsewhere("a-1-1")),
		row("a promotion that continues the replica's history raises no doubt", Complete, "", "Replicate a-1-1", "", doubtful(1), elsewhere("a-1-1"),
			func(s *scene) { s.node("a-1-0").Replication.FormerID = s.node("a-1-1").Replication.ID }),
		row("a user gave up the replica's keys: the replica follows its master", Complete, "", "Replicate a-1-1", "", doubtful(1), elsewhere("a-1-1"), consent(idOf("a-1-1"))),
		row("a user gave up the master's data: the replica replaces the master", Complete, "", "Failover FORCE a-1-1", "the data of a-1-0 was given up", doubtful(1), consent(idOf("a-1-0"))),
		row("a consent that was used gives up nothing", Complete, "", "Wait", "may have lost data", doubtful(1), consent(idOf("a-1-0")), used(idOf("a-1-0"))),
		row("a consent is recorded as used while nothing is lost", Complete, "", "Record", "which values of accept-data-loss were used", consent(idOf("a-1-0"))),
		row("a third pod has what the master and its linked replica lost: the history is not recorded", Complete, "", "Wait", "a-1-2 has 9", doubtful(1), follows("a-1-1", "a-1-0"), third,
			keys("a-1-2", 9), unlinked("a-1-2"), on("a-1-2", func(n *Node) { n.Replication.ID, n.Replication.LinkDown = "history-a-1-0", time.Hour })),
		row("a third pod is not reached after the master's restart: the history is not recorded", Complete, "", "Wait", "a-1-2: connection refused", third, restarted("a-1-0", 1),
			follows("a-1-1", "a-1-0"), lost(time.Hour, "a-1-2")),
		row("a consent to the loss of a healthy member is recorded as used", Complete, "", "Record", "which values of accept-data-loss were used",
			consent(idOf("a-1-0")), lost(time.Hour, "a-2-1")),
		row("a former master keeps its keys while its shard's master has restarted with fewer", Complete, "", "Wait", "may have lost data", promoted("a-1-1", "a-1-0", true), restarted("a-1-1", 1),
			keys("a-1-0", 9)),
		row("a new history is recorded when a replica has it", Complete, "", "Record", "history of the data of shards 1", restarted("a-1-0", 5),
			func(s *scene) { s.node("a-1-1").Replication.ID = s.node("a-1-0").Replication.ID }),
		row("a new history is not recorded before a replica has it", Complete, "", "Wait", "a-1-1 has no link", restarted("a-1-0", 5), unlinked("a-1-1")),
		row("a user consented: the replica takes over with the keys that it has", SlotsLost, "", "Failover TAKEOVER a-1-1", "with the 3 keys that it has", gone, again,
			func(s *scene) { s.record.Accepted = SlotSet{{5461, 10921}} }, func(s *scene) { delete(s.record.Nodes, "a-1-0") }),
	})
}
