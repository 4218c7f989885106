// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// voterBad removes a voter that is bad or must leave, so that commits do not depend on it. At this point, the record's
// primary already accepts writes with the recorded settings.
func (c *cluster) voterBad() *Decision {
	p, answers := c.primary()
	if !answers {
		return nil
	}
	good, bad := c.judgeVoters(p)
	cut := slices.ContainsFunc(c.record.Voters, func(id Identity) bool { return slices.Contains(p.Cut, id.Ordinal) })
	serves := Proof{Member: p, Fact: FactServes}
	switch {
	case len(c.record.Voters) == 0 && c.record.Acknowledgements > 0:
		return c.waitsForCopy(p)
	case len(bad) == 0 && cut:
		return c.write(StateVoterBad, c.record.next(), nil, "all voters are well again: a new revision of the record lets them connect again")
	case len(bad) == 0:
		return nil
	case len(good) == 0 && c.want.WhenAlone != Write && c.mostVoters(p) > 0 && !slices.ContainsFunc(bad, func(id Identity) bool { return !c.at(id.Ordinal).isDamaged() }):
		next := c.alone()
		next.Acknowledgements = 1
		return c.write(StateVoterBad, next, []Proof{serves}, "no voter can apply what it receives: commits wait until a member can apply them")
	case len(good) == 0 && c.want.WhenAlone != Write && c.mostVoters(p) > 0 && cut:
		return c.write(StateVoterBad, c.record.next(), nil, "no voter is well, and spec.replication.whenAlone is Block: a new revision of the record lets all of them connect again")
	case len(good) == 0 && c.want.WhenAlone != Write && c.mostVoters(p) > 0:
		return c.say(StateVoterBad, "no voter is well, and spec.replication.whenAlone is Block: commits wait for a copy")
	case len(good) == 0:
		return c.write(StateVoterBad, c.alone(), []Proof{serves}, "no voter remains: member %d continues alone", p.Ordinal)
	}
	return c.shrink(p, good, bad)
}

// judgeVoters divides the voters into good ones and bad ones, which must leave. If no voter is good, voters that only
// lag stay: they receive and acknowledge each transaction, and without them the primary would have the only copy. If
// all voters are errant, they leave one at a time, to copy the data.
func (c *cluster) judgeVoters(p Member) (good, bad []Identity) {
	leaving := c.leaving()
	var lagging, errant []Identity
	for _, id := range c.record.Voters {
		m := c.at(id.Ordinal)
		isCopy, hasMore := m.usable() && c.follows(m) && m.Acknowledges, m.usable() && isErrant(m, p)
		switch {
		case slices.Contains(leaving, id) || m.isOther(id) || hasMore && !isCopy:
			bad = append(bad, id)
		case hasMore:
			errant = append(errant, id)
		case m.Bad && isCopy && !m.isDamaged():
			lagging = append(lagging, id)
		case m.Bad:
			bad = append(bad, id)
		default:
			good = append(good, id)
		}
	}
	switch {
	case len(good) > 0:
		return good, slices.Concat(bad, lagging, errant)
	case len(lagging) > 0 || c.want.Replicas <= 2:
		return lagging, append(bad, errant...)
	case len(errant) > 1:
		return errant[1:], append(bad, errant[0])
	}
	for _, id := range errant {
		c.notes = append(c.notes, fmt.Sprintf("voter %d has transactions that the primary lacks: it copies the data when another voter is well", id.Ordinal))
	}
	return errant, bad
}

// isOther reports whether the member at the ordinal of a voter does not have that voter's data any more.
func (m Member) isOther(id Identity) bool {
	return m.hasOther(id) || m.Answers && m.Volume == VolumeForeign
}

// alone returns the record of a primary without voters: it needs no acknowledgement, and no other member may be promoted.
func (c *cluster) alone() Record {
	next := c.record.next()
	next.Voters, next.Acknowledgements = nil, 0
	return next
}

// shrink makes the primary refuse bad voters, and then removes them from the record. Before that, the other voters must
// have all transactions that a bad voter may have acknowledged. These include transactions whose commits still wait.
func (c *cluster) shrink(p Member, good, bad []Identity) *Decision {
	state := StateVoterBad
	if next := c.nextToRoll(); next != nil && !next.Bad && slices.Equal(bad, []Identity{next.Identity}) {
		state = StateRolling
	}
	for _, id := range good {
		if slices.Contains(p.Cut, id.Ordinal) {
			return c.write(state, c.record.next(), nil, "voter %d is well again: a new revision of the record lets it connect again", id.Ordinal)
		}
	}
	var cutVoters []int
	for _, id := range bad {
		cutVoters = append(cutVoters, id.Ordinal)
	}
	if slices.ContainsFunc(cutVoters, func(ordinal int) bool { return !slices.Contains(p.Cut, ordinal) }) {
		_, others := c.cuts(p)
		return c.do(state, c.serveStep(p, cutVoters, others), "the primary refuses connections of voters %v, which are not well or are being removed", cutVoters)
	}
	next := c.record.next()
	next.Voters = good
	proof := []Proof{{Member: p, Fact: FactCut}}
	for _, id := range good {
		m := c.at(id.Ordinal)
		if !m.usable() || !c.follows(m) || m.ReadTo.Before(p.CutEnd) {
			return c.say(state, "voter %d still receives what the primary wrote before the primary refused voters %v", id.Ordinal, cutVoters)
		}
		proof = append(proof, Proof{Member: m, Fact: FactHasLog, Position: p.CutEnd})
	}
	return c.write(state, next, proof, "voters %v are removed: the other voters have all transactions", cutVoters)
}

// follows reports whether a member receives from the record's primary.
func (c *cluster) follows(m Member) bool {
	return m.Role == RoleReplica && m.Source == c.record.Primary.Ordinal && m.Connected && !c.followsOther(m)
}

// followsOther reports whether a member is connected to a server that is not the record's primary.
func (c *cluster) followsOther(m Member) bool {
	return m.Role == RoleReplica && m.SourceServer != "" && m.SourceServer != c.record.Primary.Server
}

// waitsForCopy handles a primary that needs an acknowledgement but has no voter. If a member can become a voter, commits
// wait for that member. Otherwise the primary continues alone, if the spec permits that.
func (c *cluster) waitsForCopy(p Member) *Decision {
	if c.mostVoters(p) > 0 {
		for _, m := range c.others() {
			if !m.Bad && (c.follows(m) && m.Revision == c.record.Revision || p.Executed.Contains(m.Received) && !c.cannotFollow(m, p)) {
				return nil // join starts its replication, and grow makes it a voter
			}
		}
		if c.want.WhenAlone != Write {
			return nil
		}
	}
	return c.write(StateVoterBad, c.alone(), []Proof{{Member: p, Fact: FactServes}}, "no member can be a copy: member %d continues alone", p.Ordinal)
}

// isErrant reports whether a member has transactions that the primary lacks. Transactions that the primary's own server
// has written do not count, because the primary's answer may not show them yet.
func isErrant(m, primary Member) bool {
	others := maps.Clone(m.Received)
	maps.DeleteFunc(others, func(source string, _ []interval) bool { return isFrom(source, primary.Server) })
	return !primary.Executed.Contains(others)
}

// cannotFollow reports whether a member can never get all missing transactions from the primary, in two cases. (1) The
// member is not connected, and the primary has removed some of them from its logs. (2) The member's own server has
// written some of them, and a replica skips those.
func (c *cluster) cannotFollow(m, primary Member) bool {
	return !c.follows(m) && !m.Received.Contains(primary.Purged) || m.lacksOwn(primary)
}

// lacksOwn reports whether this member lacks transactions that its own server has written and that another member has. Such transactions
// prove that this member's volume was reset to an older state: a server writes each transaction to its disk before it sends the transaction.
func (m Member) lacksOwn(other Member) bool {
	own := maps.Clone(other.Received)
	maps.DeleteFunc(own, func(source string, _ []interval) bool { return !isFrom(source, m.Server) })
	return m.Server != "" && !m.Received.Contains(own)
}

// isFrom reports whether a server is the source of transactions, with or without a tag.
func isFrom(source, server string) bool {
	return source == server || strings.HasPrefix(source, server+":")
}

// errant makes a member copy the primary's data (rejoin) in three cases: it has transactions that the primary lacks, it
// can never follow the primary, or it can never apply what it received. If only its relay log is damaged, it receives
// the transactions of the relay log again (renew).
func (c *cluster) errant() *Decision {
	p, answers := c.primary()
	if !answers {
		return nil
	}
	for _, m := range c.others() {
		hasMore, isBehind := !p.Executed.Contains(m.Received), c.cannotFollow(m, p)
		if m.Ordinal >= c.want.Replicas || !hasMore && !isBehind && !m.isDamaged() || m.isJoining(p.Identity) {
			continue
		}
		if !hasMore && !isBehind && m.Damage == DamageLog && m.Orders >= renewOrders {
			return c.renew(m, p)
		}
		if hasMore && (p.Waiting > 0 || p.Busy && !isErrant(m, p)) || m.Role == RolePrimary {
			c.notes = append(c.notes, "commits wait: transactions that only other members have are judged when no commit waits")
			continue
		}
		if c.isCopied(p) {
			c.notes = append(c.notes, fmt.Sprintf("member %d copies the data of member %d after another member has copied it", m.Ordinal, p.Ordinal))
			continue
		}
		if m.UsedTicket == JoinTicket(c.record, p.Identity) {
			return c.write(StateErrant, c.record.next(), nil, "member %d joined, and again has transactions that the primary lacks: a new revision of the record lets it copy the data once more", m.Ordinal)
		}
		return c.rejoin(m, p, hasMore, isBehind)
	}
	return nil
}

// rejoin makes a member set its data aside and copy the primary's data.
func (c *cluster) rejoin(m, p Member, hasMore, isBehind bool) *Decision {
	state, fact, cause := StateJoining, FactDamaged, "cannot apply what it received"
	switch {
	case hasMore:
		state, fact, cause = StateErrant, FactErrant, "has transactions that the primary lacks"
	case isBehind:
		fact, cause = FactBehind, "lacks transactions that the primary has removed from its logs"
	}
	step := c.ticket(m, JoinTicket(c.record, p.Identity))
	step.Source, step.Proof = p.Identity, []Proof{{Member: m, Fact: fact}, {Member: p, Fact: FactServes}}
	return c.do(state, step, "member %d %s: its data is set aside, and it joins again", m.Ordinal, cause)
}

// renew makes a member drop a relay log that it cannot read, and receive the log's transactions again. That is safe because
// the member is not a voter, and the primary has all transactions that the member received.
func (c *cluster) renew(m, p Member) *Decision {
	step := c.order(ActionFollow, m)
	step.Source, step.Renew, step.Personal = p.Identity, true, p.Orders >= personalOrders
	step.Proof = []Proof{{Member: m, Fact: FactDamaged}, {Member: p, Fact: FactServes}}
	return c.do(StateJoining, step, "member %d cannot read its relay log: it again receives the transactions that it has not applied", m.Ordinal)
}

// join copies data to members without data, and makes members with data follow.
func (c *cluster) join() *Decision {
	p, answers := c.primary()
	if !answers {
		return nil
	}
	for _, m := range c.others() {
		if p.Executed.Contains(m.Received) && !c.cannotFollow(m, p) && m.Ordinal < c.want.Replicas {
			if d := c.follow(m, false); d != nil {
				return d
			}
		}
	}
	for _, m := range c.members {
		if !m.hasNoData() || m.Ordinal >= c.want.Replicas {
			continue
		}
		if c.want.WhenAlone != Write && p.Waiting > 0 && len(c.record.Voters) == 0 && !slices.ContainsFunc(c.others(), c.follows) {
			return c.say(StateBlocked, "commits wait for a copy, but no copy can be made while commits wait: set spec.replication.whenAlone to Write")
		}
		if m.isJoining(p.Identity) {
			c.notes = append(c.notes, fmt.Sprintf("member %d copies the data of member %d", m.Ordinal, p.Ordinal))
			continue
		}
		if c.isCopied(p) {
			c.notes = append(c.notes, fmt.Sprintf("member %d copies the data of member %d after another member has copied it", m.Ordinal, p.Ordinal))
			continue
		}
		ticket := JoinTicket(c.record, p.Identity)
		if m.UsedTicket == ticket {
			return c.write(StateJoining, c.record.next(), nil, "the copy to member %d broke off: a new revision of the record lets the member copy the data once more", m.Ordinal)
		}
		step := c.ticket(m, ticket)
		step.Source, step.Proof = p.Identity, []Proof{{Member: m, Fact: FactEmpty}, {Member: p, Fact: FactServes}}
		return c.do(StateJoining, step, "member %d copies the data of member %d", m.Ordinal, p.Ordinal)
	}
	return nil
}

// isCopied reports whether any member is copying the primary's data now. A server serves only one copy at a time. A
// failed copy does not count, so that other members need not wait for it.
func (c *cluster) isCopied(p Member) bool {
	return slices.ContainsFunc(c.members, func(m Member) bool {
		return m.Answers && m.Role != RolePrimary && m.isJoining(p.Identity) && m.Ticket != m.FailedTicket
	})
}

// grow makes a member a voter when the member has caught up. If commits wait for a first voter, a member that has the log, but has not
// applied all of it, will do.
func (c *cluster) grow() *Decision {
	p, answers := c.primary()
	if !answers || len(c.record.Voters) >= c.mostVoters(p) {
		return nil
	}
	next := c.record.next()
	next.Acknowledgements = 1
	isBlocked := c.record.Acknowledgements > 0 && len(c.record.Voters) == 0
	var late *Decision
	for _, m := range c.learners(p, isBlocked) {
		if c.record.Acknowledgements == 0 {
			return c.write(StateGrowing, next, nil, "member %d has caught up: the primary needs an acknowledgement from now on", m.Ordinal)
		}
		proof := []Proof{{Member: p, Fact: FactServes}}
		if isBlocked {
			if m.ReadTo.Before(p.End) {
				late = cmp.Or(late, c.say(StateGrowing, "member %d gets the last transactions before it becomes a voter", m.Ordinal))
				continue
			}
			proof = append(proof, Proof{Member: m, Fact: FactHasLog, Position: p.End})
		}
		next.Voters = append(next.Voters, m.Identity)
		slices.SortFunc(next.Voters, func(a, b Identity) int { return cmp.Compare(a.Ordinal, b.Ordinal) })
		return c.write(StateGrowing, next, proof, "member %d becomes a voter", m.Ordinal)
	}
	return late
}

// learners returns the members that can become voters: first those that have caught up, and then, if lagging members are allowed, those
// that still apply the log.
func (c *cluster) learners(p Member, lagging bool) (all []Member) {
	var late []Member
	for _, m := range c.others() {
		if m.Outdated && len(c.record.Voters) > 0 {
			continue // the member restarts soon
		}
		if m.Ordinal >= c.want.Replicas || m.Bad || !c.follows(m) || m.Revision != c.record.Revision || m.Acknowledges || slices.Contains(p.Cut, m.Ordinal) {
			continue
		}
		if m.CaughtUp {
			all = append(all, m)
		} else if lagging && m.Damage == "" {
			late = append(late, m)
		}
	}
	return append(all, late...)
}

// catchUp returns a wait while members that are not voters yet catch up, or while the outdated primary waits for
// voters.
func (c *cluster) catchUp() *Decision {
	p, answers := c.primary()
	if !answers || len(c.record.Voters) >= c.mostVoters(p) {
		return nil
	}
	for _, m := range c.others() {
		if m.Ordinal < c.want.Replicas && c.follows(m) && !m.CaughtUp {
			return c.say(StateGrowing, "member %d becomes a voter when it has caught up", m.Ordinal)
		}
	}
	if p.Outdated && c.want.Replicas > 1 {
		return c.say(StateRolling, "the pod of member %d, the primary, is outdated: waiting until all other members are voters", p.Ordinal)
	}
	return nil
}

// blocked handles commits that wait although voters are connected: a receiver may have missed an event. The primary
// then writes a row that wakes the receiver.
func (c *cluster) blocked() *Decision {
	p, answers := c.primary()
	if !answers || !p.Blocked {
		return nil
	}
	for _, m := range c.voterMembers() {
		if c.follows(m) {
			return c.do(StateBlocked, c.order(ActionHeartbeat, p), "commits have waited for five seconds, but voter %d is connected: a row is written to wake the voter", m.Ordinal)
		}
	}
	return c.say(StateBlocked, "commits wait: no voter is connected")
}
