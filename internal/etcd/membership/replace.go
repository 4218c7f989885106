// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import "slices"

// broken returns the reason why a voter must be replaced, and the evidence that package server checks again. why is ""
// if the voter stays.
func (c *cluster) broken(s *memberState) (why string, shown Evidence) {
	is, why := c.fateOf(s)
	switch {
	case is == lost:
		return why, EvidenceLost
	case is == alive || s.pod == nil || s.pod.Terminating:
		return "", ""
	case is == unknown && s.pod.Report != nil && s.pod.Report.Damage != "" && c.want.ReplaceAfter > 0:
		return "its data is damaged: " + s.pod.Report.Damage, EvidenceDamaged // a longer wait would not help
	}
	after := c.want.ReplaceAfter
	if after <= 0 || !s.pod.Crashing || s.pod.NotReadyFor < after {
		return "", ""
	}
	// If no healthy member runs the same revision, the revision may be the cause: its image, a flag, or a limit.
	if !slices.ContainsFunc(c.healthyBut(s), func(other *memberState) bool { return other.pod != nil && other.pod.Revision == s.pod.Revision }) {
		c.blocked("%s keeps exiting (%s), and is not replaced: no healthy member runs the same revision, so the pod template may be wrong. "+
			"Revert the last change of the spec; or, if the volume is damaged, delete the pod of this member and its claim", s.name(), s.pod.trouble())
		return "", ""
	}
	return "it has not started for " + after.String() + ": " + s.pod.trouble(), EvidenceCrashing
}

// removeLost removes voters with lost data while the other voters form a quorum. It must run before a member is added:
// etcd adds a member only if a quorum is connected, and counts the lost members as not connected.
func (c *cluster) removeLost() (steps []Step) {
	for _, s := range c.voters {
		if s.ordinal < 0 || c.healthy(s) {
			continue
		}
		if is, why := c.fateOf(s); is == swapped {
			c.stuck = true
			c.blocked("the operator does not change %s: %s. Give each pod its own volume again", s.name(), why)
			continue
		}
		why, shown := c.broken(s)
		if why == "" {
			continue
		}
		others := c.healthyBut(s)
		if len(others) < quorum(len(c.voters)) {
			c.blocked("%s is not replaced (%s): %d of the %d other voters answer, and a quorum is %d",
				s.name(), why, len(others), len(c.voters)-1, quorum(len(c.voters)))
			continue
		}
		if c.leader == s {
			steps = append(steps, c.moveLeader(PhaseRecovering, s, "the present leader must be replaced")...)
			continue
		}
		step := c.remove(s, others)
		step.Evidence, step.Pod = shown, s.pod.place()
		steps = append(steps, c.do(PhaseRecovering, step, "remove %s from the cluster: %s", s.name(), why)...)
	}
	return steps
}

func (c *cluster) remove(s *memberState, healthy []*memberState) Step {
	return Step{Action: ActionRemove, Member: s.ID, Via: c.requestTarget(s), Expect: c.list, Healthy: places(healthy), Ordinal: s.ordinal}
}

// learner completes the start of an added member: the learner gets its ticket, and becomes a voter when it has the
// data. A learner that fails is removed. That loses nothing, because a learner never had a vote. While a learner waits,
// later rules still run.
func (c *cluster) learner() (steps []Step) {
	for _, s := range c.learners {
		if s.ordinal < 0 {
			continue // strangers reports such a member
		}
		found := c.startOrPromote(s)
		if len(found) > 0 && found[0].Action == ActionWait {
			c.phase, c.ongoing = found[0].phase, found[0].ongoing
			found = c.blocked("%s", found[0].Message)
		}
		steps = append(steps, found...)
	}
	return steps
}

// busy reports whether a learner may be receiving data. A learner that does not start does not count, so that voters
// can be replaced.
func (c *cluster) busy() bool {
	return slices.ContainsFunc(c.learners, func(s *memberState) bool {
		return s.answer != nil || s.pod != nil && s.pod.Running && s.pod.Report == nil
	})
}

func (c *cluster) startOrPromote(s *memberState) (steps []Step) {
	if s.ordinal >= c.want.Replicas {
		return c.do(PhaseScaling, c.remove(s, nil), "remove the learner %s: it is not wanted any more", s.name())
	}
	phase := PhaseScaling
	if c.inside(s.ordinal) {
		phase = PhaseRecovering
	}
	if s.answer != nil {
		steps = c.promote(phase, s)
	} else {
		steps = c.startLearner(phase, s)
	}
	for i := range steps {
		steps[i].ongoing = phase == PhaseScaling
	}
	return steps
}

// promote makes a learner a voter when the learner answers and has the data.
func (c *cluster) promote(phase string, s *memberState) []Step {
	switch {
	case s.Name == "":
		return c.wait(phase, "%s joins the cluster", s.name())
	case c.behind[s] || c.requestTarget(s) == (Place{}): // if no voter answers, it is unknown how much the learner lacks
		return c.wait(phase, "%s gets the data", s.name())
	default:
		return c.do(phase, Step{Action: ActionPromote, Member: s.ID, Via: c.requestTarget(s), Expect: c.list, Healthy: []Place{s.place()}, Ordinal: s.ordinal},
			"let %s vote: it has the data", s.name())
	}
}

// startLearner returns the step that starts a learner which does not answer.
func (c *cluster) startLearner(phase string, s *memberState) []Step {
	p := s.pod
	switch {
	case p == nil || p.Terminating:
		return c.wait(phase, "%s was added to the cluster and starts: %s", s.name(), p.trouble())
	case p.Report == nil:
		return c.startUnseen(phase, s)
	case p.Report.Volume == VolumeForeign:
		c.stuck = true
		return c.wait(PhaseFailed, "%s cannot join: its volume has data that this operator did not write. Empty the volume, or delete the claim and the pod", p.Name)
	case p.Report.Damage != "" && c.want.ReplaceAfter > 0:
		return c.do(phase, c.remove(s, nil), "remove the learner %s: its data is damaged: %s", p.Name, p.Report.Damage)
	case p.Report.Volume == VolumeData && (p.Report.Member == s.ID || p.Report.Member == 0):
		return c.wait(phase, "%s starts: %s", p.Name, p.trouble())
	case s.Name != "" || p.Report.Used == JoinTicket(s.ID):
		return c.do(phase, c.remove(s, nil), "remove the learner %s: it was started before, but the volume no longer has its data", p.Name)
	case p.Report.Volume == VolumeData:
		return c.clearVolume(phase, s.ordinal)
	default:
		return c.letJoin(phase, s)
	}
}

// startUnseen returns the step for a learner whose agent does not report.
func (c *cluster) startUnseen(phase string, s *memberState) []Step {
	p := s.pod
	switch {
	case c.runsRemoved(p):
		step := p.deletePod()
		step.Via, step.Expect = c.requestTarget(nil), c.list
		return c.do(phase, step, "delete pod %s: member %s, which was removed from the cluster, runs in the place of the learner %s", p.Name, p.Answer.Member, s.ID)
	case c.want.ReplaceAfter > 0 && p.Crashing && p.NotReadyFor >= c.want.ReplaceAfter:
		return c.do(phase, c.remove(s, nil), "remove the learner %s: %s", p.Name, p.trouble())
	case p.Silent && c.isBeyondGap():
		return c.do(phase, Step{Action: ActionAppend, Via: c.requestTarget(s)}, "append an empty entry to the log: %s may have all other entries, but serves only after a further entry", p.Name)
	default:
		return c.wait(phase, "%s starts: %s", p.Name, p.trouble())
	}
}

// runsRemoved reports whether a member that was removed from the cluster runs in a pod.
func (c *cluster) runsRemoved(p *Pod) bool {
	return p.Answer != nil && p.Answer.Cluster == c.id && c.member(p.Answer.Member) == nil
}

// applyGap is the maximum number of log entries that etcd may have committed and not applied. Above it, etcd refuses
// all requests, even those with which a member begins to serve (maxGapBetweenApplyAndCommitIndex in etcd's
// server/etcdserver, 3.4 to 3.6). A member that has received a snapshot counts the snapshot as applied only after the
// next entry. Without writes, there is no next entry.
const applyGap = 5000

// isBeyondGap reports whether the log is longer than applyGap. If the log is longer, a member that has received a
// snapshot serves only after one more entry is written.
func (c *cluster) isBeyondGap() bool {
	return slices.ContainsFunc(c.voters, func(s *memberState) bool { return s.answer != nil && s.answer.Index > applyGap })
}

// letJoin gives a ticket to a learner that waits with an empty volume. Before that, it marks the claim with the
// learner's ID. So if the learner is removed before it answers, the mark shows that the claim's data is not needed.
func (c *cluster) letJoin(phase string, s *memberState) []Step {
	p := s.pod
	switch {
	case s.claim == nil || s.claim.Terminating:
		return c.wait(phase, "%s waits for a new claim", p.Name)
	case s.claim.Member != s.ID:
		mark := Mark{Cluster: c.id, Member: s.ID, Version: c.Record.Version, Tokens: c.Record.Tokens}
		return c.do(phase, Step{Action: ActionMarkClaim, Ordinal: s.ordinal, Claim: s.claim.at(), Mark: mark, Pod: p.place()},
			"record on claim %s that it is for member %s", s.claim.Name, s.ID)
	case p.Ticket != JoinTicket(s.ID):
		return c.do(phase, Step{Action: ActionTicket, Pod: p.place(), Ticket: JoinTicket(s.ID), Member: s.ID, Via: c.requestTarget(s), Expect: c.list},
			"let %s start as member %s", p.Name, s.ID)
	default:
		return c.wait(phase, "%s starts as member %s", p.Name, s.ID)
	}
}

// inside reports whether a higher ordinal has a voter. If so, this ordinal also had a voter before.
func (c *cluster) inside(ordinal int) bool {
	for _, s := range c.voters {
		if s.ordinal > ordinal {
			return true
		}
	}
	return false
}

// strangers reports members that have no pod of this cluster. It does not remove them, because another program has added them.
func (c *cluster) strangers() []Step {
	for _, s := range c.members {
		if s.ordinal < 0 {
			c.stuck = true
			c.blocked("no pod of this cluster runs member %s (%s): remove the member with etcdctl if it is not needed", s.ID, s.Name)
		}
	}
	return nil
}

// clear deletes the volumes of removed members, so that new members can start at their ordinals. It deletes the claim
// before the pod. In the other order, the new pod could wait forever for a claim that is being deleted.
func (c *cluster) clear() (steps []Step) {
	for ordinal := range MaxReplicas {
		planned := c.planned()
		if c.at[ordinal] != nil || ordinal >= c.want.Replicas && (ordinal < planned || c.pods[ordinal] != nil) {
			continue // a member uses the volume, or the volume is deleted after its pod
		}
		phase := PhaseRecovering
		if ordinal >= c.want.Replicas {
			phase = PhaseScaling
		}
		steps = append(steps, c.clearVolume(phase, ordinal)...)
	}
	return steps
}

// isFree reports whether the volume of an ordinal has no member's data: the ordinal has no member, or a learner that was never started.
func (c *cluster) isFree(ordinal int) bool {
	s := c.at[ordinal]
	return s == nil || s.Learner && s.Name == "" && s.answer == nil
}

// clearLeaving replaces a pod if its claim is being deleted and the claim's data belongs to a removed member. Such a claim
// would keep the cluster from being parked.
func (c *cluster) clearLeaving() (steps []Step) {
	for ordinal := range MaxReplicas {
		if claim := c.claims[ordinal]; c.proven && claim != nil && claim.Terminating && c.isFree(ordinal) {
			steps = append(steps, c.clearVolume(PhaseParked, ordinal)...)
		}
	}
	return steps
}

// clearVolume deletes the claim of an ordinal, and then its pod, if the volume holds the data of a removed member of this cluster.
func (c *cluster) clearVolume(phase string, ordinal int) []Step {
	p, claim := c.pods[ordinal], c.claims[ordinal]
	if p != nil && p.Terminating || claim == nil {
		return nil
	}
	if claim.Terminating {
		if p == nil || !c.isFree(ordinal) || c.losesData(ordinal) {
			return nil
		}
		step := p.deletePod()
		step.Via, step.Expect = c.requestTarget(nil), c.list
		return c.do(phase, step, "delete pod %s: its claim is being deleted, and the new pod gets a new claim", p.Name)
	}
	if p != nil && p.Report != nil && p.Report.Volume == VolumeForeign {
		c.stuck = true
		return c.blocked("%s is not used: its volume has data that this operator did not write. Empty the volume, or delete the claim and the pod", p.Name)
	}
	owner := c.ownerOf(p, claim)
	if owner == 0 || c.member(owner) != nil {
		return nil
	}
	step := Step{Action: ActionDeleteClaim, Ordinal: ordinal, Claim: claim.at(), Member: owner, Via: c.requestTarget(nil), Expect: c.list}
	if p != nil {
		step.Pod = p.place()
	}
	return c.do(phase, step, "delete claim %s: its data belongs to member %s, which was removed from the cluster", claim.Name, owner)
}

// ownerOf returns the member that owns the data on a volume, or 0. A report or an answer takes precedence over the claim.
func (c *cluster) ownerOf(p *Pod, claim *Claim) ID {
	switch {
	case p != nil && p.Report != nil && p.Report.Volume == VolumeEmpty:
		return 0
	case p != nil && p.Report != nil && p.Report.Cluster == c.id:
		return p.Report.Member
	case p != nil && p.Answer != nil:
		return p.Answer.Member
	case claim.Cluster == c.id:
		return claim.Member
	default:
		return 0
	}
}
