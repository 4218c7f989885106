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

// scene is an observation for tests to modify. At first, the cluster is settled, with two pods per shard. Ordinal 0 is
// the master.
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

// add adds a member, an empty master that all members see.
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

// everywhere changes the entry of a node in all views.
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

// restart restarts a pod's server with the given number of keys. The restart creates a new history.
func (s *scene) restart(pod string, keys int64) {
	n := s.node(pod)
	n.RunID, n.Uptime, n.Keys = "run-2-"+pod, time.Second, keys
	n.Replication.ID, n.Replication.FormerID, n.Replication.Offset = "history-2-"+pod, "", 0
	if n.self().Replica {
		n.Replication.LinkUp, n.Replication.LinkDown = false, NeverLinked
	}
}

// doubtful makes a-1-0 restart with a number of keys and without a recorded history, while its replica a-1-1 has 7 keys and no link.
func (s *scene) doubtful(keys int64) {
	s.restart("a-1-0", keys)
	s.node("a-1-0").Uptime = time.Hour
	delete(s.record.Histories, 1)
	replica := s.node("a-1-1")
	replica.Keys, replica.Replication.LinkUp, replica.Replication.LinkDown = 7, false, time.Hour
}

// lose makes a pod unreachable for the operator and for all nodes. silence is the time since a node last heard from the pod.
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

// renew replaces a pod's node with an empty one.
func (s *scene) renew(pod string) {
	n := s.node(pod)
	id := fmt.Sprintf("%040x", 0xb000+n.Shard*16+n.Ordinal)
	n.IP, n.Running, n.Reached, n.ID, n.At, n.Problem, n.Keys = fmt.Sprintf("127.6.%d.%d", n.Shard, n.Ordinal+1), true, true, id, sceneNow, "", 0
	n.View = []Entry{{ID: id, Myself: true, Master: true, Connected: true}}
	n.Replication, n.RunID, n.Uptime = Replication{Master: true, ID: "history-new-" + pod}, "run-new-"+pod, time.Second
}

// readdress gives pods new addresses that are in no view yet.
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

// promoted makes a replica replace its master. heard reports whether the master has learned of the promotion.
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

// open marks a slot on a pod's node as importing from the pod importing, or as migrating to the pod migrating, unless the name is empty.
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

// edit changes a scene.
type edit = func(*scene)

// six are the pods of a scene of three shards.
var six = []string{"a-0-0", "a-0-1", "a-1-0", "a-1-1", "a-2-0", "a-2-1"}

// each returns an edit of all nodes; on, of one node; onAll, of several nodes.
func each(change func(*Node)) edit {
	return func(s *scene) {
		for i := range s.nodes {
			change(&s.nodes[i])
		}
	}
}

func on(pod string, change func(*Node)) edit { return func(s *scene) { change(s.node(pod)) } }

func onAll(pods []string, change func(*Node)) edit {
	return func(s *scene) {
		for _, pod := range pods {
			change(s.node(pod))
		}
	}
}

func lost(silence time.Duration, pods ...string) edit {
	return func(s *scene) {
		for _, pod := range pods {
			s.lose(pod, silence)
		}
	}
}

func renewed(pods ...string) edit {
	return func(s *scene) {
		for _, pod := range pods {
			s.renew(pod)
		}
	}
}

// allRenewed replaces every node by an empty one: all claims were deleted.
func allRenewed(s *scene) {
	for i := range s.nodes {
		s.renew(s.nodes[i].Pod)
	}
}

func outdated(pods ...string) edit { return onAll(pods, func(n *Node) { n.Outdated = true }) }
func unlinked(pod string) edit     { return on(pod, func(n *Node) { n.Replication.LinkUp = false }) }
func syncing(pod string) edit      { return on(pod, func(n *Node) { n.Replication.Syncing = true }) }
func elsewhere(pod string) edit {
	return on(pod, func(n *Node) { n.Replication.MasterHost = "127.5.9.9" })
}
func closed(pod string) edit        { return on(pod, func(n *Node) { n.Closed = true }) }
func runs(pod string) edit          { return on(pod, func(n *Node) { n.Running = true }) }
func keys(pod string, n int64) edit { return on(pod, func(node *Node) { node.Keys = n }) }

func readdressed(pods ...string) edit       { return func(s *scene) { s.readdress(pods...) } }
func restarted(pod string, keys int64) edit { return func(s *scene) { s.restart(pod, keys) } }
func doubtful(keys int64) edit              { return func(s *scene) { s.doubtful(keys) } }
func follows(pod, master string) edit       { return func(s *scene) { s.follow(pod, master) } }
func wants(shards ...int) edit              { return func(s *scene) { s.wanted.Shards = shards } }
func consent(values ...string) edit         { return func(s *scene) { s.wanted.Consent = values } }
func used(values ...string) edit            { return func(s *scene) { s.record.Consents = values } }
func knows(pod string, e Entry) edit        { return on(pod, func(n *Node) { n.View = append(n.View, e) }) }
func slotKeys(keys map[string]int64) edit   { return func(s *scene) { s.slotKeys(100, keys) } }
func importing(pod, from string) edit       { return func(s *scene) { s.open(pod, 100, from, "") } }
func migrating(pod, to string) edit         { return func(s *scene) { s.open(pod, 100, "", to) } }
func promoted(r, master string, heard bool) edit {
	return func(s *scene) { s.promoted(r, master, heard) }
}

// everywhere changes the entry of a pod's node in all views. sees changes the entry in one view.
func everywhere(pod string, change func(*Entry)) edit {
	return func(s *scene) { s.everywhere(idOf(pod), change) }
}

func sees(viewer, of string, change func(*Entry)) edit {
	return func(s *scene) { change(s.node(viewer).sees(idOf(of))) }
}

// unknown removes nodes from all other views.
func unknown(pods ...string) edit {
	return func(s *scene) {
		for _, pod := range pods {
			for i := range s.nodes {
				if s.nodes[i].Pod != pod {
					forgetIn(&s.nodes[i], idOf(pod))
				}
			}
		}
	}
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
