// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import "slices"

// vacant returns the lowest wanted ordinal without a member, or -1.
func (c *cluster) vacant() int {
	for ordinal := range c.want.Replicas {
		if c.at[ordinal] == nil {
			return ordinal
		}
	}
	return -1
}

// refill adds a member at each planned ordinal without one: the member was lost, or grow has just added its pod. refill
// runs before the cluster shrinks and before pods are replaced.
func (c *cluster) refill() (steps []Step) {
	for ordinal := range c.want.Replicas {
		if c.at[ordinal] == nil && c.above(ordinal) {
			steps = append(steps, c.add(PhaseRecovering, ordinal)...)
		}
	}
	for i := range steps {
		steps[i].ongoing = !c.inside(steps[i].Ordinal)
	}
	return steps
}

// mayPause reports whether a healthy voter may be stopped for a moment. If a pod waits to join, the other voters must
// form a quorum: both the waiting pod and the voter's new pod may fail to start.
func (c *cluster) mayPause(s *memberState) bool {
	k := c.vacant()
	return k < 0 || !c.above(k) || len(c.healthyBut(s)) >= quorum(len(c.voters))
}

// above reports whether an ordinal is below the planned number of pods, so that the StatefulSet has a pod for it.
func (c *cluster) above(ordinal int) bool {
	return ordinal < c.planned()
}

// grow adds the pod of one more member when all voters are healthy. When the pod waits, refill adds the member.
func (c *cluster) grow() []Step {
	k := c.vacant()
	if k < 0 || c.above(k) {
		return nil
	}
	return c.add(PhaseScaling, k)
}

// add adds a member at an ordinal in two steps. The first step adds the pod: a pod that cannot be scheduled must not
// change the member list. The second step adds the learner when that pod waits with an empty volume. Until then, later
// rules run.
func (c *cluster) add(phase string, ordinal int) []Step {
	planned := c.planned()
	p := c.pods[ordinal]
	switch {
	case len(c.learners) > 0:
		return c.blocked("no member is added: a learner is still joining, or no pod of this cluster runs that learner")
	case ordinal >= planned && c.strays[ordinal] != nil:
		c.stuck = true
		claim := c.strays[ordinal]
		return c.blocked("no pod is added with ordinal %d: claim %s has data of member %s of cluster %s. Delete the claim if that data is not needed",
			ordinal, claim.Name, claim.Member, claim.Cluster)
	case ordinal >= planned && !c.allWell():
		return c.blocked("no member is added: not all voters are well")
	case ordinal >= planned:
		return c.record(phase, func(r *Record) { r.Replicas = ordinal + 1 }, "add a pod with ordinal %d", ordinal)
	case p == nil || p.Terminating:
		return c.joinsLater(phase, "the pod with ordinal %d cannot join yet: %s", ordinal, p.trouble())
	case p.Report == nil:
		return c.joinsLater(phase, "%s cannot join yet: %s", p.Name, p.trouble())
	case p.Report.Volume != VolumeEmpty:
		c.stuck = true
		return c.joinsLater(phase, "%s cannot join: its volume has data of member %s of cluster %s: give each pod its own volume, or delete this pod and its claim",
			p.Name, p.Report.Member, p.Report.Cluster)
	case c.claims[ordinal] != nil && c.claims[ordinal].Terminating:
		return c.joinsLater(phase, "%s cannot join yet: its claim is being deleted", p.Name)
	}
	well := c.healthyBut(nil)
	if need := quorum(len(c.voters) + 1); len(well) < need && len(c.voters) > 1 {
		// Without the new member, the others must form a quorum of the new list, or etcd would refuse the change. A
		// single member may always get a second one.
		return c.blocked("%s is not added: %d voters answer, and a quorum with the new member is %d", p.Name, len(well), need)
	}
	return c.do(phase, Step{Action: ActionAddLearner, PeerURL: c.want.PeerURLs[ordinal], Via: c.requestTarget(nil), Expect: c.list, Healthy: places(well), Ordinal: ordinal, Pod: p.place()},
		"add %s to the cluster, as a learner", p.Name)
}

// joinsLater adds a note with the reason why the pod of a new member does not join yet.
func (c *cluster) joinsLater(phase, format string, args ...any) []Step {
	c.phase, c.ongoing = phase, !c.inside(c.vacant())
	return c.blocked(format, args...)
}

// shrink removes the unwanted member with the highest ordinal if the others form a quorum without it. Later passes delete its pod and then
// its claim.
func (c *cluster) shrink() []Step {
	var last *memberState
	for _, s := range c.voters {
		if s.ordinal >= c.want.Replicas && (last == nil || s.ordinal > last.ordinal) {
			last = s
		}
	}
	if last == nil {
		return c.retire()
	}
	others := c.healthyBut(last)
	after := quorum(len(c.voters) - 1)
	before := len(others)
	if c.healthy(last) {
		before++
	}
	if len(others) < after || before < quorum(len(c.voters)) || c.healthy(last) && len(others) < len(c.voters)-1 && len(others) <= after-1 {
		return c.blocked("%s is not removed: %d of the other %d voters answer", last.name(), len(others), len(c.voters)-1)
	}
	if c.leader == last {
		return c.moveLeader(PhaseScaling, last, "the present leader must be removed")
	}
	return c.do(PhaseScaling, c.remove(last, others), "remove %s from the cluster: %d members are wanted", last.name(), c.want.Replicas)
}

// retire removes unwanted pods that are not members: first from the record, then from the StatefulSet.
func (c *cluster) retire() []Step {
	keep := c.want.Replicas
	for _, s := range c.members {
		keep = max(keep, s.ordinal+1)
	}
	if c.Record.Replicas > keep {
		return c.record(PhaseScaling, func(r *Record) { r.Replicas = keep }, "record that no pods are wanted from ordinal %d on: none of them is a member", keep)
	}
	if c.Live > keep {
		return c.do(PhaseScaling, Step{Action: ActionScale, Ordinal: keep, Via: c.requestTarget(nil), Expect: c.list},
			"remove the pods from ordinal %d on: none of them is a member", keep)
	}
	for ordinal, p := range c.pods {
		if ordinal >= keep {
			c.phase = PhaseScaling
			return c.blocked("pod %s is being deleted", p.Name)
		}
	}
	return nil
}

// moveLeader returns steps that transfer the leadership to a healthy member, best first: a wanted member, then one of
// the latest revision, then the lowest ordinal. Members in same are omitted, because they wait for the same step as the
// leader. If that step kept failing on each of these members, the leadership would alternate between them.
func (c *cluster) moveLeader(phase string, from *memberState, why string, same ...*memberState) (steps []Step) {
	heirs := slices.DeleteFunc(c.healthyBut(from), func(s *memberState) bool { return s.ordinal < 0 || c.behind[s] || slices.Contains(same, s) })
	switch {
	case len(heirs) > 0:
	case slices.ContainsFunc(same, func(s *memberState) bool { return s != from }):
		return nil // all candidates are in same, and the notes about their steps name the cause
	default:
		return c.blocked("%s leads the cluster, and no other member can take over", from.name())
	}
	rank := func(s *memberState) (rank int) {
		if s.ordinal >= c.want.Replicas {
			rank += 2
		}
		if s.pod.Outdated {
			rank++
		}
		return rank
	}
	slices.SortStableFunc(heirs, func(a, b *memberState) int { return rank(a) - rank(b) })
	for _, heir := range heirs {
		steps = append(steps, c.do(phase, Step{Action: ActionMoveLeader, Via: from.place(), Member: heir.ID, Ordinal: heir.ordinal},
			"let %s lead the cluster in place of %s: %s", heir.name(), from.name(), why)...)
	}
	return steps
}
