// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// Decide accepts every observation, even an inconsistent observation. The order of the nodes does not matter.
func TestDecideIsTotal(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3000) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		s := settled(3 + rnd.IntN(2))
		if len(s.wanted.Shards) == 3 && rnd.IntN(2) == 0 {
			grow(s) // a shard without slots
			for _, pod := range []string{"a-3-0", "a-3-1"} {
				if rnd.IntN(2) == 0 {
					s.lose(pod, time.Hour)
				}
				s.node(pod).Outdated, s.node(pod).Loading = rnd.IntN(2) == 0, rnd.IntN(8) == 0
			}
		}
		for range rnd.IntN(13) {
			s.garble(rnd)
		}
		d := s.decide()
		what := fmt.Sprintf("seed %d: %s, %s, %v", seed, d.Model.Verdict, d.Model.Reason, d.Steps)
		switch {
		case d.Model.Verdict == "" || d.Model.Phase == "" || d.LookAgain <= 0:
			t.Fatalf("no verdict, no phase, or no time of the next pass: %s", what)
		case d.Model.Settled != (len(d.Steps) == 0):
			t.Fatalf("settled: %v, %s", d.Model.Settled, what)
		case d.Model.Verdict != Complete && d.Model.Verdict != Healing && d.Model.Verdict != Parked && d.Model.Reason == "":
			t.Fatalf("no reason: %s", what)
		case d.Model.Phase == PhaseRunning && (!d.Model.Redundant || d.Model.Served < Slots):
			t.Fatalf("Running: %s", what)
		}
		for _, step := range d.Steps {
			if step.Message == "" {
				t.Fatalf("a step has no message: %s", what)
			}
			for _, one := range append([]Step{step}, step.Batch...) {
				if err := sound(one, len(step.Batch) > 0); err != "" {
					t.Fatalf("%s: %s", err, what)
				}
			}
		}
		rnd.Shuffle(len(s.nodes), func(i, j int) { s.nodes[i], s.nodes[j] = s.nodes[j], s.nodes[i] })
		if again := s.decide(); duplicateFree(s.nodes) && !reflect.DeepEqual(again.Steps, d.Steps) {
			t.Fatalf("other steps with the nodes in another order: %v\n%s", again.Steps, what)
		}
	}
}

// duplicateFree reports whether no two nodes have the same pod or place. With duplicates, the order of steps is
// undefined.
func duplicateFree(nodes []Node) bool {
	seen := map[string]bool{}
	for _, n := range nodes {
		for _, key := range []string{n.Pod, n.ID + " id", fmt.Sprint(n.Shard, "/", n.Ordinal)} {
			if seen[key] && key != " id" {
				return false
			}
			seen[key] = true
		}
	}
	return true
}

// sound returns the name of a field that the action of a step needs and the step lacks, or "".
func sound(s Step, batch bool) string {
	needsNode := []Action{ActionSetEpoch, ActionBumpEpoch, ActionMeet, ActionAddSlots, ActionReplicate, ActionReset, ActionFailover, ActionMoveSlots,
		ActionMarkSlot, ActionFlush, ActionFunctions, ActionConfigure, ActionDeletePod}
	needsTarget := []Action{ActionMeet, ActionReplicate, ActionMoveSlots, ActionFunctions}
	needsSlots := []Action{ActionAddSlots, ActionMoveSlots, ActionMarkSlot, ActionAssignSlot}
	switch {
	case batch && len(s.Batch) > 0:
		return ""
	case slices.Contains(needsNode, s.Action) && s.Node.Pod == "":
		return "no node"
	case slices.Contains(needsTarget, s.Action) && (s.Target.Pod == "" || s.Target.IP == "" || s.Target.ID == ""):
		return "no target"
	case slices.Contains(needsTarget, s.Action) && s.Target.ID == s.Node.ID:
		return "Node and Target are the same node"
	case slices.Contains(needsSlots, s.Action) && len(s.Slots) == 0:
		return "no slots"
	case (s.Action == ActionForget || s.Action == ActionAssignSlot) && (s.ID == "" || len(s.On) == 0):
		return "no ID, or no node in On"
	case s.Action == ActionRecord && s.Record == nil:
		return "no record"
	case s.Action == ActionMoveSlots && slices.ContainsFunc(s.On, func(p Place) bool { return p.ID == s.Node.ID || p.ID == s.Target.ID }):
		return "On contains an end of the move"
	}
	return ""
}

// garble makes a random change.
func (s *scene) garble(rnd *rand.Rand) {
	n := &s.nodes[rnd.IntN(len(s.nodes))]
	other := s.nodes[rnd.IntN(len(s.nodes))]
	var e *Entry
	if len(n.View) > 0 {
		e = &n.View[rnd.IntN(len(n.View))]
	} else {
		e = &Entry{}
	}
	slot := rnd.IntN(Slots)
	from := rnd.IntN(Slots)
	changes := []func(){
		func() { s.lose(n.Pod, time.Duration(rnd.IntN(100))*time.Second) },
		func() { n.Reached = !n.Reached },
		func() { n.View = nil },
		func() { n.View = n.View[:rnd.IntN(len(n.View)+1)] },
		func() { s.renew(n.Pod) },
		func() { n.IP = "" },
		func() { n.IP = other.IP },
		func() { n.ID = other.ID },
		func() { e.Owned = SlotSet{{min(slot, from), max(slot, from)}} },
		func() { e.Owned = nil },
		func() { e.MasterID = other.ID },
		func() { e.Master, e.Replica = e.Replica, e.Master },
		func() { e.Epoch = rnd.Uint64N(20) },
		func() { e.Fail = !e.Fail },
		func() { e.NoAddress = !e.NoAddress },
		func() { e.Handshake = !e.Handshake },
		func() { e.ID = fmt.Sprintf("%040x", rnd.IntN(5)) },
		func() { e.IP = other.IP },
		func() { n.Keys = rnd.Int64N(3) },
		func() { n.Replication = other.Replication },
		func() { n.Replication.Offset = rnd.Int64N(3) },
		func() { n.Outdated, n.Terminating = rnd.IntN(2) == 0, rnd.IntN(4) == 0 },
		func() { n.Shard, n.Ordinal = rnd.IntN(7)-1, rnd.IntN(4) },
		func() { n.LostData = true },
		func() { s.record = Record{Formed: rnd.IntN(2) == 0} },
		func() { s.record.Formed = false },
		func() { delete(s.record.Nodes, other.Pod) },
		func() { s.record.Shards = s.record.Shards[:rnd.IntN(len(s.record.Shards)+1)] },
		func() { s.record.Accepted = SlotSet{{min(slot, from), max(slot, from)}} },
		func() { s.wanted.Shards = [][]int{nil, {}, {2}, {2, 2, 2, 2, 2}, {3, 2, 2}, {0, 0, 0}}[rnd.IntN(6)] },
		func() { s.wanted.Assign = []Assignment{{Slots: rnd.IntN(9000), From: []string{other.ID, n.Pod}}} },
		func() { s.wanted.Parked = true },
		func() { s.record.Parked = true },
		func() { s.record.Pods = []int{1, 1, rnd.IntN(3)} },
		func() { s.wanted.Consent = []string{other.ID, "0-16383", "nonsense"} },
		func() {
			s.record.Table = &Table{Targets: map[int]SlotSet{rnd.IntN(9): {{min(slot, from), max(slot, from)}}}}
			s.wanted.Assign = []Assignment{}
		},
		func() {
			if self := n.self(); self != nil {
				self.Migrating = map[int]string{slot: other.ID}
				s.slotKeys(slot, map[string]int64{other.Pod: 1})
			}
		},
		func() {
			if self := n.self(); self != nil {
				self.Importing = map[int]string{slot: other.ID}
			}
		},
	}
	changes[rnd.IntN(len(changes))]()
}

func BenchmarkDecide(b *testing.B) {
	for _, shards := range []int{3, 10, 50} {
		b.Run(fmt.Sprint(shards), func(b *testing.B) {
			s := settled(shards)
			b.ReportAllocs()
			for b.Loop() {
				s.decide()
			}
		})
	}
}

// A pass over 1,000 pods, the maximum of a RedisCluster, takes less than a second on one core. On a busy machine it
// takes longer, so the short form (make test) compares only the verdicts.
func TestDecideScales(t *testing.T) {
	half := func(n *Node) bool { return n.Shard%2 == 1 }
	for name, c := range map[string]struct {
		change func(s *scene)
		want   Verdict
	}{
		"at rest":                  {func(*scene) {}, Complete},
		"one more shard is wanted": {func(s *scene) { s.wanted.Shards = append(s.wanted.Shards, 2) }, Complete},
		"two shards are wanted":    {func(s *scene) { s.wanted.Shards = s.wanted.Shards[:2] }, Complete},
		"half of the shards are down": {func(s *scene) {
			for i := range s.nodes {
				if n := &s.nodes[i]; half(n) {
					*n = Node{Pod: n.Pod, UID: n.UID, Shard: n.Shard, Ordinal: n.Ordinal, Problem: "connection refused"}
				}
			}
		}, Unknown},
		"all have other addresses": {func(s *scene) {
			for i := range s.nodes {
				s.nodes[i].IP = fmt.Sprintf("127.8.%d.%d", i/250, i%250)
			}
		}, Healing},
	} {
		s := large(500)
		c.change(s)
		var best time.Duration
		var d Decision
		for try := 0; try < 3 && (try == 0 || best > time.Second && !testing.Short()); try++ {
			began := cpu(t)
			d = s.decide()
			if took := cpu(t) - began; best == 0 || took < best {
				best = took
			}
		}
		t.Logf("%s: %s, %s, %.80s", name, best, d.Model.Verdict, d.Model.Reason)
		assert.Equal(t, d.Model.Verdict, c.want, name)
		assert.Assert(t, testing.Short() || best < time.Second, "%s: it took %s", name, best)
	}
}

// cpu returns the CPU time of this process on all cores.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	assert.NilError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// large returns a settled scene of many shards. It is faster than settled, because it computes the view once and copies
// it.
func large(shards int) *scene {
	s := &scene{wanted: Wanted{Generation: 1, NodeTimeout: 5 * time.Second}, record: Record{Formed: true, Nodes: map[string]string{}}}
	var view []Entry
	for i := range shards {
		s.wanted.Shards, s.record.Shards = append(s.wanted.Shards, 2), append(s.record.Shards, 2)
		for j := range 2 {
			n := Node{Pod: fmt.Sprintf("a-%d-%d", i, j), Shard: i, Ordinal: j, IP: fmt.Sprintf("127.5.%d.%d", i/100, i%100*2+j), Running: true, Ready: true, Reached: true,
				ID: fmt.Sprintf("%040x", 0xa0000+i*16+j), StateOK: true, At: sceneNow, Keys: 9, Host: fmt.Sprint("host-", (i+j)%2)}
			n.UID, s.record.Nodes[n.Pod] = n.Pod, n.ID
			e := Entry{ID: n.ID, IP: n.IP, Port: 6379, Connected: true, PongReceived: sceneNow, Epoch: uint64(i + 1)}
			n.Replication = Replication{Master: j == 0, Offset: 1000}
			if e.Master = j == 0; e.Master {
				e.Owned = SlotSet{{i * Slots / shards, (i+1)*Slots/shards - 1}}
			} else {
				master := s.nodes[len(s.nodes)-1]
				e.Replica, e.MasterID, n.Replication.LinkUp, n.Replication.MasterHost = true, master.ID, true, master.IP
			}
			view, s.nodes = append(view, e), append(s.nodes, n)
		}
	}
	for i := range s.nodes {
		s.nodes[i].View = slices.Clone(view)
		s.nodes[i].View[i].Myself = true
	}
	return s
}
