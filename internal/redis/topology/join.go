// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

func (c *cluster) copyRecord() *Record {
	r := c.record
	r.Shards, r.Pods = slices.Clone(r.Shards), slices.Clone(r.Pods)
	r.Consents, r.GivenUp = slices.Clone(r.Consents), slices.Clone(r.GivenUp)
	r.Nodes = maps.Clone(r.Nodes)
	r.Histories = maps.Clone(r.Histories)
	if r.Histories == nil {
		r.Histories = map[int]History{}
	}
	if r.Nodes == nil {
		r.Nodes = map[string]string{}
	}
	return &r
}

func (r *Record) accept(values []string, slots SlotSet) {
	for _, value := range values {
		if !slices.Contains(r.Consents, value) {
			r.Consents = append(r.Consents, value)
		}
	}
	r.Accepted = r.Accepted.Union(slots)
}

// remember records a node as a member.
func (r *Record) remember(n *Node) {
	r.Nodes[n.Pod] = n.ID
	r.GivenUp = slices.DeleteFunc(r.GivenUp, func(id string) bool { return id == n.ID })
	for len(r.Shards) <= n.Shard {
		r.Shards = append(r.Shards, 0)
	}
	r.Shards[n.Shard] = max(r.Shards[n.Shard], n.Ordinal+1)
}

func recordStep(r *Record, format string, args ...any) Step {
	return Step{Action: ActionRecord, Record: r, Message: fmt.Sprintf(format, args...)}
}

// joinable reports whether a reached pod may become a member: it is empty, owns no slots, and its view contains only members.
func (c *cluster) joinable(n *Node) bool {
	self := n.self()
	if !self.Master || len(self.Owned) > 0 || n.Keys > 0 {
		return false
	}
	for _, e := range n.View {
		if !e.Myself && !e.Handshake && c.byID[e.ID] == nil && c.podOf[e.ID] == "" {
			return false
		}
	}
	return true
}

// join records new nodes before they meet the cluster, and members that the record lacks.
func (c *cluster) join() []Step {
	if c.isLostWhole() {
		return nil
	}
	record := c.copyRecord()
	var pods []string
	for _, n := range c.nodes {
		if !n.Reached || n.Terminating || c.record.Nodes[n.Pod] == n.ID || !c.member(n) && (!c.needs(n) || !c.joinable(n)) {
			continue
		}
		// An outdated view may still contain a node that was removed and forgotten. That node then counts as a member,
		// but is not recorded again.
		if c.member(n) && !c.wants(n) && c.podOf[n.ID] == "" && len(c.record.Nodes) > 0 {
			continue
		}
		record.remember(n)
		pods = append(pods, n.Pod)
	}
	if len(pods) == 0 {
		return nil
	}
	if !record.Formed && len(c.owned) > 0 {
		record.Formed = true
	}
	return []Step{recordStep(record, "record %s as members", strings.Join(pods, ", "))}
}

// epochs gives each empty node a distinct config epoch before the node meets another node. Otherwise two nodes could later claim slots with
// the same epoch.
func (c *cluster) epochs() []Step {
	var highest uint64
	for _, n := range c.nodes { // nodes that are not members yet also count
		for _, e := range n.View {
			highest = max(highest, e.Epoch)
		}
	}
	var batch []Step
	for _, n := range c.members {
		if !n.blank() || n.self().Epoch != 0 || slices.ContainsFunc(c.members, func(m *Node) bool { return m != n && m.met(n) }) {
			continue
		}
		highest++
		batch = append(batch, Step{Action: ActionSetEpoch, Node: n.place(), Epoch: highest,
			Message: fmt.Sprintf("give %s the config epoch %d", n.Pod, highest)})
	}
	return together(ActionSetEpoch, "give each new node a config epoch", batch)
}

// functions copies functions to new masters, as redis-cli does when it adds a master. Replicas get functions from their master.
func (c *cluster) functions() (steps []Step) {
	var source *Node
	for _, m := range c.masters() {
		if m.Functions != "" {
			source = m
			break
		}
	}
	if source == nil {
		return nil
	}
	for _, s := range c.shards {
		if m := s.master; m != nil && m.Functions == "" && len(c.owned[m.ID]) == 0 && s.ordinal < len(c.wanted.Shards) {
			steps = append(steps, Step{Action: ActionFunctions, Node: source.place(), Target: m.place(), Message: fmt.Sprintf("copy functions from %s to %s", source.Pod, m.Pod)})
		}
	}
	return steps
}

// replicate makes all other members of a shard replicas of the shard's master. Empty nodes come first, all at once. Nodes whose keys are
// outdated copies (stale) come next, one at a time.
func (c *cluster) replicate() []Step {
	empty, rest := c.newReplicas()
	return append(empty, rest...)
}

// replicateEmpty returns the steps of replicate that affect no node with keys.
func (c *cluster) replicateEmpty() []Step {
	empty, _ := c.newReplicas()
	return empty
}

// newReplicas returns the combined step that makes empty nodes replicas, and the steps for nodes with keys.
func (c *cluster) newReplicas() (empty, rest []Step) {
	var batch []Step
	for _, s := range c.shards {
		if s.master == nil || c.isShut(s.master) {
			continue
		}
		for _, n := range s.nodes {
			self := n.self()
			if !c.member(n) || n == s.master || n.Terminating || self.MasterID == s.master.ID ||
				len(c.owned[n.ID]) > 0 || len(c.owned[self.MasterID]) > 0 && c.shardOf(self.MasterID) == s {
				continue
			}
			e := n.sees(s.master.ID)
			if e == nil || !e.Master || !n.connectedTo(s.master) || len(self.Importing)+len(self.Migrating) > 0 {
				continue
			}
			step := Step{Action: ActionReplicate, Node: n.place(), Target: s.master.place(), ID: s.master.ID, Interval: linkInterval, Proof: sameStart(s.master),
				Message: fmt.Sprintf("make %s a replica of %s", n.Pod, s.master.Pod)}
			switch {
			case n.Keys == 0:
				batch = append(batch, step)
			case c.stale(n) && !c.isHeldBack(s.master, n):
				rest = append(rest, c.flushed(n, s.master, step))
			}
		}
	}
	return together(ActionReplicate, "make new nodes replicas", batch), rest
}

// flushed returns the first of the steps that make a node with keys a replica. If the node is a master, the step
// empties it. Otherwise it is the step replicate.
func (c *cluster) flushed(n, master *Node, replicate Step) Step {
	if !n.self().Master {
		return replicate
	}
	return Step{Action: ActionFlush, Node: n.place(), On: places(c.masters()), Target: master.place(), Proof: sameStart(master),
		Message: fmt.Sprintf("empty %s: it owns no slot in any view, and other nodes serve all slots", n.Pod)}
}

// stale reports whether a node's keys are outdated copies. It needs two proofs: neither the node nor its master owns a
// slot in any view, and reached members serve every slot.
func (c *cluster) stale(n *Node) bool {
	if c.servedSlots.Len() < Slots || len(c.unowned) > 0 || len(c.disputed) > 0 || len(c.masters()) < len(c.owned) {
		return false
	}
	for _, m := range c.members {
		for _, e := range m.View {
			if len(e.Owned) > 0 && (e.ID == n.ID || e.ID == n.self().MasterID && c.byID[e.ID] == nil) {
				return false
			}
		}
	}
	for _, o := range c.open {
		if n.SlotKeys[o.slot] > 0 {
			return false
		}
	}
	return true
}
