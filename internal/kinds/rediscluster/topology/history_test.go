// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"strings"
	"testing"
	"time"
)

// What a replica has to show before it replaces a master that has no say in it.
func TestProofsOfHistory(t *testing.T) {
	waits := func(name, says string, change func(s *scene)) expectation {
		return expectation{name: name, verdict: SlotsLost, phase: PhaseFailed, action: ActionWait, says: says, change: change}
	}
	lost := func(s *scene, change func(r *Node)) {
		s.lose("a-1-0", time.Hour)
		change(s.node("a-1-1"))
	}
	holdAll(t, []expectation{
		waits("it copied a stranger, and is linked to it", "nothing shows that they are of this master", func(s *scene) {
			lost(s, func(r *Node) { r.Replication.ID, r.Replication.LinkUp = "history-a-0-0", true })
		}),
		waits("it copied a stranger, and nobody has an address of its master", "nothing shows", func(s *scene) {
			lost(s, func(r *Node) { r.Replication.ID = "history-a-0-0" })
			s.everywhere(idOf("a-1-0"), func(e *Entry) { e.IP, e.NoAddress, e.Fail = "", true, false })
		}),
		waits("it was cut off for hours when its master was lost", "was out of step for 2h0m0s", func(s *scene) {
			lost(s, func(r *Node) { r.Replication.LinkDown = 3 * time.Hour })
		}),
		waits("it restarted after hours, and its master went before it had copied", "restarted since it was in step", func(s *scene) {
			lost(s, func(*Node) {})
			s.restart("a-1-1", 3)
		}),
		{name: "its master runs and does not answer", verdict: Unknown, action: ActionWait, says: "restarted since it was in step", change: func(s *scene) {
			lost(s, func(*Node) {})
			s.restart("a-1-1", 3)
			s.node("a-1-0").Running = true
		}},
		waits("the same with a majority lost", "restarted since it was in step", func(s *scene) {
			lost(s, func(*Node) {})
			s.lose("a-2-0", time.Hour)
			s.restart("a-1-1", 3)
			s.restart("a-2-1", 3)
		}),
		waits("the record names no history", "nothing shows", func(s *scene) {
			lost(s, func(*Node) {})
			delete(s.record.Histories, 1)
		}),
		{name: "the volume is gone: what is left is better than nothing", verdict: Healing, action: ActionFailover, mode: "FORCE", on: "a-1-1", change: func(s *scene) {
			lost(s, func(*Node) {})
			s.restart("a-1-1", 3)
			s.renew("a-1-0")
		}},
		{name: "the volume is gone, but another pod may have more", verdict: SlotsLost, action: ActionRecord, says: "restarted since it was in step", change: func(s *scene) {
			s.wanted.Shards[1] = 3
			s.nodes = append(s.nodes, Node{Pod: "a-1-2", Shard: 1, Ordinal: 2, Problem: "connection refused"})
			lost(s, func(*Node) {})
			s.restart("a-1-1", 3)
			s.renew("a-1-0")
		}},
		{name: "the volume is gone, and the replica copied a stranger", verdict: SlotsLost, action: ActionRecord, says: "nothing shows", change: func(s *scene) {
			lost(s, func(r *Node) { r.Replication.ID = "history-a-0-0" })
			s.renew("a-1-0")
		}},
		waits("a record that is older than the master", "restarted since it was in step", func(s *scene) {
			lost(s, func(*Node) {})
			s.restart("a-1-1", 3)
			s.record.Nodes["a-1-0"] = strings.Repeat("9", 40)
		}),
		{name: "it continues the history: its master had been promoted meanwhile", verdict: Healing, action: ActionFailover, mode: "FORCE", on: "a-1-1", change: func(s *scene) {
			lost(s, func(r *Node) { r.Replication.ID, r.Replication.FormerID = "history-next", "history-a-1-0" })
		}},
		{name: "its master is empty by right", verdict: Complete, phase: PhaseFailed, action: ActionWait, says: "a-1-1 has no link", change: func(s *scene) {
			s.node("a-1-0").Keys = 0
			s.restart("a-1-1", 3)
		}},
		{name: "its master is empty by right for hours, while no replica was there", verdict: Complete, action: ActionWait, says: "a-1-1 has no link", change: func(s *scene) {
			s.node("a-1-0").Keys, s.node("a-1-0").Replication.ID = 0, "history-after-the-backlog" // redis makes a new one without a replica
			s.node("a-1-1").Replication.LinkUp, s.node("a-1-1").Replication.LinkDown = false, 2*time.Hour
		}},
		{name: "its master restarted, and it had been cut off before", verdict: Complete, action: ActionWait, says: "a-1-1 has no link", change: func(s *scene) {
			s.restart("a-1-0", 0)
			s.node("a-1-1").Replication.LinkUp, s.node("a-1-1").Replication.LinkDown = false, time.Hour
		}},
		{name: "both restarted, the master without keys and elsewhere", verdict: Complete, action: ActionWait, says: "a-1-1 is left as it is", change: func(s *scene) {
			s.restart("a-1-0", 0)
			s.restart("a-1-1", 3)
			s.node("a-1-1").Replication.MasterHost = "127.5.9.9"
		}},
		{name: "its master restarted with one key, and elsewhere", verdict: Complete, phase: PhaseFailed, action: ActionWait, says: "a-1-1 has 7: nothing shows", change: func(s *scene) {
			s.doubtful(1)
			s.node("a-1-1").Replication.MasterHost = "127.5.9.9"
		}},
		{name: "the same while it copies from somewhere", verdict: Complete, action: ActionWait, says: "a-1-1 has 7: nothing shows", change: func(s *scene) {
			s.doubtful(0)
			s.node("a-1-1").Replication.MasterHost, s.node("a-1-1").Replication.Syncing = "127.5.9.9", true
		}},
		{name: "the same where it is, named though nothing is to be done", verdict: Complete, action: ActionWait, says: "a-1-1 has 7: nothing shows", change: func(s *scene) {
			s.doubtful(1)
		}},
		{name: "the same with another history recorded", verdict: Complete, action: ActionWait, says: "a-1-1 has 7: nothing shows", change: func(s *scene) {
			s.doubtful(1)
			s.record.Histories[1] = History{Node: idOf("a-1-0"), Run: "run-before", Repl: "history-before"}
			s.node("a-1-1").Replication.MasterHost = "127.5.9.9"
		}},
		{name: "a restart on its own volume is no doubt", verdict: Complete, action: ActionReplicate, on: "a-1-1", change: func(s *scene) {
			s.doubtful(8)
			s.node("a-1-1").Replication.MasterHost = "127.5.9.9"
		}},
		{name: "nor is a start that is the recorded one, with fewer keys by right", verdict: Complete, action: ActionReplicate, on: "a-1-1", change: func(s *scene) {
			s.node("a-1-0").Keys = 1
			s.node("a-1-1").Replication.LinkUp, s.node("a-1-1").Replication.MasterHost = false, "127.5.9.9"
		}},
		{name: "nor is a promotion, which continues the history of the replica", verdict: Complete, action: ActionReplicate, on: "a-1-1", change: func(s *scene) {
			s.doubtful(1)
			s.node("a-1-0").Replication.FormerID = s.node("a-1-1").Replication.ID
			s.node("a-1-1").Replication.MasterHost = "127.5.9.9"
		}},
		{name: "the replica's keys are given up: it is pointed to its master", verdict: Complete, action: ActionReplicate, on: "a-1-1", change: func(s *scene) {
			s.doubtful(1)
			s.node("a-1-1").Replication.MasterHost, s.wanted.Consent = "127.5.9.9", []string{idOf("a-1-1")}
		}},
		{name: "the master's are: the replica takes its place", verdict: Complete, action: ActionFailover, mode: "FORCE", on: "a-1-1", says: "what a-1-0 has was given up", change: func(s *scene) {
			s.doubtful(1)
			s.wanted.Consent = []string{idOf("a-1-0")}
		}},
		{name: "a consent that was used gives up nothing", verdict: Complete, action: ActionWait, says: "nothing shows", change: func(s *scene) {
			s.doubtful(1)
			s.wanted.Consent, s.record.Consents = []string{idOf("a-1-0")}, []string{idOf("a-1-0")}
		}},
		{name: "it is used when all is well", verdict: Complete, action: ActionRecord, says: "which consents count no more", change: func(s *scene) {
			s.wanted.Consent = []string{idOf("a-1-0")}
		}},
		{name: "a third pod has what the master and its linked replica lost: the history is not recorded", verdict: Complete, action: ActionWait, says: "a-1-2 has 9", change: func(s *scene) {
			s.doubtful(1)
			s.follow("a-1-1", "a-1-0")
			s.wanted.Shards[1], s.record.Shards[1] = 3, 3
			s.add(1, 2)
			s.follow("a-1-2", "a-1-0")
			other := s.node("a-1-2")
			other.Keys, other.Replication.LinkUp, other.Replication.ID, other.Replication.LinkDown = 9, false, "history-a-1-0", time.Hour
		}},
		{name: "a third pod is not there to be asked after its master's restart: neither is it", verdict: Complete, action: ActionWait, says: "a-1-2: connection refused", change: func(s *scene) {
			s.wanted.Shards[1], s.record.Shards[1] = 3, 3
			s.add(1, 2)
			s.follow("a-1-2", "a-1-0")
			s.restart("a-1-0", 1)
			s.follow("a-1-1", "a-1-0")
			s.lose("a-1-2", time.Hour)
		}},
		{name: "a consent to the loss of a member that has not lost anything is used before anything else goes wrong", verdict: Complete, action: ActionRecord, says: "which consents count no more", change: func(s *scene) {
			s.wanted.Consent = []string{idOf("a-1-0")}
			s.lose("a-2-1", time.Hour)
		}},
		{name: "a former master keeps its keys while its shard's master has restarted with fewer", verdict: Complete, action: ActionWait, says: "nothing shows", change: func(s *scene) {
			s.promoted("a-1-1", "a-1-0", true)
			s.restart("a-1-1", 1)
			s.node("a-1-0").Keys = 9
		}},
		{name: "a new history is recorded when a replica has it", verdict: Complete, action: ActionRecord, says: "history of the data of shards 1", change: func(s *scene) {
			s.restart("a-1-0", 5)
			s.node("a-1-1").Replication.ID = s.node("a-1-0").Replication.ID
		}},
		{name: "and not before", verdict: Complete, action: ActionWait, says: "a-1-1 has no link", change: func(s *scene) {
			s.restart("a-1-0", 5)
			s.node("a-1-1").Replication.LinkUp = false
		}},
		{name: "consent: it takes over with what it has", verdict: SlotsLost, action: ActionFailover, mode: "TAKEOVER", on: "a-1-1", says: "with the 3 keys that it has", change: func(s *scene) {
			lost(s, func(*Node) {})
			s.restart("a-1-1", 3)
			s.record.Accepted = SlotSet{{5461, 10921}}
			delete(s.record.Nodes, "a-1-0")
		}},
	})
}
