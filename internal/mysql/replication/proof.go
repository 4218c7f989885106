// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import "fmt"

// Prove returns nil if all facts of the step still hold in a newer observation. Otherwise it returns the first fact
// that does not hold. An executor calls it right before the step's side effect.
func (s Step) Prove(now Observation) error {
	c := &cluster{record: now.Record, members: now.Members}
	if now.Record.Revision != s.basis() {
		return fmt.Errorf("the record now has revision %d, but the decision for the step was based on revision %d", now.Record.Revision, s.basis())
	}
	for _, observed := range s.Members() {
		if !c.at(observed.Ordinal).isSame(observed) {
			return fmt.Errorf("member %d has changed: its pod or its data was replaced, or its server was restarted", observed.Ordinal)
		}
	}
	for _, p := range s.Proof {
		if !c.holds(p) {
			return fmt.Errorf("member %d: the fact %q is no longer proven", p.Member.Ordinal, p.Fact)
		}
	}
	return nil
}

// basis returns the revision of the record on which the decision of the step is based.
func (s Step) basis() int64 {
	if s.Action == ActionRecord {
		return s.Was.Revision
	}
	return s.Revision
}

// isSame reports whether the pod, the data and the start of the server are unchanged since the observation.
func (m Member) isSame(observed Member) bool {
	return m.UID == observed.UID && m.Identity == observed.Identity && m.Instance == observed.Instance
}

func (c *cluster) holds(p Proof) bool {
	m := c.at(p.Member.Ordinal)
	if p.Fact == FactSilent || p.Fact == FactGone {
		return !m.usable() || m.Identity != c.record.Primary
	}
	if !m.Answers || !m.isSame(p.Member) {
		return false
	}
	switch p.Fact { //nolint:exhaustive // the others need a running server
	case FactEmpty:
		return m.hasNoData()
	case FactSingle:
		return m.Volume == VolumeSingle && m.Mark == p.Member.Mark
	}
	return m.usable() && (c.replicaHolds(m, p) || c.primaryHolds(m, p))
}

func (c *cluster) replicaHolds(m Member, p Proof) bool {
	switch p.Fact { //nolint:exhaustive // the others are of a primary, or above
	case FactPromised:
		return m.Role == RoleNone && m.Promised == p.Member.Promised && m.Received.Equal(p.Member.Received)
	case FactDrained:
		return m.drained() && m.Received.Equal(p.Member.Received)
	case FactHasLog:
		return c.follows(m) && !m.ReadTo.Before(p.Position)
	case FactErrant:
		return m.Role != RolePrimary && !c.at(c.record.Primary.Ordinal).Executed.Contains(m.Received)
	case FactAhead:
		p, answers := c.primary()
		return answers && p.Role == RoleNone && p.lacksOwn(m)
	case FactDamaged:
		return m.Role != RolePrimary && m.Damage != "" && !c.record.IsVoter(m.Identity) && c.at(c.record.Primary.Ordinal).Executed.Contains(m.Received)
	case FactBehind:
		p := c.at(c.record.Primary.Ordinal)
		return m.Role != RolePrimary && p.Executed.Contains(m.Received) && c.cannotFollow(m, p)
	}
	return false
}

func (c *cluster) primaryHolds(m Member, p Proof) bool {
	if m.Role != RolePrimary || m.Epoch != p.Member.Epoch || m.Revision != p.Member.Revision {
		return false
	}
	return p.Fact == FactServes && m.Demands == p.Member.Demands ||
		p.Fact == FactCut && sameOrdinals(m.Cut, p.Member.Cut) && m.CutEnd == p.Member.CutEnd
}
