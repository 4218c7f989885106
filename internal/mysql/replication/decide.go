// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"fmt"
	"maps"
	"slices"
)

// cluster holds an observation for the rules.
type cluster struct {
	want    Want
	record  Record
	members []Member
	notes   []string
}

// Decide returns the next step. Every observation has a decision. The first rule with a decision wins. Each rule repairs faults that later
// rules do not expect.
func Decide(want Want, o Observation) Decision {
	c := &cluster{want: want, record: o.Record, members: o.Members}
	for _, m := range c.members {
		if m.Answers && m.Volume == VolumeForeign {
			c.notes = append(c.notes, fmt.Sprintf("the volume of member %d has data of another member: the operator does not change that volume", m.Ordinal))
		}
	}
	switch {
	case c.want.Replicas == 0:
		return c.finish(c.say(StateParked, "no member is wanted: the volumes keep their data"))
	case c.isOlder() != nil:
		m := c.isOlder()
		return c.finish(c.say(StateRecordLost, "the record has revision %d, but member %d has an order of revision %d: restore the latest record, or restore a backup",
			c.record.Revision, m.Ordinal, m.Revision))
	case !c.record.Formed:
		if d := c.broken(); d != nil {
			return c.finish(d)
		}
		return c.finish(c.form())
	}
	for _, rule := range []func() *Decision{
		c.broken, c.switching, c.primaryLost, c.serve, c.split, c.voters, c.voterBad, c.errant, c.join, c.grow, c.blocked, c.roll, c.switchover, c.catchUp,
	} {
		if d := rule(); d != nil {
			return c.finish(d)
		}
	}
	return c.finish(c.say(StateHealthy, ""))
}

// isOlder returns a member that has accepted an order with a higher revision than the revision of the record, or nil. If
// there is such a member, a user may have restored an older record, whose voters may lack acknowledged transactions.
func (c *cluster) isOlder() *Member {
	for _, m := range c.members {
		if c.record.Formed && m.Answers && m.Volume != VolumeForeign && m.Revision > c.record.Revision {
			return &m
		}
	}
	return nil
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

// at returns the member with an ordinal. For a member that was not observed, Answers and Silent are false.
func (c *cluster) at(ordinal int) Member {
	for _, m := range c.members {
		if m.Ordinal == ordinal {
			return m
		}
	}
	return Member{Identity: Identity{Ordinal: ordinal}}
}

// primary returns the member that the record names as the primary. It returns true if that member answers with the primary's data.
func (c *cluster) primary() (Member, bool) {
	m := c.at(c.record.Primary.Ordinal)
	return m, m.usable() && m.Identity == c.record.Primary
}

// voterMembers returns the voters that answer with the recorded data.
func (c *cluster) voterMembers() []Member {
	var voters []Member
	for _, id := range c.record.Voters {
		if m := c.at(id.Ordinal); m.usable() && m.Identity == id {
			voters = append(voters, m)
		}
	}
	return voters
}

// others returns the usable members that are neither the primary nor a voter.
func (c *cluster) others() []Member {
	var others []Member
	for _, m := range c.members {
		if m.usable() && m.Identity != c.record.Primary && !c.record.IsVoter(m.Identity) {
			others = append(others, m)
		}
	}
	return others
}

// form makes member 0 the first primary if no volume has data.
func (c *cluster) form() *Decision {
	if len(c.members) == 0 {
		return c.say(StateFresh, "no member exists")
	}
	var proof []Proof
	for _, m := range c.members[1:] {
		if m.Answers && m.Volume != VolumeEmpty {
			return c.say(StateRecordLost, "member %d has data, but there is no record of a primary: restore the ConfigMap with the record, or restore a backup", m.Ordinal)
		}
		if !m.Answers {
			return c.say(StateFresh, "waiting for the agent of member %d: the content of its volume is not known", m.Ordinal)
		}
		proof = append(proof, Proof{Member: m, Fact: FactEmpty})
	}
	first := c.members[0]
	switch {
	case !first.Answers:
		return c.say(StateFresh, "waiting for the agent of member 0")
	case first.Volume == VolumeEmpty && (first.Promised != 0 || first.Revision != 0):
		return c.say(StateRecordLost, "member 0 was a member before, but there is no record of a primary: restore the ConfigMap with the record, or restore a backup")
	case first.Volume == VolumeSingle:
		return c.adopt(first, proof)
	case first.Volume == VolumeEmpty && c.want.Adopt != "":
		return c.say(StateRecordLost, "member 0 lacks the data of the former single server (mark %s): put its old volume under the claim", c.want.Adopt)
	case first.Volume == VolumeEmpty:
		step := Step{Action: ActionTicket, Member: first, Ticket: SeedTicket, Proof: append(proof, Proof{Member: first, Fact: FactEmpty})}
		return c.do(StateFresh, step, "member 0 creates the first data: no volume has data")
	case first.Volume != VolumeOwn || first.Promised != 0 || first.Revision != 0:
		return c.say(StateRecordLost, "member 0 was a member before, but there is no record of a primary: restore the ConfigMap with the record, or restore a backup")
	case !first.Running:
		return c.say(StateFresh, "member 0 creates the first data")
	}
	next := c.record.next()
	next.Epoch, next.Formed, next.Primary, next.Voters, next.Acknowledgements = 1, true, first.Identity, nil, 0
	return c.write(StateFresh, next, proof, "member 0 becomes the first primary, alone")
}

// adopt makes the data of a single server the data of the first member. No other member may have data.
func (c *cluster) adopt(first Member, proof []Proof) *Decision {
	if c.want.Adopt == "" || first.Mark != c.want.Adopt {
		return c.say(StateRecordLost, "member 0 has the data of another server (mark %s instead of %q)", first.Mark, c.want.Adopt)
	}
	step := Step{Action: ActionTicket, Member: first, Ticket: AdoptTicket(first.Mark), Proof: append(proof, Proof{Member: first, Fact: FactSingle})}
	return c.do(StateFresh, step, "member 0 takes over the data of the former single server")
}

// serve makes the recorded primary serve with the recorded settings: it becomes the primary, writable, and the target
// of the Service.
func (c *cluster) serve() *Decision {
	p, answers := c.primary()
	if !answers {
		return nil
	}
	if p.Role != RolePrimary {
		ticket := PrimaryTicket(c.record.Epoch, c.record.Revision, c.record.Acknowledgements)
		switch {
		case p.UsedTicket == ticket:
			return c.write(StateRecorded, c.record.next(), nil, "member %d started again: a new revision of the record lets it become the primary", p.Ordinal)
		case !p.drained():
			return c.say(StateRecorded, "member %d applies its relay log before it becomes the primary", p.Ordinal)
		}
		step := c.order(ActionTicket, p)
		step.Ticket, step.Proof = ticket, []Proof{{Member: p, Fact: FactDrained}}
		return c.do(StateRecorded, step, "member %d becomes the primary of epoch %d", p.Ordinal, c.record.Epoch)
	}
	if d := c.admit(p); d != nil {
		return d
	}
	cutVoters, cutOthers := c.cuts(p)
	step := c.serveStep(p, cutVoters, cutOthers)
	if !p.Writable {
		return c.do(StateRecorded, step, "member %d is the primary and read-only: it is made writable", p.Ordinal)
	}
	if p.Epoch != c.record.Epoch || p.Revision != c.record.Revision || p.Demands != c.record.Acknowledgements || !sameOrdinals(p.Cut, append(cutVoters, cutOthers...)) || !maps.Equal(p.Servers, step.Servers) {
		return c.do(StateRecorded, step, "member %d demands %d acknowledgements", p.Ordinal, step.Demands)
	}
	if !p.Routed {
		return c.do(StateRecorded, c.order(ActionRoute, p), "the Service selects member %d", p.Ordinal)
	}
	return nil
}

// serveStep returns the order to serve. It contains the recorded number of acknowledgements, and the members that the
// primary must refuse.
func (c *cluster) serveStep(p Member, cutVoters, cutOthers []int) Step {
	step := c.order(ActionServe, p)
	step.Demands, step.CutVoters, step.CutOthers = c.record.Acknowledgements, cutVoters, cutOthers
	if p.Orders >= personalOrders {
		step.Servers = c.servers(p, slices.Concat(cutVoters, cutOthers))
	}
	return step
}

// personalOrders is the first version of orders in which each server has a separate password. renewOrders is the first
// version with the order to renew a relay log.
const personalOrders, renewOrders = 2, 3

// servers returns the servers that the primary admits with separate passwords, by the ordinals of their members. For
// each member, the primary admits only one server: the recorded voter, or else the present server. So it refuses a
// former server that still runs, and a voter that does not answer keeps its password.
func (c *cluster) servers(p Member, cut []int) map[int]string {
	all := map[int]string{}
	for ordinal := range max(len(c.members), c.want.Replicas, c.want.Members) {
		m := c.at(ordinal)
		id := m.Identity
		for _, voter := range c.record.Voters {
			if voter.Ordinal == ordinal {
				id = voter
			}
		}
		if ordinal != p.Ordinal && id.Server != "" && !slices.Contains(cut, ordinal) && (!m.Answers || m.Orders >= personalOrders) {
			all[ordinal] = id.Server
		}
	}
	return all
}

// admit sends the new revision to the replicas when a primary without voters is about to demand an acknowledgement. The
// replicas must have this revision before the primary has it: otherwise the primary would refuse the replicas, and
// commits would wait until the replicas reconnect.
func (c *cluster) admit(p Member) *Decision {
	if p.Epoch != c.record.Epoch || p.Demands > 0 || c.record.Acknowledgements == 0 || len(c.record.Voters) > 0 {
		return nil
	}
	for _, m := range c.others() {
		if c.follows(m) && !m.Bad && !m.Acknowledges && m.Ordinal < c.want.Replicas && p.Executed.Contains(m.Received) {
			if d := c.follow(m, false); d != nil {
				return d
			}
		}
	}
	return nil
}

// cuts returns the ordinals of the members whose connections the primary refuses: voters that are being removed, and
// members that are no voters and may still acknowledge.
func (c *cluster) cuts(p Member) (voters, others []int) {
	for ordinal := range max(len(c.members), c.want.Replicas, c.want.Members) {
		m := c.at(ordinal)
		isVoter := slices.ContainsFunc(c.record.Voters, func(id Identity) bool {
			return id.Ordinal == ordinal && (!m.Answers || m.Volume == "" || m.Identity == id)
		})
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

// split kills a writable server that is not the record's primary.
func (c *cluster) split() *Decision {
	for _, m := range c.members {
		if m.Answers && m.Role == RolePrimary && m.Identity != c.record.Primary {
			return c.do(StateSplit, c.ticket(m, FenceTicket), "member %d is writable, and the primary of epoch %d is member %d: the server that is not the primary is killed", m.Ordinal, c.record.Epoch, c.record.Primary.Ordinal)
		}
	}
	return nil
}

func (c *cluster) ticket(m Member, text string) Step {
	step := c.order(ActionTicket, m)
	step.Ticket = text
	return step
}

// voters makes voters follow the primary and acknowledge.
func (c *cluster) voters() *Decision {
	for _, m := range c.voterMembers() {
		if d := c.follow(m, true); d != nil {
			return d
		}
	}
	return nil
}

// follow makes a member follow the primary. The member first applies the transactions that it has received from an earlier primary.
func (c *cluster) follow(m Member, acknowledge bool) *Decision {
	isCut := slices.Contains(c.at(c.record.Primary.Ordinal).Cut, m.Ordinal)
	follows := m.Role == RoleReplica && m.Source == c.record.Primary.Ordinal
	isPersonal := m.Orders >= personalOrders && c.at(c.record.Primary.Ordinal).Orders >= personalOrders
	if follows && !c.followsOther(m) && m.Personal == isPersonal && m.Acknowledges == acknowledge && m.Revision == c.record.Revision {
		return nil
	}
	if m.Role == RolePrimary || !follows && !m.drained() || acknowledge && isCut {
		return nil // the rules split, voterBad and errant handle these members
	}
	step := c.order(ActionFollow, m)
	step.Source, step.Acknowledge, step.Personal = c.record.Primary, acknowledge, isPersonal
	// A member that already receives has rarely applied everything. Its step has no proof, because the agent applies the relay log before
	// it changes the source.
	if !follows {
		step.Proof = []Proof{{Member: m, Fact: FactDrained}}
	}
	return c.do(StateJoining, step, "member %d follows member %d", m.Ordinal, c.record.Primary.Ordinal)
}
