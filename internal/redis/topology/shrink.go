// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import "fmt"

// shrink removes unwanted pods that own no slots, replicas before masters:
//
//	make another replica the master (only if the shard stays)
//	FORGET: all other nodes forget the node
//	RESET HARD: the node forgets all others
//	lower the recorded number of pods: then Kubernetes removes the pod, or the operator removes the StatefulSet
//
// If a FORGET reached only some nodes, gossip undoes it after a minute, and the operator sends it again.
func (c *cluster) shrink() []Step {
	var masters []*Node
	busy := false
	for _, s := range c.shards {
		for _, n := range s.nodes {
			if c.wants(n) || !n.Reached || n.Shard >= len(c.wanted.Shards) && len(s.owned) > 0 {
				continue
			}
			known := c.knowing(n.ID)
			if len(known) == 0 && len(n.View) == 1 {
				continue // the node was reset, or never joined the cluster
			}
			busy = true
			if n.self().Master {
				masters = append(masters, n)
				continue
			}
			if n.Shard < len(c.wanted.Shards) && !c.stays(s) {
				c.blocked("%s is not removed: shard %d has no other replica that is in sync and stays", n.Pod, s.ordinal)
			} else if !c.hasReplicas(s) && c.isHeldBack(s.master, n) {
				c.blocked("%s is not removed: its master may lack data that this replica has", n.Pod)
			} else if steps := c.due(c.expel(n, known)); len(steps) > 0 {
				return steps
			}
		}
	}
	for _, n := range masters {
		remove := func() []Step { return c.expel(n, c.knowing(n.ID)) }
		if s := c.shards[n.Shard]; len(s.owned) > 0 {
			remove = func() []Step { return c.handOver(s, n) }
		}
		if steps := c.due(remove()); len(steps) > 0 {
			return steps
		}
	}
	if busy {
		return nil
	}
	return c.lower()
}

// expel removes a node that owns no slots from the cluster.
func (c *cluster) expel(n *Node, known []*Node) []Step {
	for _, m := range c.members {
		if e := m.sees(n.ID); e != nil && len(e.Owned) > 0 {
			return c.blocked("the removal of %s waits until %s also reports that the removed node owns no slots", n.Pod, m.Pod)
		}
	}
	if n.self().Master && n.Keys > 0 {
		if !c.stale(n) {
			return c.blocked("%s owns no slots, but still has %d keys: it is not removed before other nodes serve all slots", n.Pod, n.Keys)
		}
		return []Step{{Action: ActionFlush, Node: n.place(), On: places(c.masters()), Message: fmt.Sprintf("empty %s: it owns no slot in any view, and other nodes serve all slots", n.Pod)}}
	}
	if c.followers(n.ID) > 0 && n.self().Master {
		// Replicas cannot forget their master. So they are reset first, unless they stay.
		for _, r := range c.replicas(n.ID) {
			if len(c.knowing(r.ID)) > 0 {
				return c.blocked("%s is removed after its replica %s", n.Pod, r.Pod)
			}
		}
	}
	if on := c.others(known, n); len(on) > 0 {
		return []Step{{Action: ActionForget, ID: n.ID, On: places(on),
			Message: fmt.Sprintf("forget %s, which is being removed", n.Pod)}}
	}
	if len(n.View) > 1 {
		step := Step{Action: ActionReset, Node: n.place(), On: places(c.masters()), Message: fmt.Sprintf("reset %s, which was removed", n.Pod)}
		if master := c.byID[n.self().MasterID]; master != nil {
			step.Target, step.Proof = master.place(), sameStart(master)
		}
		return []Step{step}
	}
	return nil
}

func (c *cluster) others(nodes []*Node, than *Node) []*Node {
	var all []*Node
	for _, n := range nodes {
		// A replica cannot forget its master. It is removed before its master.
		if n != than && n.self().MasterID != than.ID {
			all = append(all, n)
		}
	}
	return all
}

// stays reports whether a shard keeps its data when its unwanted pods are removed: a replica in sync is among the pods
// that stay. It is also true if the shard has no master or no slots, or if it should have no replica and its master
// stays.
func (c *cluster) stays(s *shard) bool {
	if s.master == nil || len(s.owned) == 0 || !c.hasReplicas(s) && c.wants(s.master) {
		return true
	}
	for _, r := range c.replicas(s.master.ID) {
		if c.wants(r) && c.inStep(r) {
			return true
		}
	}
	return false
}

// leaving reports whether a node owns no slots and is being removed. No rule makes such a node meet other nodes.
func (c *cluster) leaving(n *Node) bool {
	return c.record.Formed && !c.wants(n) && len(c.owned[n.ID]) == 0 &&
		(n.Shard < len(c.wanted.Shards) || len(c.shards[n.Shard].owned) == 0)
}

// handOver makes one of the remaining pods the master of a shard.
func (c *cluster) handOver(s *shard, leaving *Node) []Step {
	if why := c.whyNotSafe(); why != "" {
		return c.blocked("%s stays the master of shard %d for now: %s", leaving.Pod, s.ordinal, why)
	}
	var steps []Step
	for _, r := range c.replicas(leaving.ID) {
		if c.wants(r) && c.inStep(r) {
			steps = append(steps, c.failover(r, fmt.Sprintf("make %s the master of shard %d in place of %s, which is being removed", r.Pod, s.ordinal, leaving.Pod)))
		}
	}
	if len(steps) > 0 {
		return steps
	}
	return c.blocked("%s is not removed: shard %d has no replica in sync", leaving.Pod, s.ordinal)
}

// allThere reports whether every wanted pod exists, reached or not.
func (c *cluster) allThere() bool {
	for i, pods := range c.wanted.Shards {
		for _, n := range c.shards[i].nodes {
			if c.wants(n) {
				pods--
			}
		}
		if pods > 0 {
			return false
		}
	}
	return true
}

// lower removes pods that have left the cluster from the record, the highest shard first.
func (c *cluster) lower() []Step {
	record := c.copyRecord()
	for i := len(record.Shards) - 1; i >= 0; i-- {
		want := 0
		if i < len(c.wanted.Shards) {
			want = c.wanted.Shards[i]
		}
		if record.Shards[i] <= want {
			continue
		}
		if want == 0 && len(c.shards[i].owned) > 0 {
			return nil
		}
		for _, pod := range sortedKeys(c.record.Nodes) {
			id, n := c.record.Nodes[pod], c.pods[pod]
			if n == nil && len(c.knowing(id)) == 0 && c.allThere() {
				delete(record.Nodes, pod)
			}
			if n == nil || n.Shard != i || c.wants(n) {
				continue
			}
			// Members still have the node of this pod in their views, so they forget it first. The pod was not reached.
			if len(c.knowing(id)) > 0 {
				return c.forgetAbsent(n, id)
			}
			delete(record.Nodes, pod)
		}
		if record.Shards[i] = want; want == 0 && i == len(record.Shards)-1 {
			record.Shards = record.Shards[:i]
		}
	}
	if len(record.Shards) == len(c.record.Shards) && fmt.Sprint(record.Shards) == fmt.Sprint(c.record.Shards) {
		return nil
	}
	return []Step{recordStep(record, "record that pods were removed: the shards have %v pods now", record.Shards)}
}

// forgetAbsent makes the members forget the node of a pod that was not reached and is being removed. It waits while the pod may have data
// that its restarted master lost.
func (c *cluster) forgetAbsent(n *Node, id string) []Step {
	s := c.shards[n.Shard]
	if s.master != nil && c.uncopied(s) == n && !c.isFresh(id) {
		if s.master.Uptime > relinkTime {
			c.isHeldBack(s.master, n)
		}
		return c.blocked("%s is not removed: %s has restarted, and %s has not copied from it since", n.Pod, s.master.Pod, n.Pod)
	}
	if !c.harmless(id) || c.fateOf(id) == away {
		return c.blocked("shard %d is not removed before %s is reached, or forgotten", n.Shard, n.Pod)
	}
	return []Step{{Action: ActionForget, ID: id, On: places(c.knowing(id)), Message: fmt.Sprintf("forget %s, which is being removed", n.Pod)}}
}
