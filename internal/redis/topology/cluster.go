// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"slices"
	"sort"
)

// cluster holds the facts that are computed once in a pass. Its nodes are copies of the observed nodes.
type cluster struct {
	wanted Wanted
	record Record

	nodes   []*Node          // every pod, by shard and ordinal
	members []*Node          // reached nodes that belong to the cluster
	byID    map[string]*Node // members by id
	podOf   map[string]string
	pods    map[string]*Node // by name

	followersOf map[string][]*Node    // by the id of their master, from each member's own report
	sightings   map[string][]sighting // by the id of a node that is not a member
	position    map[string]int        // index in members, by id
	heard       map[string]uint64     // by the id of a member: its newest config epoch as a master, in any view

	owned    map[string]SlotSet // by node id: the slots that it owns, from all views
	unowned  SlotSet            // slots for which no view names an owner
	disputed []dispute
	shards   []*shard
	open     []openSlot

	servedSlots SlotSet
	doubts      map[string]string // by the id of a replica: the reason why its master may have lost data of the replica
	notes       []string          // shown to users; they block nothing
	waits       []string          // causes that block a requested change
	failing     []string          // causes of steps that are skipped because they failed
	refused     string            // reasons why a requested change is refused
}

// sighting is one member's view of a node.
type sighting struct {
	by    *Node
	entry *Entry
}

// shard holds the pods of one StatefulSet and the slots that they own together.
type shard struct {
	ordinal int
	nodes   []*Node
	master  *Node // the member with the most slots of the shard, then with the most replicas
	owned   SlotSet
}

// dispute holds slots that two members claim, each in its own line.
type dispute struct {
	winner, loser *Node // by config epoch
	slots         SlotSet
}

func newCluster(wanted Wanted, record Record, nodes []Node) *cluster {
	if wanted.Parked {
		wanted.Shards = shape(record, nodes) // until the pods stop, the cluster keeps its recorded shards
	}
	c := &cluster{wanted: wanted, record: record, podOf: map[string]string{}, pods: map[string]*Node{}, byID: map[string]*Node{}}
	for pod, id := range record.Nodes {
		c.podOf[id] = pod
	}
	for _, n := range nodes {
		if n.Shard < 0 || n.Shard >= Slots {
			continue // no StatefulSet has that number
		}
		if self := n.self(); n.Reached && (self == nil || self.ID != n.ID) {
			n.Reached, n.Problem = false, "its answers contradict each other"
		}
		n.View = SelfFirst(n.View)
		c.nodes = append(c.nodes, &n)
		c.pods[n.Pod] = &n
	}
	slices.SortFunc(c.nodes, func(a, b *Node) int {
		return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Ordinal, b.Ordinal), cmp.Compare(a.Pod, b.Pod))
	})
	for _, n := range c.nodes {
		if n.Reached && c.byID[n.ID] == nil && c.belongs(n) {
			c.members = append(c.members, n)
			c.byID[n.ID] = n
		}
	}
	c.index()
	c.findOwners()
	c.findShards()
	c.findOpen()
	return c
}

// SelfFirst returns a view with the node's own line first, so that Decide finds it immediately. It does not change view.
func SelfFirst(view []Entry) []Entry {
	at := slices.IndexFunc(view, func(e Entry) bool { return e.Myself })
	if at <= 0 {
		return view
	}
	view = slices.Clone(view)
	view[0], view[at] = view[at], view[0]
	return view
}

// index goes through the views of all members once. The views of 1,000 members have a million lines.
func (c *cluster) index() {
	c.followersOf, c.sightings, c.position = map[string][]*Node{}, map[string][]sighting{}, map[string]int{}
	c.heard = map[string]uint64{}
	for i, m := range c.members {
		c.position[m.ID] = i
		if id := m.self().MasterID; id != "" {
			c.followersOf[id] = append(c.followersOf[id], m)
		}
		for j := range m.View {
			e := &m.View[j]
			if c.byID[e.ID] == nil {
				c.sightings[e.ID] = append(c.sightings[e.ID], sighting{m, e})
			} else if e.Master && !e.Handshake && e.Epoch > c.heard[e.ID] {
				c.heard[e.ID] = e.Epoch
			}
		}
	}
}

// unseen returns the members that x does not see. x sees a member if passes accepts the line of x's view about that
// member.
func (c *cluster) unseen(x *Node, passes func(e *Entry, y *Node) bool) []*Node {
	seen, count := make([]bool, len(c.members)), 0
	for i := range x.View {
		e := &x.View[i]
		if at, known := c.position[e.ID]; known && !seen[at] && e.ID != x.ID && passes(e, c.members[at]) {
			seen[at] = true
			count++
		}
	}
	if count == len(c.members)-1 {
		return nil
	}
	var rest []*Node
	for at, y := range c.members {
		if y != x && !seen[at] {
			rest = append(rest, y)
		}
	}
	return rest
}

// belongs reports whether a reached node is part of this cluster. The record decides. If the record does not contain
// the node yet, the node belongs if the view of a recorded node contains it. While the record is empty, or pods get a
// backup, every node belongs.
func (c *cluster) belongs(n *Node) bool {
	if c.isReplaced(n) {
		return false
	}
	if len(c.record.Nodes) == 0 || c.podOf[n.ID] != "" || c.isRestoring() {
		return true
	}
	for _, other := range c.nodes {
		if e := other.sees(n.ID); other.Reached && c.podOf[other.ID] != "" && e != nil && !e.Handshake {
			return true
		}
	}
	return false
}

// isReplaced reports whether a user gave up a node's data, and the node claims slots that a recorded node owns.
func (c *cluster) isReplaced(n *Node) bool {
	return slices.Contains(c.record.GivenUp, n.ID) && slices.ContainsFunc(c.nodes, func(other *Node) bool {
		return other.Reached && other.ID != n.ID && c.podOf[other.ID] != "" && len(other.self().Owned.Intersect(n.self().Owned)) > 0
	})
}

// findOwners computes the owner of each slot. A member's claim for itself takes precedence over the views of other
// members. Among claims, the highest config epoch wins, as in Redis.
func (c *cluster) findOwners() {
	type claim struct {
		id    string
		epoch uint64
		slots SlotSet
	}
	var own, told []claim
	for _, n := range c.members {
		if self := n.self(); self.Master && len(self.Owned) > 0 {
			own = append(own, claim{n.ID, self.Epoch, self.Owned})
		}
	}
	for id, all := range c.sightings {
		for _, s := range all {
			if len(s.entry.Owned) > 0 {
				told = append(told, claim{id, s.entry.Epoch, s.entry.Owned})
			}
		}
	}
	byEpoch := func(a, b claim) int {
		return cmp.Or(cmp.Compare(b.epoch, a.epoch), cmp.Compare(a.id, b.id), cmp.Compare(b.slots.Len(), a.slots.Len()))
	}
	slices.SortStableFunc(own, byEpoch)
	slices.SortStableFunc(told, byEpoch)
	c.owned = map[string]SlotSet{}
	c.unowned = AllSlots()
	for i, one := range own {
		for _, other := range own[:i] {
			if both := one.slots.Intersect(other.slots); len(both) > 0 {
				c.disputed = append(c.disputed, dispute{c.byID[other.id], c.byID[one.id], both})
			}
		}
	}
	for _, one := range append(own, told...) {
		if got := one.slots.Intersect(c.unowned); len(got) > 0 {
			c.owned[one.id] = c.owned[one.id].Union(got)
			c.unowned = c.unowned.Minus(got)
		}
	}
}

// findShards groups nodes and slots by StatefulSet. Slots of a dead owner belong to the shard of the owner's pod, or to the shard of its
// replicas.
func (c *cluster) findShards() {
	size := max(len(c.wanted.Shards), len(c.record.Shards))
	for _, n := range c.nodes {
		size = max(size, n.Shard+1)
	}
	for i := range size {
		c.shards = append(c.shards, &shard{ordinal: i})
	}
	for _, n := range c.nodes {
		s := c.shards[n.Shard]
		s.nodes = append(s.nodes, n)
	}
	for _, id := range sortedKeys(c.owned) {
		if s := c.shardOf(id); s != nil {
			s.owned = s.owned.Union(c.owned[id])
		}
	}
	for _, s := range c.shards {
		s.master = c.masterOf(s)
	}
}

func (c *cluster) masterOf(s *shard) *Node {
	var best *Node
	rank := func(n *Node) int { return c.owned[n.ID].Len()<<16 + c.followers(n.ID) }
	for _, n := range s.nodes {
		if !c.member(n) || !n.self().Master {
			continue
		}
		if best == nil || rank(n) > rank(best) {
			best = n
		}
	}
	// A master without slots does not count while replicas of the shard's dead owner can be promoted.
	if best != nil && len(c.owned[best.ID]) == 0 && len(s.owned) > 0 {
		return nil
	}
	return best
}

// shardOf returns the shard of a node, reached or not, as shown by the record or by a replica of the node. Without
// either, it returns nil.
func (c *cluster) shardOf(id string) *shard {
	if n := c.byID[id]; n != nil {
		return c.shards[n.Shard]
	}
	if n := c.pods[c.podOf[id]]; n != nil {
		return c.shards[n.Shard]
	}
	for _, n := range c.followersOf[id] {
		return c.shards[n.Shard]
	}
	return nil
}

func (c *cluster) member(n *Node) bool { return n != nil && n.Reached && c.byID[n.ID] == n }

// followers returns the number of members that replicate a node, by their own reports.
func (c *cluster) followers(id string) int {
	return len(c.followersOf[id])
}

// replicas returns the members that replicate a node, by their own reports.
func (c *cluster) replicas(id string) []*Node {
	return c.followersOf[id]
}

// inStep reports whether a replica is linked to its master, at the master's present address, and has the master's data.
func (c *cluster) inStep(n *Node) bool {
	master := c.byID[n.self().MasterID]
	return c.member(n) && master != nil && !n.Terminating && n.Replication.LinkUp && !n.Replication.Syncing &&
		!n.Replication.Master && n.Replication.MasterHost == master.IP && n.Replication.ID == master.Replication.ID && n.Replication.Offset >= master.Replication.Offset-maxLag
}

// maxLag is the number of bytes by which a replica in sync may lag behind its master. Master and replica are not read
// at the same moment, and a busy master writes that many bytes in between.
const maxLag = 16 << 20

// wants reports whether the spec includes a pod.
func (c *cluster) wants(n *Node) bool {
	return n.Shard < len(c.wanted.Shards) && n.Ordinal < c.wanted.Shards[n.Shard]
}

// hasReplicas reports whether a shard should have a replica, according to the spec or, while the shard is being removed, to the record.
func (c *cluster) hasReplicas(s *shard) bool {
	switch {
	case s.ordinal < len(c.wanted.Shards):
		return c.wanted.Shards[s.ordinal] > 1
	case s.ordinal < len(c.record.Shards):
		return c.record.Shards[s.ordinal] > 1
	}
	return true
}

// needs reports whether a pod may become a member. The pod must be wanted, or belong to a shard that is being removed and still owns slots:
// without a replica, that shard could never move its slots.
func (c *cluster) needs(n *Node) bool {
	return c.wants(n) || n.Shard >= len(c.wanted.Shards) && len(c.shards[n.Shard].owned) > 0
}

// masters returns the members that own slots.
func (c *cluster) masters() []*Node {
	var all []*Node
	for _, n := range c.members {
		if len(c.owned[n.ID]) > 0 {
			all = append(all, n)
		}
	}
	return all
}

// self returns a node's line about itself, or nil.
func (n *Node) self() *Entry {
	for i := range n.View {
		if n.View[i].Myself {
			return &n.View[i]
		}
	}
	return nil
}

// sees returns a node's view of another node, or nil.
func (n *Node) sees(id string) *Entry {
	for i := range n.View {
		if n.View[i].ID == id {
			return &n.View[i]
		}
	}
	return nil
}

// blank reports whether a node never belonged to a cluster: its view contains only the node itself, and it has no slots and no keys.
func (n *Node) blank() bool {
	return len(n.View) == 1 && len(n.self().Owned) == 0 && n.Keys == 0 && n.self().Master
}

func (n *Node) place() Place { return Place{Pod: n.Pod, UID: n.UID, IP: n.IP, ID: n.ID} }

func places(nodes []*Node) []Place {
	all := make([]Place, 0, len(nodes))
	for _, n := range nodes {
		all = append(all, n.place())
	}
	return all
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(i, j int) bool { return keys[i] < keys[j] })
	return keys
}
