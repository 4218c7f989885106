// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// scene is an observation to change: a cluster at rest, two pods a shard, ordinal 0 the master.
type scene struct {
	wanted Wanted
	record Record
	nodes  []Node
}

var sceneNow = time.UnixMilli(1.7e12)

func idOf(pod string) string {
	var shard, ordinal int
	_, _ = fmt.Sscanf(pod, "a-%d-%d", &shard, &ordinal)
	return fmt.Sprintf("%040x", 0xa000+shard*16+ordinal)
}

func settled(shards int) *scene {
	s := &scene{wanted: Wanted{Generation: 1, NodeTimeout: 5 * time.Second}, record: Record{Formed: true, Nodes: map[string]string{}}}
	for i := range shards {
		s.wanted.Shards = append(s.wanted.Shards, 2)
		s.record.Shards = append(s.record.Shards, 2)
		for j := range 2 {
			s.add(i, j)
		}
		s.give(fmt.Sprintf("a-%d-0", i), SlotSet{{i * Slots / shards, (i+1)*Slots/shards - 1}})
		s.follow(fmt.Sprintf("a-%d-1", i), fmt.Sprintf("a-%d-0", i))
	}
	s.record.Histories = map[int]History{}
	for i := range shards {
		m := s.node(fmt.Sprintf("a-%d-0", i))
		s.record.Histories[i] = History{Node: m.ID, Run: m.RunID, Repl: m.Replication.ID}
	}
	return s
}

// add adds a member that all see, an empty master.
func (s *scene) add(shard, ordinal int) {
	pod := fmt.Sprintf("a-%d-%d", shard, ordinal)
	n := Node{Pod: pod, UID: "uid-" + pod, Host: fmt.Sprintf("host-%d", (shard+ordinal)%3), Shard: shard, Ordinal: ordinal,
		IP: fmt.Sprintf("127.5.%d.%d", shard, ordinal+1), Running: true, Ready: true, Reached: true, ID: idOf(pod), RunID: "run-" + pod, Uptime: time.Hour,
		StateOK: true, At: sceneNow}
	entry := Entry{ID: n.ID, IP: n.IP, Port: 6379, BusPort: 16379, Master: true, Connected: true, Epoch: uint64(len(s.nodes) + 1), PongReceived: sceneNow}
	for i := range s.nodes {
		n.View = append(n.View, *s.nodes[i].self())
		n.View[i].Myself = false
		s.nodes[i].View = append(s.nodes[i].View, entry)
	}
	entry.Myself = true
	n.View = append(n.View, entry)
	n.Replication.Master, n.Replication.ID = true, "history-"+pod
	s.nodes = append(s.nodes, n)
	s.record.Nodes[pod] = n.ID
}

func (s *scene) node(pod string) *Node {
	i := slices.IndexFunc(s.nodes, func(n Node) bool { return n.Pod == pod })
	return &s.nodes[i]
}

// everywhere changes what all nodes see of one.
func (s *scene) everywhere(id string, change func(*Entry)) {
	for i := range s.nodes {
		if e := s.nodes[i].sees(id); e != nil {
			change(e)
		}
	}
}

func (s *scene) give(pod string, slots SlotSet) {
	s.everywhere(idOf(pod), func(e *Entry) { e.Owned = slots })
	s.node(pod).Keys, s.node(pod).Replication.Offset = int64(slots.Len()), 1000
}

func (s *scene) follow(pod, master string) {
	s.everywhere(idOf(pod), func(e *Entry) { e.Master, e.Replica, e.MasterID, e.Owned = false, true, idOf(master), nil })
	n, m := s.node(pod), s.node(master)
	n.Keys = m.Keys
	n.Replication = Replication{MasterHost: m.IP, MasterPort: 6379, LinkUp: true, Offset: m.Replication.Offset, ID: m.Replication.ID}
}

// restart has a pod's server start again, on its data or on none: it is of a history of its own then.
func (s *scene) restart(pod string, keys int64) {
	n := s.node(pod)
	n.RunID, n.Uptime, n.Keys = "run-2-"+pod, time.Second, keys
	n.Replication.ID, n.Replication.FormerID, n.Replication.Offset = "history-2-"+pod, "", 0
	if n.self().Replica {
		n.Replication.LinkUp, n.Replication.LinkDown = false, NeverLinked
	}
}

// doubtful has a-1-0 restart with so many keys, of which no history is recorded, while its replica a-1-1 has 7 and no link.
func (s *scene) doubtful(keys int64) {
	s.restart("a-1-0", keys)
	s.node("a-1-0").Uptime = time.Hour
	delete(s.record.Histories, 1)
	replica := s.node("a-1-1")
	replica.Keys, replica.Replication.LinkUp, replica.Replication.LinkDown = 7, false, time.Hour
}

// lose has nobody reach a pod for some time.
func (s *scene) lose(pod string, silence time.Duration) {
	n := s.node(pod)
	*n = Node{Pod: n.Pod, UID: n.UID, Host: n.Host, Shard: n.Shard, Ordinal: n.Ordinal, Problem: "connection refused"}
	s.everywhere(idOf(pod), func(e *Entry) {
		e.Fail, e.Connected, e.PongReceived = silence > 5*time.Second, false, sceneNow.Add(-silence)
	})
	for i := range s.nodes {
		if r := &s.nodes[i]; r.Reached && r.self() != nil && r.self().MasterID == idOf(pod) {
			r.Replication.LinkUp, r.Replication.LinkDown = false, silence
		}
	}
}

// renew puts an empty node in a pod's place.
func (s *scene) renew(pod string) {
	n := s.node(pod)
	id := fmt.Sprintf("%040x", 0xb000+n.Shard*16+n.Ordinal)
	n.IP, n.Running, n.Reached, n.ID, n.At, n.Problem, n.Keys = fmt.Sprintf("127.6.%d.%d", n.Shard, n.Ordinal+1), true, true, id, sceneNow, "", 0
	n.View = []Entry{{ID: id, Myself: true, Master: true, Connected: true}}
	n.Replication, n.RunID, n.Uptime = Replication{Master: true, ID: "history-new-" + pod}, "run-new-"+pod, time.Second
}

// move gives a pod another address that nobody has heard of.
func (s *scene) readdress(pods ...string) {
	for _, pod := range pods {
		s.node(pod).IP = "127.7" + s.node(pod).IP[len("127.5"):]
	}
	for i := range s.nodes {
		for j := range s.nodes {
			if y := &s.nodes[j]; i != j && s.nodes[i].sees(y.ID) != nil && slices.Contains(pods, y.Pod) {
				s.nodes[i].sees(y.ID).Connected = false
				s.nodes[i].sees(y.ID).Fail = true
			}
		}
	}
	for i := range s.nodes {
		s.nodes[i].StateOK = len(pods) < len(s.nodes)
		s.nodes[i].self().IP = s.nodes[i].IP
	}
}

// promoted has a replica take its master's place; the master may not have heard of it.
func (s *scene) promoted(replica, master string, heard bool) {
	slots := s.node(master).self().Owned
	for i := range s.nodes {
		n := &s.nodes[i]
		if !heard && n.Pod == master {
			continue
		}
		if e := n.sees(idOf(replica)); e != nil {
			e.Master, e.Replica, e.MasterID, e.Owned, e.Epoch = true, false, "", slots, 99
		}
		if e := n.sees(idOf(master)); e != nil {
			e.Owned = nil
		}
	}
	n := s.node(replica)
	s.record.Histories[n.Shard] = History{Node: n.ID, Run: n.RunID, Repl: "history-" + replica}
	n.Replication = Replication{Master: true, Offset: 1000, ID: "history-" + replica, FormerID: n.Replication.ID}
}

// open marks a slot on a node, which has some keys of it.
func (s *scene) open(pod string, slot int, importing string, migrating string) {
	e := s.node(pod).self()
	if importing != "" {
		e.Importing = map[int]string{slot: idOf(importing)}
	}
	if migrating != "" {
		e.Migrating = map[int]string{slot: idOf(migrating)}
	}
}

func (s *scene) slotKeys(slot int, keys map[string]int64) {
	for i := range s.nodes {
		if n := &s.nodes[i]; n.Reached && n.self() != nil && n.self().Master {
			n.SlotKeys = map[int]int64{slot: keys[n.Pod]}
		}
	}
}

func (s *scene) decide() Decision { return Decide(s.wanted, s.record, s.nodes) }

func TestSettled(t *testing.T) {
	t.Parallel()
	for shards := 3; shards < 9; shards++ {
		d := settled(shards).decide()
		assert.Equal(t, d.Model.Verdict, Complete, d.Model.Reason)
		assert.Equal(t, d.Model.Phase, PhaseRunning)
		assert.Equal(t, len(d.Steps), 0, "%v", d.Steps)
		assert.Equal(t, d.LookAgain, atRest)
	}
}
