// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"cmp"
	"slices"
)

// voterBad removes a voter that is of no use, so that commits do not depend on it. The record's primary serves as the record
// says when this rule runs.
func (c *cluster) voterBad() *Decision {
	p, answers := c.primary()
	if !answers {
		return nil
	}
	var good, bad []Identity
	for _, id := range c.record.Voters {
		m := c.at(id.Ordinal)
		if m.Bad || m.Answers && (m.Volume != VolumeOwn || m.Server != "" && m.Identity != id) {
			bad = append(bad, id)
		} else {
			good = append(good, id)
		}
	}
	cut := slices.ContainsFunc(c.record.Voters, func(id Identity) bool { return slices.Contains(p.Cut, id.Ordinal) })
	serves := Proof{Member: p, Fact: FactServes}
	switch {
	case len(c.record.Voters) == 0 && c.record.Acknowledgements > 0:
		return c.waitsForCopy(p)
	case len(bad) == 0 && cut:
		return c.write(StateVoterBad, c.record.next(), nil, "all voters are well again: another revision lets them in")
	case len(bad) == 0:
		return nil
	case len(good) == 0 && c.want.WhenAlone != Write:
		return c.say(StateVoterBad, "no voter is well, and spec.replication.whenAlone is Block: commits wait for a copy")
	case len(good) == 0:
		return c.write(StateVoterBad, c.alone(), []Proof{serves}, "no voter is well: member %d goes on alone", p.Ordinal)
	}
	return c.shrink(p, good, bad)
}

// alone returns the record in which the primary needs no acknowledgement, and nothing else may be promoted.
func (c *cluster) alone() Record {
	next := c.record.next()
	next.Voters, next.Acknowledgements = nil, 0
	return next
}

// shrink cuts bad voters off, and removes them once the others have all that was written up to then. What is written and
// waits counts: a bad voter may have acknowledged it.
func (c *cluster) shrink(p Member, good, bad []Identity) *Decision {
	for _, id := range good {
		if slices.Contains(p.Cut, id.Ordinal) {
			return c.write(StateVoterBad, c.record.next(), nil, "voter %d is well again: another revision lets it in", id.Ordinal)
		}
	}
	var cutVoters []int
	for _, id := range bad {
		cutVoters = append(cutVoters, id.Ordinal)
	}
	if slices.ContainsFunc(cutVoters, func(ordinal int) bool { return !slices.Contains(p.Cut, ordinal) }) {
		step := c.order(ActionServe, p)
		_, others := c.cuts(p)
		step.Demands, step.CutVoters, step.CutOthers = c.record.Acknowledgements, cutVoters, others
		return c.do(StateVoterBad, step, "the primary refuses voters %v, which are of no use", cutVoters)
	}
	next := c.record.next()
	next.Voters = good
	proof := []Proof{{Member: p, Fact: FactCut}}
	for _, id := range good {
		m := c.at(id.Ordinal)
		if !m.usable() || !c.follows(m) || m.ReadTo.Before(p.CutEnd) {
			return c.say(StateVoterBad, "voter %d gets what the primary wrote before voters %v were cut off", id.Ordinal, cutVoters)
		}
		proof = append(proof, Proof{Member: m, Fact: FactHasLog, Position: p.CutEnd})
	}
	return c.write(StateVoterBad, next, proof, "voters %v are removed: the others have all", cutVoters)
}

func (c *cluster) follows(m Member) bool {
	return m.Role == RoleReplica && m.Source == c.record.Primary.Ordinal && m.Connected
}

// waitsForCopy ends the state in which the primary needs an acknowledgement and has no voter.
func (c *cluster) waitsForCopy(p Member) *Decision {
	for _, m := range c.others() {
		if c.follows(m) && m.Revision == c.record.Revision && !m.Bad {
			return nil // grow makes it a voter
		}
	}
	for _, m := range c.others() {
		if !m.Bad && p.Executed.Contains(m.Received) {
			return nil // join has it follow
		}
	}
	if c.want.WhenAlone != Write {
		return nil
	}
	return c.write(StateVoterBad, c.alone(), []Proof{{Member: p, Fact: FactServes}}, "no member can be a copy: member %d goes on alone", p.Ordinal)
}

// errant has a member join again that has transactions which the primary has not.
func (c *cluster) errant() *Decision {
	p, answers := c.primary()
	if !answers {
		return nil
	}
	for _, m := range c.others() {
		if p.Executed.Contains(m.Received) {
			continue
		}
		if p.Waiting > 0 || m.Role == RolePrimary {
			c.notes = append(c.notes, "commits wait: what other members have more is judged after that")
			continue
		}
		if m.UsedTicket == JoinTicket(c.record, p.Identity) {
			return c.write(StateErrant, c.record.next(), nil, "member %d joined, and has other transactions again: another revision lets it try once more", m.Ordinal)
		}
		step := c.ticket(m, JoinTicket(c.record, p.Identity))
		step.Source, step.Proof = p.Identity, []Proof{{Member: m, Fact: FactErrant}, {Member: p, Fact: FactServes}}
		return c.do(StateErrant, step, "member %d has transactions that the primary has not: its data is set aside, and it joins again", m.Ordinal)
	}
	return nil
}

// join gives data to members that have none, and has members follow that have some.
func (c *cluster) join() *Decision {
	p, answers := c.primary()
	if !answers {
		return nil
	}
	for _, m := range c.members {
		if !m.Answers || m.Ordinal >= c.want.Replicas || m.Volume != VolumeEmpty {
			continue
		}
		ticket := JoinTicket(c.record, p.Identity)
		if m.UsedTicket == ticket {
			return c.write(StateJoining, c.record.next(), nil, "the copy to member %d broke off: another revision lets it try once more", m.Ordinal)
		}
		step := c.ticket(m, ticket)
		step.Source, step.Proof = p.Identity, []Proof{{Member: m, Fact: FactEmpty}, {Member: p, Fact: FactServes}}
		return c.do(StateJoining, step, "member %d copies the data of member %d", m.Ordinal, p.Ordinal)
	}
	for _, m := range c.others() {
		if p.Executed.Contains(m.Received) {
			if d := c.follow(m, false); d != nil {
				return d
			}
		}
	}
	return nil
}

// grow makes a voter of a member that has caught up.
func (c *cluster) grow() *Decision {
	p, answers := c.primary()
	if !answers || len(c.record.Voters) >= min(c.want.MaxVoters, c.want.Replicas-1) {
		return nil
	}
	for _, m := range c.others() {
		if m.Ordinal >= c.want.Replicas || m.Bad || !c.follows(m) || m.Revision != c.record.Revision || m.Acknowledges || slices.Contains(p.Cut, m.Ordinal) || !m.CaughtUp {
			continue
		}
		next := c.record.next()
		next.Acknowledgements = 1
		if c.record.Acknowledgements == 0 {
			return c.write(StateGrowing, next, nil, "member %d has caught up: the primary needs an acknowledgement from now on", m.Ordinal)
		}
		proof := []Proof{{Member: p, Fact: FactServes}}
		if len(c.record.Voters) == 0 {
			if m.ReadTo.Before(p.End) {
				return c.say(StateGrowing, "member %d gets the last transactions before it becomes a voter", m.Ordinal)
			}
			proof = append(proof, Proof{Member: m, Fact: FactHasLog, Position: p.End})
		}
		next.Voters = append(next.Voters, m.Identity)
		slices.SortFunc(next.Voters, func(a, b Identity) int { return cmp.Compare(a.Ordinal, b.Ordinal) })
		return c.write(StateGrowing, next, proof, "member %d becomes a voter", m.Ordinal)
	}
	return nil
}

// blocked wakes a receiver that lost an event, when commits wait though voters are connected.
func (c *cluster) blocked() *Decision {
	p, answers := c.primary()
	if !answers || !p.Blocked {
		return nil
	}
	for _, m := range c.voterMembers() {
		if c.follows(m) {
			return c.do(StateBlocked, c.order(ActionHeartbeat, p), "commits wait for five seconds, and voter %d is connected: a row is written to wake it", m.Ordinal)
		}
	}
	return c.say(StateBlocked, "commits wait: no voter is connected")
}
