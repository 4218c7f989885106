// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// alone makes a scene of three shards without replicas.
func alone(s *scene) {
	*s = scene{wanted: Wanted{Generation: 1, NodeTimeout: 5 * time.Second}, record: Record{Formed: true, Nodes: map[string]string{}}}
	for i := range 3 {
		s.wanted.Shards, s.record.Shards = append(s.wanted.Shards, 1), append(s.record.Shards, 1)
		s.add(i, 0)
		s.give(fmt.Sprintf("a-%d-0", i), SlotSet{{i * Slots / 3, (i+1)*Slots/3 - 1}})
	}
}

// Shards without replicas are changed and repaired like other shards.
func TestWithoutReplicas(t *testing.T) {
	fewer := func(s *scene) { s.wanted.Shards = []int{1, 1, 1} }
	unsaved := on("a-1-0", func(n *Node) { n.Unsaved, n.Refuses = true, "it cannot write its append-only file" })
	all := []string{"a-0-0", "a-1-0", "a-2-0"}
	restarts := func(used, seen time.Duration) edit {
		return func(s *scene) {
			alone(s)
			s.restart("a-1-0", 5461)
			s.node("a-1-0").Closed, s.node("a-1-0").Used = true, sceneNow.Add(-used)
			sawMark("a-0-0", "a-1-0", seen)(s)
		}
	}
	holdAll(t, []expectation{
		row("at rest", Complete, PhaseRunning, "", "", alone),
		row("all restarted, and another master has noted the last mark", Complete, PhaseRunning, "", "", restarts(time.Minute, time.Minute)),
		row("all restarted, and another master has noted nothing", Complete, PhaseRunning, "", "", restarts(time.Minute, 0)),
		row("storage has reset a volume to an earlier state", SlotsLost, PhaseFailed, "Wait", `storage has put the volume of a-1-0 back to an earlier state: it was last in use at 2023-11-14 22:12:20, and a-0-0 has seen it in use at 2023-11-14 22:12:40. `+
			`No other pod has the newer data: restore the newer volume and delete the pod, or annotate accept-data-loss: "keep:`+idOf("a-1-0")+`" to go on with the 5461 keys of a-1-0`, restarts(time.Minute, 40*time.Second)),
		row("a master whose volume was reset gets no new replica", SlotsLost, PhaseFailed, "Wait", "put the volume of a-1-0 back", restarts(time.Minute, 40*time.Second), wants(1, 2, 1), func(s *scene) { s.add(1, 1) }),
		row("a user accepts the loss of the newer data", Complete, "", "Admit a-1-0", "go on with the 5461 keys", restarts(time.Minute, 40*time.Second), consent("keep:"+idOf("a-1-0"))),
		row("a consent that was used accepts nothing", SlotsLost, "", "Wait", "put the volume of a-1-0 back", restarts(time.Minute, 40*time.Second), consent(idOf("a-1-0")), used(idOf("a-1-0"))),
		row("the loss was accepted: the consent is used", Complete, "", "Record", "which values", alone, consent(idOf("a-1-0"))),
		row("a pod does not run: the operator waits for it", Returning, PhaseFailed, "Wait", "served again when the owner is back with its data", alone, lost(time.Hour, "a-1-0")),
		row("no pod runs", Returning, PhaseFailed, "Wait", "no pod runs", alone, lost(time.Hour, all...)),
		row("a pod runs, but does not answer", Unknown, PhaseFailed, "Wait", "neither the operator nor the other nodes reach it", alone, lost(time.Hour, "a-1-0"), runs("a-1-0")),
		row("a pod lost its volume", SlotsLost, PhaseFailed, "Record", `accept-data-loss: "`+idOf("a-1-0"), alone, lost(time.Hour, "a-1-0"), renewed("a-1-0")),
		row("a user consents to the loss of a pod that does not run", Returning, "", "Record", "was accepted", alone, lost(time.Hour, "a-1-0"), consent(idOf("a-1-0"))),
		row("a consent to the loss of another pod has no effect", Returning, "", "Wait", "served again", alone, lost(time.Hour, "a-1-0"), consent(idOf("a-2-0"))),
		row("pods of an old revision", Complete, PhaseUpgrading, "DeletePod ALONE a-0-0", "not served until it is back", alone, outdated(all...)),
		row("a pod of an old revision cannot write", Complete, PhaseUpgrading, "Wait", "cannot write its append-only file", alone, outdated("a-1-0"), unsaved),
		row("a pod of an old revision does not run", Returning, "", "DeletePod a-1-0", "does not come up", alone, lost(time.Minute, "a-1-0"), outdated("a-1-0")),
		row("a pod of an old revision and a pod of the wanted revision do not run", Returning, "", "Wait", "", alone, lost(time.Minute, "a-1-0", "a-2-0"), outdated("a-1-0")),
		row("one more shard is wanted", Complete, PhaseScaling, "Wait", "waits for shard 3", alone, wants(1, 1, 1, 1)),
		row("one shard less is wanted", Complete, PhaseScaling, "MoveSlots a-2-0", "", alone, wants(1, 1)),
		row("replicas are wanted", Complete, PhaseScaling, "Wait", "shard 0 has 1 of 2 pods", alone, wants(2, 2, 2)),
		row("replicas are not wanted any more", Complete, PhaseScaling, "Forget", "forget a-0-1", fewer),
		row("an unwanted replica has data that its master may have lost", Complete, "", "Wait", "a-1-1 is not removed: its master may lack data that this replica has",
			func(s *scene) { s.wanted.Shards = []int{2, 1, 2} }, doubtful(1)),
		row("a master restarted, and its replica is not up yet", Complete, "", "Wait", "no slot is moved now: a-0-0 has restarted, and a-0-1 has not copied from it since", wants(1),
			restarted("a-0-0", 5461), lost(time.Second, "a-0-1")),
		row("a master restarted with all keys, and its replica is not linked yet", Complete, "", "Forget", "forget a-0-1", wants(1), restarted("a-0-0", 5461), unlinked("a-0-1")),
		row("a replica that is not up yet is not forgotten after its master restarted", Complete, "", "Wait", "a-0-1 is not removed: a-0-0 has restarted", wants(1, 2, 2), restarted("a-0-0", 5461), lost(time.Second, "a-0-1")),
		row("an unwanted replica never comes up after its master restarted", Complete, "", "Wait", `annotate accept-data-loss: "`+idOf("a-0-1"), wants(1, 2, 2), restarted("a-0-0", 5461), lost(time.Hour, "a-0-1"),
			on("a-0-0", func(n *Node) { n.Uptime = time.Hour })),
		row("a user gives up an unwanted replica that never comes up", Complete, "", "Forget", "forget a-0-1", wants(1, 2, 2), restarted("a-0-0", 5461), lost(time.Hour, "a-0-1"), consent(idOf("a-0-1"))),
		row("the replica has become the master", Complete, PhaseScaling, "Forget", "forget a-0-1", fewer, promoted("a-1-1", "a-1-0", true), follows("a-1-0", "a-1-1")),
	})
}

// A member that was reset for its removal has forgotten the other nodes, and refuses to name one of them as the owner
// of a slot. So a move does not send the new owner to this member: otherwise each step would move only one slot.
func TestMoveAsksNoNodeThatWasReset(t *testing.T) {
	t.Parallel()
	s := &scene{}
	alone(s)
	s.add(0, 1)
	unknown("a-0-1")(s)
	self := s.node("a-0-1")
	self.View = self.View[len(self.View)-1:]
	wants(1, 1)(s)
	d := s.decide()
	assert.Equal(t, d.Steps[0].Action, ActionMoveSlots, d.Model.Reason)
	for _, place := range d.Steps[0].On {
		assert.Assert(t, place.Pod != "a-0-1")
	}
}

// A cluster is parked when every server can stop without a loss.
func TestParking(t *testing.T) {
	parking := func(s *scene) { s.wanted.Parked, s.wanted.Shards = true, nil }
	masters := func(s *scene) { s.record.Pods = []int{1, 1, 1} }
	parked := func(s *scene) { s.record.Parked = true }
	gone := func(s *scene) { s.nodes = nil }
	elected := func(s *scene) { s.promoted("a-1-1", "a-1-0", true); s.follow("a-1-0", "a-1-1") }
	single := func(s *scene) {
		*s = scene{wanted: Wanted{Generation: 1, NodeTimeout: 5 * time.Second, Shards: []int{1}}, record: Record{Formed: true, Nodes: map[string]string{}, Shards: []int{1}}}
		s.add(0, 0)
		s.give("a-0-0", AllSlots())
	}
	unformed := func(s *scene) {
		s.record.Formed = false
		for i := range s.nodes {
			s.renew(s.nodes[i].Pod)
			s.record.Nodes[s.nodes[i].Pod] = s.nodes[i].ID
		}
	}
	twice := on("a-2-0", func(n *Node) { n.self().Owned = n.self().Owned.Union(SlotSet{{100, 100}}) })
	holdAll(t, []expectation{
		row("at rest: replicas stop first", Complete, PhaseScaling, "Record", "replicas stop before their masters", parking),
		row("a master is not the first pod of its shard", Complete, PhaseScaling, "Failover a-1-0", "the other pods can stop before it", parking,
			promoted("a-1-1", "a-1-0", true), follows("a-1-0", "a-1-1")),
		row("a master is not the first pod, which does not run", Complete, PhaseScaling, "Record", "replicas stop before", parking,
			promoted("a-1-1", "a-1-0", true), lost(time.Hour, "a-1-0")),
		row("replicas stop", Complete, PhaseScaling, "Wait", "3 replicas have stopped", parking, masters),
		row("replicas have stopped", Complete, PhaseScaling, "Record", "all pods stop", parking, masters, lost(time.Minute, "a-0-1", "a-1-1", "a-2-1")),
		row("pods are wanted again", Complete, "", "Record", "all pods run", masters),
		row("without replicas", Complete, PhaseScaling, "Record", "all pods stop", alone, parking),
		row("the pods stop", Parked, PhaseParked, "Wait", "waits until 6 pods", parking, parked),
		row("no pod is left", Parked, PhaseParked, "", "", parking, parked, gone),
		row("there never was a pod", Parked, PhaseParked, "", "", parking, gone, func(s *scene) { s.record = Record{} }),
		row("the pods start again", Parked, PhaseScaling, "Record", "start again", parked, gone),
		row("a replica is not in sync", Complete, PhaseScaling, "Wait", "a-1-1 is not in sync with its master", parking, unlinked("a-1-1")),
		row("a replica does not run", Complete, PhaseScaling, "Record", "replicas stop before", parking, lost(time.Minute, "a-1-1")),
		row("a server does not answer", Unknown, PhaseFailed, "Wait", "it may be unable to write its data", parking, lost(time.Hour, "a-1-0", "a-1-1"), runs("a-1-0")),
		row("a server cannot write", Complete, PhaseScaling, "Wait", "a-1-0 would lose writes", parking, on("a-1-0", func(n *Node) { n.Unsaved = true })),
		row("a master does not run: its replica may be elected", Healing, "", "Wait", "to be elected", parking, lost(10*time.Second, "a-1-0")),
		row("a shard does not run", SlotsLost, "", "Record", "replicas stop before", parking, lost(time.Hour, "a-1-0", "a-1-1")),
		row("two nodes own a slot", Inconsistent, PhaseFailed, "Wait", "", parking, twice),
		row("a pod of an old revision stays", Complete, PhaseScaling, "Record", "replicas stop before", parking, outdated("a-1-0")),
		row("slots are being moved", Healing, "", "MarkSlot STABLE a-0-0", "", parking, migrating("a-0-0", "a-2-0"), slotKeys(nil)),
		row("a replica became a master, and stopped", SlotsLost, "", "Record", "all pods run: a-1-1 became a master", parking, masters, elected, lost(time.Minute, "a-0-1", "a-1-1", "a-2-1"), restarted("a-1-0", 10)),
		row("a shard without slots has its master last", Complete, PhaseScaling, "Record", "replicas stop before", newShard, parking,
			promoted("a-3-1", "a-3-0", true), follows("a-3-0", "a-3-1")),
		row("a shard without slots has no master", Complete, PhaseScaling, "Record", "replicas stop before", newShard, parking, lost(time.Minute, "a-3-0"), runs("a-3-1")),
		row("the record is lost, and a server does not answer", Unknown, "", "Wait", "a-0-0: connection refused: it may be unable to write", parking, lost(time.Hour, six...), runs("a-0-0"),
			func(s *scene) { s.record = Record{} }),
		row("the record is lost, and no server runs", Unknown, "", "Record", "before the cluster is formed", parking, lost(time.Hour, six...), func(s *scene) { s.record = Record{} }),
		row("the record lacks a server that does not answer", SlotsLost, "", "Wait", "a-0-0: connection refused: it may be unable to write", parking, lost(time.Hour, "a-0-0", "a-0-1"), runs("a-0-0"),
			func(s *scene) { delete(s.record.Nodes, "a-0-0"); delete(s.record.Nodes, "a-0-1") }),
		row("the volume of the only pod is gone", SlotsLost, "", "Wait", `annotate accept-data-loss: "0-16383"`, single, renewed("a-0-0")),
		row("the volume of the only pod is gone, and the loss is accepted", SlotsLost, "", "Record", "record a-0-0 as members", single, renewed("a-0-0"), consent("0-16383")),
		row("all volumes are gone: the pods stop, so that the former volumes can be put back", SlotsLost, "", "Record", "all pods stop", parking, allRenewed),
		row("the new node of the only pod is a member", SlotsLost, "", "SetEpoch", "0-16383 have no owner: annotate accept-data-loss", single, renewed("a-0-0"), func(s *scene) { s.record.Nodes["a-0-0"] = s.node("a-0-0").ID }),
		row("empty pods that never were a cluster", Fresh, "", "Record", "before the cluster is formed", parking, unformed),
	})
}

// newShard makes a scene of three shards with slots, and a new shard without slots.
func newShard(s *scene) {
	s.wanted.Shards, s.record.Shards = []int{2, 2, 2, 2}, []int{2, 2, 2, 2}
	s.add(3, 0)
	s.add(3, 1)
	s.follow("a-3-1", "a-3-0")
}
