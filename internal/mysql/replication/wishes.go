// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import "slices"

// broken deletes the pod of a member that cannot run, if the StatefulSet would create a different pod: the user may
// have fixed the cause. No server runs in the pod. If the latest change has failed on another pod, broken keeps the
// pods of the primary and of voters, because they may serve again.
func (c *cluster) broken() *Decision {
	var failed *Member
	if _, answers := c.primary(); answers {
		failed = c.failed()
	}
	for _, m := range c.members {
		isMember := m.Identity == c.record.Primary || c.record.IsVoter(m.Identity)
		if m.Outdated && m.UID != "" && (m.Down || m.cannotStart()) && (failed == nil || !isMember) {
			return c.do(StateRolling, c.order(ActionDeletePod, m), "member %d cannot run, and its pod is outdated: a new pod is created", m.Ordinal)
		}
	}
	return nil
}

// cannotStart reports whether the agent has run for a long time without a server. Either the server does not start on
// the data, or the member fails to create its first data.
func (m Member) cannotStart() bool {
	isMaking := m.Volume != VolumeOwn && m.Ticket != "" && m.FailedTicket == m.Ticket
	return m.Answers && m.Bad && !m.Running && (m.Failing || isMaking)
}

// mostVoters returns the maximum number of voters. If neither the primary nor a voter is a wanted member, the maximum
// is one more than the present number, because the primary's role can move only to a voter that is a wanted member.
func (c *cluster) mostVoters(p Member) int {
	stays := func(id Identity) bool { return id.Ordinal < c.want.Replicas }
	switch {
	case stays(p.Identity):
		return min(c.want.MaxVoters, c.want.Replicas-1)
	case slices.ContainsFunc(c.record.Voters, stays):
		return len(c.record.Voters)
	}
	return len(c.record.Voters) + 1
}

// leaving returns healthy voters that must leave: those that are not wanted, or else the voter whose pod is restarted
// next. While the primary itself is not wanted, none must leave. A single voter is restarted without leaving, and
// commits wait for it.
func (c *cluster) leaving() []Identity {
	if c.record.Primary.Ordinal >= c.want.Replicas {
		return nil
	}
	var surplus []Identity
	for _, id := range c.record.Voters {
		if id.Ordinal >= c.want.Replicas {
			surplus = append(surplus, id)
		}
	}
	if next := c.nextToRoll(); surplus == nil && len(c.record.Voters) > 1 && next != nil && c.record.IsVoter(next.Identity) {
		return []Identity{next.Identity}
	}
	return surplus
}

// nextToRoll returns the outdated member to restart next, or nil if another replica is not healthy or another pod is
// not settled. Members that are not voters come before voters. It never returns the primary.
func (c *cluster) nextToRoll() *Member {
	var next *Member
	for _, isVoter := range []bool{false, true} {
		for _, m := range c.members {
			if next == nil && m.Outdated && m.UID != "" && m.Ordinal < c.want.Replicas && m.Ordinal != c.record.Primary.Ordinal && c.record.IsVoter(m.Identity) == isVoter {
				next = &m
			}
		}
	}
	if next == nil {
		return nil
	}
	for ordinal := range c.want.Replicas {
		if m := c.at(ordinal); ordinal != next.Ordinal && ordinal != c.record.Primary.Ordinal && !c.isWell(m) {
			return nil
		}
	}
	if c.unsettled(next.Ordinal) != nil {
		return nil
	}
	return next
}

// isSettled reports whether a pod has been ready without a restart for long enough.
func (c *cluster) isSettled(m Member) bool { return m.WellFor >= c.want.WellFor }

// failed returns a member whose pod has the latest revision and is not settled, and in which a container has ended; nil for none.
func (c *cluster) failed() *Member {
	for _, m := range c.members {
		if m.UID != "" && !m.Outdated && m.Ended != "" && !c.isSettled(m) {
			return &m
		}
	}
	return nil
}

// unsettled returns the first wanted member, except the given one, whose pod is not settled; nil for none.
func (c *cluster) unsettled(except int) *Member {
	for ordinal := range c.want.Replicas {
		if m := c.at(ordinal); ordinal != except && !c.isSettled(m) {
			return &m
		}
	}
	return nil
}

// isWell reports whether a replica follows the primary without lag.
func (c *cluster) isWell(m Member) bool {
	return m.usable() && c.follows(m) && m.CaughtUp && !m.Bad
}

// isOutdated reports whether a wanted member has an outdated pod.
func (c *cluster) isOutdated() bool {
	return slices.ContainsFunc(c.members, func(m Member) bool { return m.Outdated && m.Ordinal < c.want.Replicas })
}

// roll restarts outdated pods one at a time. The primary is restarted last, after another member has become the primary (see target).
func (c *cluster) roll() *Decision {
	p, answers := c.primary()
	if !answers {
		return nil
	}
	next, unsettled := c.nextToRoll(), c.unsettled(p.Ordinal)
	switch {
	case next != nil && (!c.record.IsVoter(next.Identity) || len(c.record.Voters) == 1):
		return c.do(StateRolling, c.order(ActionDeletePod, *next), "member %d is restarted with its new pod", next.Ordinal)
	case next != nil:
		return nil // voterBad first removes it from the voters
	case !c.isOutdated():
		return nil
	case c.failed() != nil:
		failed := c.failed()
		return c.say(StateRolling, "the last change failed on member %d (%s): no further pod is replaced; correct the change", failed.Ordinal, failed.Ended)
	case c.want.Replicas > 1 && unsettled != nil && !unsettled.Outdated:
		return c.say(StateRolling, "pods are outdated: member %d must be ready for %s without a restart before the next member is restarted", unsettled.Ordinal, c.want.WellFor)
	case slices.ContainsFunc(c.members, func(m Member) bool { return m.Outdated && m.Ordinal != p.Ordinal && m.Ordinal < c.want.Replicas }):
		return c.say(StateRolling, "pods are outdated: waiting until all other members follow the primary before a member is restarted")
	case p.Outdated && c.want.Replicas == 1 && len(c.record.Voters) == 0 && c.record.Acknowledgements == 0:
		return c.do(StateRolling, c.order(ActionDeletePod, p), "member %d is restarted with its new pod; there is no other member", p.Ordinal)
	}
	return nil
}

// target returns the member that must become the primary. This is the member that the user names. If the primary must
// leave, or is the last outdated member, it may also be any suitable voter.
func (c *cluster) target() (ordinal int, isWanted bool) {
	p := c.at(c.record.Primary.Ordinal)
	isLastToRoll := p.Outdated && c.want.Replicas > 1 && len(c.record.Voters) >= c.mostVoters(p) && c.unsettled(p.Ordinal) == nil // all others were restarted, and vote again
	mustGo := p.Ordinal >= c.want.Replicas || isLastToRoll
	if c.want.Switch && c.want.To < c.want.Replicas && (!mustGo || c.want.To != p.Ordinal) {
		return c.want.To, true
	}
	if !mustGo {
		return 0, false
	}
	for _, id := range c.record.Voters {
		if m := c.at(id.Ordinal); m.usable() && m.Identity == id && m.Ordinal < c.want.Replicas && !m.Outdated {
			return m.Ordinal, true
		}
	}
	return 0, false
}
