// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import "slices"

// roll replaces one pod of an old revision at a time. A voter that does not answer comes first, if the other voters form
// a quorum, because its replacement loses nothing. Followers come next, while every voter is healthy. Last, the leader
// transfers the leadership, and is replaced. If a voter does not trust exactly the certificate authorities in its
// Secrets, its pod counts as a pod of an old revision. Before the pod of a healthy voter is replaced, all other pods must
// have been ready for WellFor, so that a failing change affects only one member.
func (c *cluster) roll() (steps []Step) {
	failed := c.failed()
	switch {
	case failed != nil:
		return c.failedChange(failed)
	case slices.ContainsFunc(c.members, (*memberState).refuses):
		c.stuck = true
		return c.blocked("members refuse the certificate authorities in the Secrets of the cluster, so no pod is replaced: restore the former Secrets, or, to use the authorities in the present Secrets, set spec.replicas to 0 and then back")
	case c.Lagging:
		return nil
	}
	outdated := c.outdated()
	for _, s := range outdated {
		others := c.healthyBut(s)
		if !c.healthy(s) && len(others) >= quorum(len(c.voters)) {
			steps = append(steps, c.do(PhaseUpgrading, c.deletePod(s, others), "replace pod %s by a pod of the latest revision: it does not answer", s.pod.Name)...)
		}
	}
	if len(outdated) == 0 || len(steps) > 0 {
		return steps
	}
	if !c.allWell() || c.busy() {
		return c.blocked("no further pod is replaced now: not all members are well")
	}
	if s := outdated[0]; !c.mayPause(s) {
		return c.blocked("%s is not replaced %s yet: without it the other voters form no quorum, so the pod with ordinal %d must join first; or set spec.replicas to %d",
			s.name(), s.successor(), c.vacant(), len(c.voters))
	}
	for _, s := range outdated {
		if s != c.leader && c.othersSettled(s) {
			steps = append(steps, c.do(PhaseUpgrading, c.deletePod(s, c.healthyBut(s)), "replace pod %s %s", s.pod.Name, s.successor())...)
		}
	}
	switch leader := c.leader; {
	case !slices.Contains(outdated, leader) || !c.othersSettled(leader):
		return steps
	case len(c.voters) > 1:
		return append(steps, c.moveLeader(PhaseUpgrading, leader, "the pod of the present leader must be replaced", outdated...)...)
	default:
		return c.do(PhaseUpgrading, c.deletePod(leader, nil), "replace pod %s %s: the cluster has no other member, and does not answer until the new pod serves", leader.pod.Name, leader.successor())
	}
}

// outdated returns the voters whose pods must be replaced. It omits a voter whose data would not be safe, and adds a
// note about that voter instead.
func (c *cluster) outdated() (found []*memberState) {
	for _, s := range c.voters {
		switch {
		case s.ordinal < 0 || s.pod == nil || !s.pod.Outdated && !s.trustsFormer() || s.pod.Terminating:
		case c.losesData(s.ordinal):
			c.blocked("%s is not replaced by a pod of the latest revision: its claim is being deleted", s.name())
		case s.answer != nil && s.claim != nil && (s.claim.Member != s.ID || s.claim.Cluster != c.id):
			c.blocked("%s is not replaced by a pod of the latest revision yet: the annotations of its claim do not name member %s of cluster %s as the owner of the data", s.name(), s.ID, c.id)
		default:
			found = append(found, s)
		}
	}
	return found
}

// isSettled reports whether the pod of a voter has been ready for WellFor without a restart.
func (c *cluster) isSettled(s *memberState) bool {
	return c.want.WellFor == 0 || s.pod != nil && s.pod.WellFor >= c.want.WellFor
}

// othersSettled reports whether the pods of all voters except one are settled. It adds a note about the first pod that is not settled.
func (c *cluster) othersSettled(except *memberState) bool {
	for _, s := range c.voters {
		if s != except && s.ordinal >= 0 && !c.isSettled(s) {
			c.phase = PhaseUpgrading
			c.blocked("no further pod is replaced now: %s must first be ready for %s without a restart", s.name(), c.want.WellFor)
			return false
		}
	}
	return true
}

// failed returns a voter on whose pod the latest revision has failed, or nil. The pod is not settled, and one of its
// containers has ended or cannot start.
func (c *cluster) failed() *memberState {
	for _, s := range c.voters {
		if p := s.pod; p != nil && !p.Outdated && !c.Lagging && !p.Terminating && !c.isSettled(s) && (p.Ended != "" || p.isExplained()) {
			return s
		}
	}
	return nil
}

// mayServeAgain reports whether the outdated pod of a voter is kept because its old revision may serve again: a quorum
// is proven, and the latest revision failed on another voter.
func (c *cluster) mayServeAgain(p *Pod) bool {
	s := c.at[p.Ordinal]
	return p.Outdated && c.proven && !c.alarmed && s != nil && !s.Learner && c.failed() != nil
}

// failedChange adds a note that the latest change of the pods failed on a member. No further pod is replaced.
func (c *cluster) failedChange(on *memberState) []Step {
	if !slices.ContainsFunc(c.Pods, func(p Pod) bool { return p.Outdated }) {
		return nil
	}
	why := on.pod.Ended
	if on.pod.Problem != "" {
		why = on.pod.Problem
	}
	return c.blocked("the latest change of the pods failed on %s (%s), and no further pod is replaced: revert or correct that change", on.name(), why)
}

// successor describes the pod that replaces a member's pod.
func (s *memberState) successor() string {
	if s.pod.Outdated {
		return "by a pod of the latest revision"
	}
	return "by a pod that trusts the certificate authorities of its Secrets"
}

// deletePod returns the step that deletes a member's pod. The step requires the member list of the decision: with
// another list, the other members may not be a quorum.
func (c *cluster) deletePod(s *memberState, others []*memberState) Step {
	return Step{Action: ActionDeletePod, Pod: s.place(), Via: c.requestTarget(nil), Expect: c.list, Healthy: places(others), Ordinal: s.ordinal}
}

// revise records the wanted version while no quorum exists or no quorum has the same keys. The cause may be the
// recorded version: a version with a missing or broken image must not block its fix. The wanted version must have the
// minor version of the data.
func (c *cluster) revise() []Step {
	if c.want.Version == "" || c.Record.Version == c.want.Version {
		return nil
	}
	for ordinal, p := range c.pods {
		if p.Answer != nil && p.Answer.Version != "" && minor(p.Answer.Version) != minor(c.want.Version) {
			return nil
		}
		claim := c.claims[ordinal]
		if claim == nil || claim.Version != "" && minor(claim.Version) != minor(c.want.Version) {
			return nil
		}
	}
	for _, claim := range c.claims {
		if claim.Version != "" && minor(claim.Version) == minor(c.want.Version) {
			return c.record(PhaseUpgrading, func(r *Record) { r.Version = c.want.Version }, "bring etcd back to %s, the version of the data", c.want.Version)
		}
	}
	return nil
}

// lowestVersion returns the lowest version of all voters that answer; "" if none answers.
func (c *cluster) lowestVersion() (lowest string) {
	for _, s := range c.voters {
		if s.answer != nil && (lowest == "" || newer(lowest, s.answer.Version)) {
			lowest = s.answer.Version
		}
	}
	return lowest
}

// upgrade records the next version when every member runs the present one.
func (c *cluster) upgrade() []Step {
	if c.want.Version == "" || c.Record.Version == c.want.Version {
		return nil
	}
	lowest := c.lowestVersion()
	if lowest == "" {
		return nil
	}
	if minor(lowest) == minor(c.want.Version) {
		// Within the minor version that runs, the wanted version is recorded without a wait: a version that does not
		// start must not block its fix.
		return c.record(PhaseUpgrading, func(r *Record) { r.Version = c.want.Version }, "bring etcd to %s", c.want.Version)
	}
	next, why := NextVersion(lowest, c.want.Version, c.want.Path)
	if why != "" {
		c.stuck = true
		return c.blocked("etcd stays at %s: %s", c.Record.Version, why)
	}
	if c.want.Pinned && next != c.want.Version {
		c.stuck = true
		return c.blocked("etcd stays at %s: the upgrade to %s goes through %s, and spec.image names one fixed image: give spec.image without a tag and digest, or set spec.image and spec.version to %s first",
			c.Record.Version, c.want.Version, next, next)
	}
	if k := c.vacant(); k >= 0 && c.above(k) {
		return c.blocked("etcd is upgraded to %s when the pod with ordinal %d has joined", next, k)
	}
	for _, s := range c.members {
		if s.Learner || s.pod == nil || s.pod.Outdated || c.Lagging || !c.healthy(s) || s.answer.Version != lowest {
			return c.blocked("etcd is upgraded to %s when all members are well and run %s", next, c.Record.Version)
		}
	}
	if next == c.Record.Version {
		return c.blocked("all pods are of the latest revision, but run etcd %s instead of %s: check which version spec.image has", lowest, next)
	}
	return c.record(PhaseUpgrading, func(r *Record) { r.Version = next }, "bring etcd from %s to %s", lowest, next)
}
