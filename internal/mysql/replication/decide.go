// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"fmt"
	"slices"
)

// cluster is an observation, with what rules ask for.
type cluster struct {
	want    Want
	record  Record
	members []Member
	notes   []string
}

// Decide returns what comes next. It has an answer for every observation. Rules run in order: the first one with an answer
// decides, and each repairs what later rules rely on.
func Decide(want Want, o Observation) Decision {
	c := &cluster{want: want, record: o.Record, members: o.Members}
	for _, m := range c.members {
		if m.Answers && m.Volume == VolumeForeign {
			c.notes = append(c.notes, fmt.Sprintf("the volume of member %d has data of another member: it is left alone", m.Ordinal))
		}
	}
	if !c.record.Formed {
		return c.finish(c.form())
	}
	for _, rule := range []func() *Decision{c.switching, c.primaryLost, c.serve, c.split, c.voters, c.voterBad, c.errant, c.join, c.grow, c.blocked, c.switchover} {
		if d := rule(); d != nil {
			return c.finish(d)
		}
	}
	return c.finish(c.say(StateHealthy, ""))
}

func (c *cluster) finish(d *Decision) Decision {
	d.Model.Notes = c.notes
	return *d
}

func (c *cluster) say(state State, format string, args ...any) *Decision {
	return &Decision{Model: Model{State: state, Message: fmt.Sprintf(format, args...)}}
}

func (c *cluster) do(state State, step Step, format string, args ...any) *Decision {
	d := c.say(state, format, args...)
	step.Message = d.Model.Message
	d.Step = &step
	return d
}

// order returns a step with the record's epoch and revision.
func (c *cluster) order(action Action, to Member) Step {
	return Step{Action: action, Member: to, Epoch: c.record.Epoch, Revision: c.record.Revision}
}

func (c *cluster) write(state State, next Record, proof []Proof, format string, args ...any) *Decision {
	return c.do(state, Step{Action: ActionRecord, Record: &next, Was: c.record, Proof: proof}, format, args...)
}

// at returns the member of an ordinal. One that was not observed does not answer, and is not known to be silent.
func (c *cluster) at(ordinal int) Member {
	for _, m := range c.members {
		if m.Ordinal == ordinal {
			return m
		}
	}
	return Member{Identity: Identity{Ordinal: ordinal}}
}

// primary returns the pod of the record's primary, and whether it answers with that primary's data.
func (c *cluster) primary() (Member, bool) {
	m := c.at(c.record.Primary.Ordinal)
	return m, m.usable() && m.Identity == c.record.Primary
}

// voterMembers returns the voters that answer with the data that counts.
func (c *cluster) voterMembers() []Member {
	var voters []Member
	for _, id := range c.record.Voters {
		if m := c.at(id.Ordinal); m.usable() && m.Identity == id {
			voters = append(voters, m)
		}
	}
	return voters
}

// others returns the members with data of their own that are neither primary nor voter.
func (c *cluster) others() []Member {
	var others []Member
	for _, m := range c.members {
		if m.usable() && m.Identity != c.record.Primary && !c.record.IsVoter(m.Identity) {
			others = append(others, m)
		}
	}
	return others
}

// form makes member 0 the first primary, if no volume has data.
func (c *cluster) form() *Decision {
	if len(c.members) == 0 {
		return c.say(StateFresh, "no member exists")
	}
	var proof []Proof
	for _, m := range c.members[1:] {
		if m.Answers && m.Volume != VolumeEmpty {
			return c.say(StateRecordLost, "member %d has data, and there is no record of a primary: restore the record, or restore a backup", m.Ordinal)
		}
		if !m.Answers {
			return c.say(StateFresh, "waiting for the agent of member %d: what its volume has is not known", m.Ordinal)
		}
		proof = append(proof, Proof{Member: m, Fact: FactEmpty})
	}
	first := c.members[0]
	switch {
	case !first.Answers:
		return c.say(StateFresh, "waiting for the agent of member 0")
	case first.Volume == VolumeEmpty:
		step := Step{Action: ActionTicket, Member: first, Ticket: SeedTicket, Proof: append(proof, Proof{Member: first, Fact: FactEmpty})}
		return c.do(StateFresh, step, "member 0 makes the first data: no volume has any")
	case first.Volume != VolumeOwn || first.Promised != 0 || first.Revision != 0:
		return c.say(StateRecordLost, "member 0 was a member before, and there is no record of a primary: restore the record, or restore a backup")
	case !first.Running:
		return c.say(StateFresh, "member 0 makes the first data")
	}
	next := c.record.next()
	next.Epoch, next.Formed, next.Primary, next.Voters, next.Acknowledgements = 1, true, first.Identity, nil, 0
	return c.write(StateFresh, next, proof, "member 0 becomes the first primary, alone")
}

// serve makes the record's primary serve as the record says.
func (c *cluster) serve() *Decision {
	p, answers := c.primary()
	if !answers {
		return nil
	}
	if p.Role != RolePrimary {
		ticket := PrimaryTicket(c.record.Epoch, c.record.Revision, c.record.Acknowledgements)
		switch {
		case p.UsedTicket == ticket:
			return c.write(StateRecorded, c.record.next(), nil, "member %d started again: another revision lets it become the primary", p.Ordinal)
		case !p.drained():
			return c.say(StateRecorded, "member %d applies its relay log before it becomes the primary", p.Ordinal)
		}
		step := c.order(ActionTicket, p)
		step.Ticket, step.Proof = ticket, []Proof{{Member: p, Fact: FactDrained}}
		return c.do(StateRecorded, step, "member %d becomes the primary of epoch %d", p.Ordinal, c.record.Epoch)
	}
	cutVoters, cutOthers := c.cuts(p)
	if p.Epoch != c.record.Epoch || p.Revision != c.record.Revision || p.Demands != c.record.Acknowledgements || !sameOrdinals(p.Cut, append(cutVoters, cutOthers...)) {
		step := c.order(ActionServe, p)
		step.Demands, step.CutVoters, step.CutOthers = c.record.Acknowledgements, cutVoters, cutOthers
		return c.do(StateRecorded, step, "member %d demands %d acknowledgements", p.Ordinal, step.Demands)
	}
	if !p.Routed {
		return c.do(StateRecorded, c.order(ActionRoute, p), "the Service leads to member %d", p.Ordinal)
	}
	return nil
}

// cuts returns whose connections the primary refuses: voters that are being removed, and all others until they are known
// not to acknowledge.
func (c *cluster) cuts(p Member) (voters, others []int) {
	for ordinal := range max(len(c.members), c.want.Replicas) {
		m := c.at(ordinal)
		isVoter := slices.ContainsFunc(c.record.Voters, func(id Identity) bool { return id.Ordinal == ordinal && (!m.Answers || m.Identity == id) })
		switch {
		case ordinal == p.Ordinal:
		case isVoter && p.Revision == c.record.Revision && slices.Contains(p.Cut, ordinal):
			voters = append(voters, ordinal)
		case !isVoter && (!m.usable() || m.Revision != c.record.Revision || m.Acknowledges):
			others = append(others, ordinal)
		}
	}
	return voters, others
}

func sameOrdinals(a, b []int) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(a, b)
}

// split ends a server that is writable and not the record's primary.
func (c *cluster) split() *Decision {
	for _, m := range c.members {
		if m.Answers && m.Role == RolePrimary && m.Identity != c.record.Primary {
			return c.do(StateSplit, c.ticket(m, FenceTicket), "member %d is writable, and the primary of epoch %d is member %d: its server is killed", m.Ordinal, c.record.Epoch, c.record.Primary.Ordinal)
		}
	}
	return nil
}

func (c *cluster) ticket(m Member, text string) Step {
	step := c.order(ActionTicket, m)
	step.Ticket = text
	return step
}

// voters lets voters follow the primary and acknowledge.
func (c *cluster) voters() *Decision {
	for _, m := range c.voterMembers() {
		if d := c.follow(m, true); d != nil {
			return d
		}
	}
	return nil
}

// follow lets a member follow the primary, if it does not. What it received from a former one is applied first.
func (c *cluster) follow(m Member, acknowledge bool) *Decision {
	isCut := slices.Contains(c.at(c.record.Primary.Ordinal).Cut, m.Ordinal)
	if m.Role == RoleReplica && m.Source == c.record.Primary.Ordinal && m.Acknowledges == acknowledge && m.Revision == c.record.Revision {
		return nil
	}
	if m.Role == RolePrimary || !m.drained() || acknowledge && isCut {
		return nil // split, voterBad and errant have an answer
	}
	step := c.order(ActionFollow, m)
	step.Source, step.Acknowledge, step.Proof = c.record.Primary, acknowledge, []Proof{{Member: m, Fact: FactDrained}}
	return c.do(StateJoining, step, "member %d follows member %d", m.Ordinal, c.record.Primary.Ordinal)
}
