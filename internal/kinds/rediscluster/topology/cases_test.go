// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// expectation is what Decide should say of a scene: the verdict, the phase, the first step ("" is none),
// what its message or the reason contains, and the pod that it acts on.
type expectation struct {
	name    string
	change  func(s *scene)
	verdict Verdict
	phase   string
	action  Action
	mode    string
	on      string
	says    string
}

func (e expectation) hold(t *testing.T) {
	t.Helper()
	s := settled(3)
	e.change(s)
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
	assert.Equal(t, step.Action, e.action, text)
	assert.Equal(t, step.Mode, e.mode, text)
	if e.on != "" {
		assert.Equal(t, step.Node.Pod, e.on, text)
	}
	assert.Assert(t, strings.Contains(text, e.says), "%q is not in: %s", e.says, text)
}

func holdAll(t *testing.T, all []expectation) {
	t.Helper()
	t.Parallel()
	for _, e := range all {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			e.hold(t)
		})
	}
}

// Nodes that do not see each other, and replicas that follow an address of the past.
func TestHealing(t *testing.T) {
	holdAll(t, []expectation{
		{name: "a replica has a new address", verdict: Healing, action: ActionMeet, on: "a-0-0", says: "a-2-1 at 127.7.2.2",
			change: func(s *scene) { s.readdress("a-2-1") }},
		{name: "all have new addresses", verdict: DisconnectedIntact, phase: PhaseFailed, action: ActionMeet, says: "and 29 more",
			change: func(s *scene) { s.readdress("a-0-0", "a-0-1", "a-1-0", "a-1-1", "a-2-0", "a-2-1") }},
		{name: "a replica follows its master's former address", verdict: Complete, phase: PhaseFailed, action: ActionReplicate, on: "a-1-1", says: "127.5.9.9",
			change: func(s *scene) {
				s.node("a-1-1").Replication.MasterHost, s.node("a-1-1").Replication.LinkUp = "127.5.9.9", false
			}},
		{name: "a replica follows a stranger at its master's former address", verdict: Complete, action: ActionReplicate, on: "a-1-1", says: "127.5.9.9",
			change: func(s *scene) { s.node("a-1-1").Replication.MasterHost = "127.5.9.9" }},
		{name: "a replica has no link yet", verdict: Complete, phase: PhaseFailed, action: ActionWait, says: "a-1-1 has no link",
			change: func(s *scene) { s.node("a-1-1").Replication.LinkUp = false }},
		{name: "a replica is down", verdict: Complete, phase: PhaseFailed, action: ActionWait, says: "a-1-1: connection refused",
			change: func(s *scene) { s.lose("a-1-1", time.Minute) }},
		{name: "a replica lost its volume", verdict: Complete, action: ActionForget, says: "gone and owns nothing",
			change: func(s *scene) { s.lose("a-1-1", time.Minute); s.renew("a-1-1") }},
		{name: "its former self is forgotten", verdict: Complete, action: ActionRecord, says: "record a-1-1",
			change: func(s *scene) {
				s.lose("a-1-1", time.Minute)
				s.renew("a-1-1")
				for i := range s.nodes {
					forgetIn(&s.nodes[i], idOf("a-1-1"))
				}
			}},
		{name: "a view that missed a move, and never learns of it", verdict: Healing, action: ActionBumpEpoch, on: "a-0-0", says: "have a-1-1 believe that slots 100 are a-0-0's",
			change: func(s *scene) {
				n := s.node("a-1-1")
				n.sees(idOf("a-0-0")).Owned = n.sees(idOf("a-0-0")).Owned.Minus(SlotSet{{100, 100}})
				n.sees(idOf("a-2-0")).Owned = n.sees(idOf("a-2-0")).Owned.Union(SlotSet{{100, 100}})
			}},
		{name: "a view that missed a move, and will learn of it", verdict: Healing, action: ActionWait, says: "do not agree yet",
			change: func(s *scene) {
				n := s.node("a-1-1")
				n.sees(idOf("a-2-0")).Owned = n.sees(idOf("a-2-0")).Owned.Minus(SlotSet{{16000, 16000}})
				n.sees(idOf("a-0-0")).Owned = n.sees(idOf("a-0-0")).Owned.Union(SlotSet{{16000, 16000}})
			}},
		{name: "a ghost no pod has is forgotten where it came back", verdict: Complete, action: ActionForget, says: "forget node",
			change: func(s *scene) {
				ghost := Entry{ID: strings.Repeat("c", 40), IP: "127.5.8.8", Master: true, Fail: true}
				s.node("a-2-0").View = append(s.node("a-2-0").View, ghost)
			}},
		{name: "a follower of a ghost keeps it", verdict: Complete, action: ActionReplicate, on: "a-2-1",
			change: func(s *scene) {
				ghost := Entry{ID: strings.Repeat("c", 40), IP: "127.5.8.8", Master: true, Fail: true}
				s.node("a-2-1").View = append(s.node("a-2-1").View, ghost)
				s.everywhere(idOf("a-2-1"), func(e *Entry) { e.MasterID = ghost.ID })
			}},
	})
}

func forgetIn(n *Node, id string) {
	var view []Entry
	for _, e := range n.View {
		if e.ID != id {
			view = append(view, e)
		}
	}
	n.View = view
}

// Masters that are lost, and what may take their place.
func TestLostMasters(t *testing.T) {
	holdAll(t, []expectation{
		{name: "not noticed yet", verdict: Healing, phase: PhaseFailed, action: ActionWait, says: "a-1-1 to be elected",
			change: func(s *scene) { s.lose("a-1-0", time.Second) }},
		{name: "failed, an election is due", verdict: Healing, phase: PhaseFailed, action: ActionWait, says: "a-1-1 to be elected",
			change: func(s *scene) { s.lose("a-1-0", 15*time.Second) }},
		{name: "no election for longer than it takes, and its replica was in step", verdict: Healing, action: ActionFailover, mode: "FORCE", on: "a-1-1",
			change: func(s *scene) { s.lose("a-1-0", 30*time.Second) }},
		{name: "it does not come back", verdict: Healing, action: ActionFailover, mode: "FORCE", on: "a-1-1", says: "slots 5461-10921",
			change: func(s *scene) { s.lose("a-1-0", 2*time.Minute) }},
		{name: "another cluster's node has its address", verdict: Healing, action: ActionFailover, mode: "FORCE", on: "a-1-1",
			change: func(s *scene) {
				s.lose("a-1-0", 30*time.Second)
				s.everywhere(idOf("a-1-0"), func(e *Entry) { e.IP, e.NoAddress, e.Fail = "", true, false })
			}},
		{name: "it hangs, and its replica never had its data", verdict: Unknown, phase: PhaseFailed, action: ActionWait, says: "look at its logs",
			change: func(s *scene) {
				s.lose("a-1-0", time.Hour)
				s.node("a-1-0").Running = true
				s.node("a-1-1").Keys, s.node("a-1-1").Replication.Offset = 0, 1
			}},
		{name: "its data is lost and its pod is not", verdict: Healing, action: ActionDeletePod, on: "a-1-0", says: "would copy an empty node",
			change: func(s *scene) { s.lose("a-1-0", time.Second); s.node("a-1-0").LostData = true }},
		{name: "its volume is lost", verdict: Healing, action: ActionFailover, mode: "FORCE", on: "a-1-1",
			change: func(s *scene) { s.lose("a-1-0", 30*time.Second); s.renew("a-1-0") }},
		{name: "it loads its data", verdict: Healing, action: ActionWait, says: "a-1-0 loads its data",
			change: func(s *scene) {
				s.lose("a-1-0", time.Hour)
				s.node("a-1-0").Running, s.node("a-1-0").Loading = true, true
			}},
		{name: "only the operator does not reach it", verdict: Unknown, phase: PhaseFailed, action: ActionWait, says: "is reached by other nodes",
			change: func(s *scene) {
				*s.node("a-1-0") = Node{Pod: "a-1-0", UID: "u", Shard: 1, Running: true, Problem: "no answer within 2s"}
			}},
		{name: "its replica never had its data", verdict: SlotsLost, phase: PhaseFailed, action: ActionWait, says: `accept-data-loss: "` + idOf("a-1-0"),
			change: func(s *scene) {
				s.lose("a-1-0", time.Hour)
				s.node("a-1-1").Keys, s.node("a-1-1").Replication.Offset = 0, 1
			}},
		{name: "its replica is being copied to", verdict: SlotsLost, action: ActionWait, says: "bring its pod back with its data",
			change: func(s *scene) { s.lose("a-1-0", time.Hour); s.node("a-1-1").Replication.Syncing = true }},
		{name: "the whole shard is down", verdict: SlotsLost, phase: PhaseFailed, action: ActionWait, says: "slots 5461-10921: owner a-1-0",
			change: func(s *scene) { s.lose("a-1-0", time.Hour); s.lose("a-1-1", time.Hour) }},
		{name: "it restarted without its data", verdict: Complete, action: ActionFailover, mode: "FORCE", on: "a-1-1", says: "restarted without its data and kept slots",
			change: func(s *scene) {
				s.restart("a-1-0", 0)
				s.node("a-1-1").Replication.LinkUp, s.node("a-1-1").Replication.LinkDown = false, 2*time.Second
			}},
		{name: "it is empty and in step", verdict: Complete, action: "",
			change: func(s *scene) { s.node("a-1-0").Keys = 0; s.node("a-1-1").Keys = 0 }},
		{name: "the majority is lost, containers start again", verdict: MajorityLost, phase: PhaseFailed, action: ActionWait, says: "waits 35s",
			change: func(s *scene) { s.lose("a-1-0", 30*time.Second); s.lose("a-2-0", 30*time.Second) }},
		{name: "the majority is lost for long", verdict: MajorityLost, action: ActionFailover, mode: "TAKEOVER", on: "a-1-1", says: "without a vote",
			change: func(s *scene) { s.lose("a-1-0", time.Minute); s.lose("a-2-0", time.Minute) }},
		{name: "the majority is cut off and may serve", verdict: MajorityLost, action: ActionWait, says: "only when that container does not run",
			change: func(s *scene) { s.lose("a-1-0", time.Hour); s.lose("a-2-0", time.Hour); s.node("a-2-0").Running = true }},
		{name: "nothing is reached", verdict: Unknown, phase: PhaseFailed, action: ActionWait, says: "no pod could be reached",
			change: func(s *scene) {
				for i := range s.nodes {
					s.nodes[i].Reached = false
				}
			}},
	})
}

// What only a person can decide.
func TestConsent(t *testing.T) {
	lost := func(s *scene) { s.lose("a-1-0", time.Hour); s.lose("a-1-1", time.Hour) }
	accepted := func(s *scene) {
		lost(s)
		s.renew("a-1-0")
		s.renew("a-1-1")
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
		s.follow2("a-1-1", "a-1-0")
		s.record.Consents, s.record.Accepted = []string{idOf("a-1-0")}, SlotSet{{5461, 10921}}
		s.wanted.Consent = s.record.Consents
	}
	holdAll(t, []expectation{
		{name: "by id", verdict: SlotsLost, action: ActionRecord, says: "slots 5461-10921 was accepted",
			change: func(s *scene) { lost(s); s.wanted.Consent = []string{idOf("a-1-0")} }},
		{name: "by slots", verdict: SlotsLost, action: ActionRecord, says: "slots 5461-10921 was accepted",
			change: func(s *scene) { lost(s); s.wanted.Consent = []string{"5000-11000"} }},
		{name: "by some of the slots", verdict: SlotsLost, action: ActionWait,
			change: func(s *scene) { lost(s); s.wanted.Consent = []string{"5461-6000"} }},
		{name: "by all of its ranges", verdict: SlotsLost, action: ActionRecord, says: "slots 5461-6000,7000-10921 was accepted",
			change: func(s *scene) { ranges(s); s.wanted.Consent = []string{"5461-6000", "7000-10921"} }},
		{name: "by some of its ranges", verdict: SlotsLost, action: ActionWait,
			change: func(s *scene) { ranges(s); s.wanted.Consent = []string{"5461-6000"} }},
		{name: "by ranges of which one was acted upon before", verdict: SlotsLost, action: ActionWait,
			change: func(s *scene) {
				ranges(s)
				s.wanted.Consent, s.record.Consents = []string{"5461-6000", "7000-10921"}, []string{"7000-10921"}
			}},
		{name: "while nothing is lost: it covers no later loss", verdict: Complete, action: ActionRecord, says: "which consents count no more",
			change: func(s *scene) { s.wanted.Consent = []string{"5461-10921"} }},
		{name: "to the loss of a node that lives: neither does it", verdict: Complete, action: ActionRecord, says: "which consents count no more",
			change: func(s *scene) { s.wanted.Consent = []string{idOf("a-1-0")} }},
		{name: "that counts no more", verdict: Complete, action: "",
			change: func(s *scene) { s.wanted.Consent, s.record.Consents = []string{"5461-10921"}, []string{"5461-10921"} }},
		{name: "to slots without an owner, in many ranges: the advice can be pasted", verdict: SlotsLost, action: ActionWait, says: `accept-data-loss: "0,2,4,6,8,10,12,14,16,18,20"`,
			change: func(s *scene) { s.give("a-0-0", AllSlots().Minus(even).Intersect(SlotSet{{0, 5460}})) }},
		{name: "a node that was given up and is back drops its slots", verdict: Complete, action: ActionDropSlots, on: "a-1-1",
			change: func(s *scene) { givenUp(s); s.node("a-1-1").self().Owned = SlotSet{{5461, 10921}} }},
		{name: "its data stays: the consent was used", verdict: Complete, action: ActionWait, says: "was used: remove it first",
			change: func(s *scene) { givenUp(s) }},
		{name: "one that is back before another owns its slots is a member", verdict: Complete, action: "",
			change: func(s *scene) { s.record.GivenUp = []string{idOf("a-1-0")} }},
		{name: "of another node", verdict: SlotsLost, action: ActionWait,
			change: func(s *scene) { lost(s); s.wanted.Consent = []string{idOf("a-2-0")} }},
		{name: "that was acted upon before", verdict: SlotsLost, action: ActionWait,
			change: func(s *scene) {
				lost(s)
				s.wanted.Consent, s.record.Consents = []string{"5000-11000"}, []string{"5000-11000"}
			}},
		{name: "recorded: forget", verdict: SlotsLost, action: ActionForget, mode: ModeConsent,
			change: func(s *scene) { lost(s); s.record.Accepted = SlotSet{{5461, 10921}}; delete(s.record.Nodes, "a-1-0") }},
		{name: "recorded: an empty replica takes over", verdict: SlotsLost, action: ActionFailover, mode: "TAKEOVER", on: "a-1-1",
			change: func(s *scene) {
				s.lose("a-1-0", time.Hour)
				s.node("a-1-1").Keys, s.node("a-1-1").Replication.Offset = 0, 0
				s.record.Accepted = SlotSet{{5461, 10921}}
				delete(s.record.Nodes, "a-1-0")
			}},
		{name: "forgotten: assign", verdict: SlotsLost, action: ActionAddSlots, on: "a-1-0", says: "assign slots 5461-10921", change: accepted},
		{name: "not accepted: do not assign", verdict: SlotsLost, action: ActionWait, says: "5461-10921 have no owner",
			change: func(s *scene) { accepted(s); s.record.Accepted = nil }},
		{name: "done", verdict: Complete, action: ActionRecord, says: "owned again",
			change: func(s *scene) { s.record.Accepted = SlotSet{{5461, 10921}} }},
		{name: "data of another cluster", verdict: Complete, action: ActionWait, says: "is not of this cluster",
			change: func(s *scene) { foreign(s) }},
		{name: "data of another cluster, given up", verdict: Complete, action: ActionFlush, mode: ModeConsent, on: "a-1-1",
			change: func(s *scene) { foreign(s); s.wanted.Consent = []string{s.node("a-1-1").ID} }},
		{name: "a copied volume", verdict: Inconsistent, phase: PhaseFailed, action: ActionWait, says: "one volume is a copy of the other",
			change: func(s *scene) {
				n := *s.node("a-1-0")
				n.Pod, n.Ordinal = "a-1-1", 1
				*s.node("a-1-1") = n
			}},
		{name: "two shards own a slot", verdict: Inconsistent, phase: PhaseFailed, action: ActionWait, says: "slots 100 are owned by",
			change: func(s *scene) { s.node("a-2-0").self().Owned = s.node("a-2-0").self().Owned.Union(SlotSet{{100, 100}}) }},
		{name: "an empty replica was elected, and its master has the data", verdict: Inconsistent, action: ActionWait, says: "0 keys",
			change: func(s *scene) { s.promoted("a-1-1", "a-1-0", false); s.node("a-1-1").Keys = 0 }},
		{name: "a master has not heard of its successor", verdict: Healing, action: ActionWait, says: "do not agree yet",
			change: func(s *scene) { s.promoted("a-1-1", "a-1-0", false) }},
	})
}

// foreign puts a node of another cluster, with its data, into a replica's place.
func foreign(s *scene) {
	s.lose("a-1-1", time.Hour)
	s.renew("a-1-1")
	n := s.node("a-1-1")
	n.Keys = 7
	n.View = append(n.View, Entry{ID: strings.Repeat("d", 40), IP: "127.5.8.9", Master: true, Connected: true})
	for i := range s.nodes {
		forgetIn(&s.nodes[i], idOf("a-1-1"))
	}
}

// follow2 is follow for nodes that were renewed.
func (s *scene) follow2(pod, master string) {
	n, m := s.node(pod), s.node(master)
	s.everywhere(n.ID, func(e *Entry) { e.Master, e.Replica, e.MasterID = false, true, m.ID })
	n.Replication = Replication{MasterHost: m.IP, LinkUp: true}
}

// even are some slots that do not touch each other.
var even = NewSlotSet(Range{0, 0}, Range{2, 2}, Range{4, 4}, Range{6, 6}, Range{8, 8}, Range{10, 10}, Range{12, 12}, Range{14, 14}, Range{16, 16}, Range{18, 18}, Range{20, 20})

// ranges has the lost shard own slots in two ranges.
func ranges(s *scene) {
	s.give("a-0-0", SlotSet{{0, 5460}, {6001, 6999}})
	s.give("a-1-0", SlotSet{{5461, 6000}, {7000, 10921}})
	s.lose("a-1-0", time.Hour)
	s.lose("a-1-1", time.Hour)
}

// givenUp has a-1-1 come back, which was given up, forgotten, and has data of the past.
func givenUp(s *scene) {
	const id = "dddddddddddddddddddddddddddddddddddddddd"
	s.forgotten("a-1-1")
	n := s.node("a-1-1")
	delete(s.record.Nodes, "a-1-1")
	n.ID, n.Keys, n.Replication = id, 7, Replication{Master: true}
	n.View = []Entry{{ID: id, Myself: true, Master: true, Connected: true}, *s.node("a-0-0").self()}
	n.View[1].Myself = false
	s.record.GivenUp, s.wanted.Consent, s.record.Consents = []string{id}, []string{id}, []string{id}
}
