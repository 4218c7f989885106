// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"fmt"
	"slices"
)

// unblock replaces pods that cannot start in their present state.
//
//   - A pod that lost its data gets another address. Its former replicas do not connect to that address.
//   - A pod of an old revision that is not up is replaced: a revision that does not start must not block the rollout of
//     its fix. Its volume stays. A shard's owner is never replaced. While a pod of the wanted revision is not up
//     either, the old pod is kept: the new revision may have the same fault, and the old pod may just be restarting.
//   - A replica that refuses the password starts with the right password in a new pod.
//
// When a replica starts, it copies from its master. So the second and the third rule wait while the master may have
// lost the replica's data.
func (c *cluster) unblock() (steps []Step) {
	for _, n := range c.nodes {
		switch {
		case n.Reached || n.Terminating:
		case n.LostData:
			steps = append(steps, c.deletePod(n, "its data is gone, and its replicas would copy an empty node at its address"))
		case n.Locked && c.record.Formed && c.record.Nodes[n.Pod] != "" && !c.indispensable(n):
			if !c.isHeldBack(c.shards[n.Shard].master, n) {
				steps = append(steps, c.deletePod(n, "it started with another password than the Secret has now"))
			}
		case n.Outdated && !n.Loading && !c.mayCome(n):
			if c.record.Nodes[n.Pod] == "" || !c.isHeldBack(c.shards[n.Shard].master, n) {
				steps = append(steps, c.deletePod(n, "it does not come up ("+n.trouble()+"), and another revision is wanted"))
			}
		}
	}
	return steps
}

// neverUp replaces pods of an old revision that never served: a wrong image, node selector or command must not block the rollout of its
// fix. It runs under every verdict, because deleting these pods ends no server, and their volumes stay.
func (c *cluster) neverUp() (steps []Step) {
	for _, n := range c.nodes {
		if n.Outdated && n.NeverUp && !n.Reached && !n.Loading && !n.Terminating {
			step := c.deletePod(n, "it never served in this pod ("+n.trouble()+"), and another revision is wanted")
			step.Proof.NeverUp = true
			steps = append(steps, step)
		}
	}
	return steps
}

// stuck replaces pods of an old revision whose container cannot run any more, for example because the container needs
// more memory than its limit. No other rule brings the change to a shard of which no pod runs. stuck runs under every
// verdict, like neverUp, and keeps these pods:
//
//   - every pod, while a pod of the wanted revision is not up: the new revision may have the same fault;
//   - a pod whose server refuses its volume: a new server would refuse it, too;
//   - a replica whose master may have lost the replica's data, because the replica could copy from that master. This is
//     so if the master has restarted, or was not reached and may start without a step.
//
// Replicas come before the master of a shard. While the master does not run, they start with the data on their volumes
// and copy nothing.
func (c *cluster) stuck() []Step {
	if c.unproven() || c.wanted.Parked {
		return nil
	}
	var replicas, masters []Step
	for _, n := range c.nodes {
		s, id := c.shards[n.Shard], c.record.Nodes[n.Pod]
		if !n.Outdated || !n.isStuck() || n.Terminating || n.LostData || n.NotStarted != "" || id == "" || c.fateOf(id) == away {
			continue
		}
		step := c.deletePod(n, "it cannot run ("+n.trouble()+"), and another revision is wanted")
		step.Proof.Stuck = true
		switch {
		case len(c.owned[id]) > 0 || c.record.Histories[n.Shard].Node == id:
			masters = append(masters, step)
		case s.master == nil && slices.ContainsFunc(s.nodes, (*Node).mayComeUp) || c.isHeldBack(s.master, n):
		default:
			replicas = append(replicas, step)
		}
	}
	return append(replicas, masters...)
}

func (n *Node) isStuck() bool { return n.Stuck && !n.Running && !n.Reached && !n.Loading }

// mayComeUp reports whether the server of an unreached pod runs or may start.
func (n *Node) mayComeUp() bool { return !n.Reached && !n.LostData && !n.isStuck() }

// outOfStep replaces replicas of an old revision that are not a valid copy of their master, while the master is
// reached. The new revision may repair them: a newer Redis, more memory, or a larger output buffer. outOfStep keeps a
// replica whose master restarted with fewer keys: the replica may hold the only copy. outOfStep waits while a pod of
// the wanted revision is not up in the same shard, and while no such pod is up in any shard: the new revision may have
// the same fault.
func (c *cluster) outOfStep() (steps []Step) {
	isUp := func(n *Node) bool { return !n.Outdated && n.Reached }
	if c.unproven() && !slices.ContainsFunc(c.nodes, isUp) || slices.ContainsFunc(c.nodes, func(n *Node) bool { return n.Terminating }) {
		return nil
	}
	for _, s := range c.shards {
		if slices.ContainsFunc(s.nodes, c.isUnproven) || s.master == nil || s.master.Terminating || len(c.owned[s.master.ID]) == 0 || !s.master.Replication.Master {
			continue
		}
		for _, n := range s.nodes {
			if n.Outdated && n != s.master && c.member(n) && !n.Terminating && len(c.owned[n.ID]) == 0 &&
				n.self().MasterID == s.master.ID && !c.inStep(n) && !c.isHeldBack(s.master, n) {
				step := c.deletePod(n, "a replica of an old revision that is not in sync with its master")
				step.Target, step.Proof = s.master.place(), sameStart(s.master)
				steps = append(steps, step)
			}
		}
	}
	return steps
}

// mayCome reports whether a pod of an old revision that was a member is kept although it is not up: it is indispensable, other nodes reach
// its server, or a pod of the wanted revision is not up either.
func (c *cluster) mayCome(n *Node) bool {
	id := c.record.Nodes[n.Pod]
	return id != "" && c.record.Formed && (c.indispensable(n) || c.unproven() || c.fateOf(id) == away)
}

// indispensable reports whether a pod that was a member may not be replaced while it is not up. This is so if the pod's
// node owns slots, or if the pod's shard has no master.
func (c *cluster) indispensable(n *Node) bool {
	return len(c.owned[c.record.Nodes[n.Pod]]) > 0 || c.shards[n.Shard].master == nil
}

// unproven reports whether a pod of the wanted revision was a member and is not up: that revision may not start at all.
func (c *cluster) unproven() bool { return slices.ContainsFunc(c.nodes, c.isUnproven) }

func (c *cluster) isUnproven(n *Node) bool {
	return !n.Outdated && !n.Reached && c.wants(n) && c.record.Nodes[n.Pod] != ""
}

func (c *cluster) deletePod(n *Node, why string) Step {
	return Step{Action: ActionDeletePod, Node: n.place(), Message: fmt.Sprintf("delete pod %s: %s", n.Pod, why)}
}

// roll replaces pods of an old revision, one shard after the other. It replaces the replicas first. Then a failover
// makes one of them the master, and the former master is replaced. roll waits until every shard has all its replicas in
// sync, and all other pods have been ready for WellFor. There is no failback: after an update of redis, the old version
// could not read the data of the new version.
func (c *cluster) roll() []Step {
	for _, s := range c.shards {
		var outdated []*Node
		for _, n := range s.nodes {
			if n.Outdated {
				outdated = append(outdated, n)
			}
		}
		if len(outdated) == 0 {
			continue
		}
		if why := cmp.Or(c.quiet(s), c.unsettled(outdated)); why != "" {
			return c.blocked("no further pod is replaced now: %s", why)
		}
		if steps := c.due(c.rollShard(s, outdated)); len(steps) > 0 {
			return steps
		}
	}
	return nil
}

// rollShard returns the steps that replace the pods of an old revision of one shard: its replicas, or its master if no replica is left.
func (c *cluster) rollShard(s *shard, outdated []*Node) (steps []Step) {
	if s.master == nil {
		return c.replaceUnowned(s, outdated)
	}
	for _, n := range outdated {
		if n != s.master {
			step := c.deletePod(n, "a replica of an old revision")
			step.Target, step.Proof = s.master.place(), sameStart(s.master)
			steps = append(steps, step)
		}
	}
	switch {
	case len(steps) > 0:
		return steps
	case len(s.owned) == 0:
		return []Step{c.deletePod(s.master, "a master of an old revision that owns no slots")}
	case !c.hasReplicas(s):
		return c.replaceAlone(s)
	}
	for _, heir := range c.heirs(s, func(n *Node) bool { return !n.Outdated }) {
		steps = append(steps, c.failover(heir, fmt.Sprintf("make %s the master of shard %d, so that %s can be replaced", heir.Pod, s.ordinal, s.master.Pod)))
	}
	if len(steps) == 0 {
		return c.blocked("%s is not replaced: shard %d has no replica in sync", s.master.Pod, s.ordinal)
	}
	return steps
}

// replaceUnowned replaces a pod of a shard that owns no slots and whose master is not reached. Every slot is served by another shard.
func (c *cluster) replaceUnowned(s *shard, outdated []*Node) (steps []Step) {
	for _, n := range outdated {
		if !n.Loading && !n.Terminating {
			steps = append(steps, c.deletePod(n, "a pod of an old revision; its shard owns no slots, and its master is not reached"))
		}
	}
	if len(steps) > 0 {
		return steps
	}
	return c.blocked("no pod of shard %d is replaced: the shard has no master%s", s.ordinal, c.whyNot(s))
}

// replaceAlone replaces the only pod of a shard. Its server stops by itself, and starts again with its data. Until
// then, nothing serves its slots.
func (c *cluster) replaceAlone(s *shard) []Step {
	if s.master.Unsaved {
		return c.blocked("%s is not replaced: %s", s.master.Pod, s.master.Refuses)
	}
	step := c.deletePod(s.master, "the only pod of its shard, of an old revision; its slots are not served until it is back with its data")
	step.Mode = ModeAlone
	return []Step{step}
}

// aloneDown replaces the only pod of a shard if the pod served before, does not run, and has an old revision. The
// wanted revision may repair it. No other node has the pod's data, but the volume stays when the pod is deleted.
// aloneDown waits while another pod of the wanted revision is not up, because that revision may have the same fault.
func (c *cluster) aloneDown() (steps []Step) {
	if c.unproven() {
		return nil
	}
	for _, n := range c.nodes {
		if n.Outdated && !n.Reached && !n.Running && !n.Loading && !n.Terminating && c.wants(n) && !c.hasReplicas(c.shards[n.Shard]) {
			steps = append(steps, c.deletePod(n, "the only pod of its shard does not come up ("+n.trouble()+"), and another revision is wanted"))
		}
	}
	return steps
}

// quiet returns why the pods of a shard may not be replaced now, or "".
func (c *cluster) quiet(s *shard) string {
	if why := c.whyNotSafe(); why != "" {
		return why
	}
	// A new shard without slots has no data to lose yet, so its missing pods do not count.
	if why := c.thinner(func(s *shard) bool { return len(s.owned) > 0 }); why != "" {
		return why
	}
	for _, n := range s.nodes {
		if n.Saving {
			return n.Pod + " is writing its data to disk"
		}
	}
	return ""
}

// unsettled returns why a change of the pods must wait, or "". All wanted pods except those in outdated must have been
// ready for WellFor without a restart.
func (c *cluster) unsettled(outdated []*Node) string {
	for _, n := range c.nodes {
		if n.WellFor >= c.wanted.WellFor || slices.Contains(outdated, n) || !c.wants(n) {
			continue
		}
		if n.Ended != "" && !n.Outdated {
			return fmt.Sprintf("the latest change of the pods failed on %s (%s): revert or correct that change", n.Pod, n.Ended)
		}
		return fmt.Sprintf("%s must first be ready for %s without a restart", n.Pod, c.wanted.WellFor)
	}
	return ""
}

// heirs returns the replicas in sync of a shard that a function accepts, those with the most data first.
func (c *cluster) heirs(s *shard, passes func(*Node) bool) []*Node {
	all := slices.DeleteFunc(slices.Clone(c.replicas(s.master.ID)), func(r *Node) bool { return !c.inStep(r) || !passes(r) })
	slices.SortStableFunc(all, func(a, b *Node) int { return cmp.Compare(b.Replication.Offset, a.Replication.Offset) })
	return all
}

// thin describes the first shard with fewer pods in sync than wanted, or returns "".
func (c *cluster) thin() string {
	return c.thinner(func(*shard) bool { return true })
}

// thinner checks the shards for which counts returns true. It describes the first of them with fewer pods in sync than wanted, or
// returns "".
func (c *cluster) thinner(counts func(*shard) bool) string {
	for i, pods := range c.wanted.Shards {
		s := c.shards[i]
		if !counts(s) {
			continue
		}
		found := 0
		for _, n := range s.nodes {
			switch {
			case !c.wants(n):
				continue
			case n == s.master, c.member(n) && s.master != nil && n.self().MasterID == s.master.ID && c.inStep(n):
				found++
			}
		}
		if found < pods {
			return fmt.Sprintf("shard %d has %d of %d pods in sync%s", i, found, pods, c.whyNot(s))
		}
	}
	return ""
}
