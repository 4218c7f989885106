// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import "slices"

// roll replaces one pod of an old revision at a time, while every voter is healthy: followers first, and the leader after another member
// leads. A voter that does not answer comes first, because nothing is lost with it. A voter that trusts other certificate authorities than
// its Secrets have is replaced like one of an old revision.
func (c *cluster) roll() (steps []Step) {
	switch {
	case slices.ContainsFunc(c.members, (*memberState).refuses):
		c.stuck = true
		return c.blocked("members refuse the certificate authorities in the Secrets of the cluster, so no pod is replaced: restore the former Secrets, or set spec.replicas to 0 and back to change to these")
	case c.Lagging:
		return nil
	}
	var outdated []*memberState
	for _, s := range c.voters {
		if s.ordinal < 0 || s.pod == nil || !s.pod.Outdated && !s.trustsFormer() || s.pod.Terminating {
			continue
		}
		if c.losesData(s.ordinal) {
			c.blocked("%s is not replaced by one of the latest revision: its claim is being deleted", s.name())
			continue
		}
		if s.answer != nil && s.claim != nil && (s.claim.Member != s.ID || s.claim.Cluster != c.id) {
			c.blocked("%s is not replaced by one of the latest revision: its claim does not name its data's member yet", s.name())
			continue
		}
		outdated = append(outdated, s)
		others := c.healthyBut(s)
		if !c.healthy(s) && len(others) >= quorum(len(c.voters)) {
			steps = append(steps, c.do(PhaseUpgrading, c.deletePod(s, others), "replace pod %s by one of the latest revision: it does not answer", s.pod.Name)...)
		}
	}
	if len(outdated) == 0 || len(steps) > 0 {
		return steps
	}
	if !c.allWell() || c.busy() {
		return c.blocked("no further pod is replaced now: not all members are well")
	}
	if s := outdated[0]; !c.mayPause(s) {
		return c.blocked("%s is not replaced %s yet: without it the other voters are no quorum, and the pod with ordinal %d is to join first. Or set spec.replicas to %d",
			s.name(), s.successor(), c.vacant(), len(c.voters))
	}
	for _, s := range outdated {
		if s != c.leader {
			steps = append(steps, c.do(PhaseUpgrading, c.deletePod(s, c.healthyBut(s)), "replace pod %s %s", s.pod.Name, s.successor())...)
		}
	}
	switch leader := c.leader; {
	case !slices.Contains(outdated, leader):
		return steps
	case len(c.voters) > 1:
		return append(steps, c.moveLeader(PhaseUpgrading, leader, "its pod is to be replaced")...)
	default:
		return c.do(PhaseUpgrading, c.deletePod(leader, nil), "replace pod %s %s: the cluster has no other member and does not answer until then", leader.pod.Name, leader.successor())
	}
}

// successor describes the pod that replaces a member's pod.
func (s *memberState) successor() string {
	if s.pod.Outdated {
		return "by one of the latest revision"
	}
	return "by one that trusts the certificate authorities of its Secrets"
}

// deletePod returns the step that deletes a member's pod. It is refused if the member list has changed: the others may be no quorum then.
func (c *cluster) deletePod(s *memberState, others []*memberState) Step {
	return Step{Action: ActionDeletePod, Pod: s.place(), Via: c.requestTarget(nil), Expect: c.list, Healthy: places(others), Ordinal: s.ordinal}
}

// revise records the wanted version if there is no quorum, or none with the same keys, and the minor version of the data is the same. The
// recorded version may be why pods do not start: a version with a missing or broken image must not block its fix.
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
			return c.record(PhaseUpgrading, func(r *Record) { r.Version = c.want.Version }, "bring etcd back to %s, which the data is of", c.want.Version)
		}
	}
	return nil
}

// lowestVersion returns the lowest version that a voter runs; "" if none answers.
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
		// Another patch, or back to a running version: a version that does not start must not block its fix.
		return c.record(PhaseUpgrading, func(r *Record) { r.Version = c.want.Version }, "bring etcd to %s", c.want.Version)
	}
	next, why := NextVersion(lowest, c.want.Version, c.want.Path)
	if why != "" {
		c.stuck = true
		return c.blocked("etcd stays at %s: %s", c.Record.Version, why)
	}
	if c.want.Pinned && next != c.want.Version {
		c.stuck = true
		return c.blocked("etcd stays at %s: %s is reached by way of %s, and spec.image is one image: give it without a tag and digest, or set both fields to %s first",
			c.Record.Version, c.want.Version, next, next)
	}
	if k := c.vacant(); k >= 0 && c.above(k) {
		return c.blocked("etcd goes to %s when the pod with ordinal %d has joined", next, k)
	}
	for _, s := range c.members {
		if s.Learner || s.pod == nil || s.pod.Outdated || c.Lagging || !c.healthy(s) || s.answer.Version != lowest {
			return c.blocked("etcd goes to %s when all members are well and run %s", next, c.Record.Version)
		}
	}
	if next == c.Record.Version {
		return c.blocked("all pods are of the latest revision, and run etcd %s instead of %s: does the image have that version?", lowest, next)
	}
	return c.record(PhaseUpgrading, func(r *Record) { r.Version = next }, "bring etcd from %s to %s", lowest, next)
}
