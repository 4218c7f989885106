// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"fmt"
	"strings"
)

// switching finishes a change of the epoch that was begun: some member promised a higher one.
func (c *cluster) switching() *Decision {
	epoch := c.record.Epoch
	for _, m := range c.members {
		if m.Answers && m.Volume == VolumeOwn {
			epoch = max(epoch, m.Promised)
		}
	}
	if epoch == c.record.Epoch {
		return nil
	}
	if p, answers := c.primary(); answers && !c.handsOver(p, epoch) {
		return c.keep(p, epoch)
	}
	needed := c.record.Promises()
	if needed == 0 {
		return nil // primaryLost says what is waited for
	}
	var promised []Member
	var next *Member
	for _, m := range c.voterMembers() {
		switch {
		case m.Promised == epoch && m.Role == RoleNone: // its receiver has ended
			promised = append(promised, m)
		case next == nil:
			next = &m
		}
	}
	switch {
	case len(promised) >= needed:
		return c.promote(promised, epoch)
	case next != nil && (len(c.voterMembers()) >= needed):
		return c.promise(*next, epoch)
	}
	return c.quorumLost(needed)
}

// keep gives the higher epoch to the primary that is there. It has all that it acknowledged, and the promises that were given
// refuse its old epoch alone.
func (c *cluster) keep(p Member, epoch int64) *Decision {
	next := c.record.next()
	next.Epoch = epoch
	return c.write(StateSwitching, next, nil, "member %d answers and stays the primary, in epoch %d", p.Ordinal, epoch)
}

func (c *cluster) promise(m Member, epoch int64) *Decision {
	step := c.order(ActionPromise, m)
	step.Epoch = epoch
	return c.do(StateSwitching, step, "member %d promises epoch %d", m.Ordinal, epoch)
}

// handsOver reports whether the primary gave its epoch up for a member that is asked for, which has all that it has.
func (c *cluster) handsOver(p Member, epoch int64) bool {
	to := c.at(c.want.To)
	return c.want.Switch && p.Promised == epoch && p.Role == RoleNone && c.record.Promises() > 0 && len(c.voterMembers()) == len(c.record.Voters) &&
		to.usable() && c.record.IsVoter(to.Identity) && to.Received.Contains(p.Received)
}

// switchover has the primary give its epoch up for the member that is asked for, when all are well.
func (c *cluster) switchover() *Decision {
	p, answers := c.primary()
	if !answers || !c.want.Switch || c.want.To == p.Ordinal {
		return nil
	}
	to := c.at(c.want.To)
	switch {
	case !to.usable() || !c.record.IsVoter(to.Identity) || to.Bad || !c.follows(to) || !to.CaughtUp:
		return c.say(StateSwitchWanted, "member %d is asked for as the primary: waiting until it is a voter that has caught up", c.want.To)
	case len(c.voterMembers()) < len(c.record.Voters) || p.Waiting > 0:
		return c.say(StateSwitchWanted, "member %d is asked for as the primary: waiting until all voters are well and no commit waits", to.Ordinal)
	}
	step := c.order(ActionDemote, p)
	step.Epoch++
	step.Proof = []Proof{{Member: to, Fact: FactHasLog, Position: p.End}}
	return c.do(StateSwitchWanted, step, "member %d gives its epoch up for member %d", p.Ordinal, to.Ordinal)
}

// promote makes a voter the primary that received all that any promiser received.
func (c *cluster) promote(promised []Member, epoch int64) *Decision {
	best := promised[0]
	for _, m := range promised[1:] {
		isAsked := c.want.Switch && m.Ordinal == c.want.To
		if !best.Received.Contains(m.Received) || m.Executed.Contains(best.Received) && (isAsked || !best.drained()) {
			best = m
		}
	}
	next := c.record.next()
	next.Epoch, next.Primary, next.Voters, next.Acknowledgements = epoch, best.Identity, nil, 1
	var proof []Proof
	for _, m := range promised {
		if !best.Received.Contains(m.Received) {
			return c.say(StateDiverged, "members %d and %d each have transactions that the other has not: nothing is promoted", best.Ordinal, m.Ordinal)
		}
		if m.Ordinal != best.Ordinal && m.Received.Contains(best.Received) {
			next.Voters = append(next.Voters, m.Identity)
		}
		proof = append(proof, Proof{Member: m, Fact: FactPromised})
	}
	if !best.drained() {
		return c.say(StateSwitching, "member %d applies its relay log before it becomes the primary", best.Ordinal)
	}
	proof = append(proof, Proof{Member: best, Fact: FactDrained})
	if p, answers := c.primary(); answers {
		if !best.Received.Contains(p.Received) {
			return c.keep(p, epoch)
		}
		proof = append(proof, Proof{Member: p, Fact: FactPromised})
	} else {
		proof = append(proof, Proof{Member: p, Fact: FactSilent})
	}
	return c.write(StateSwitching, next, proof, "member %d becomes the primary of epoch %d: it has all that %d voters received", best.Ordinal, epoch, len(promised))
}

// primaryLost begins a failover when the primary is gone, as the voters see it too.
func (c *cluster) primaryLost() *Decision {
	p, answers := c.primary()
	if answers {
		return nil
	}
	gone := p.Answers && p.Volume != VolumeForeign && p.Identity != c.record.Primary
	if !gone && !p.Silent {
		return c.say(StatePrimaryUnseen, "member %d does not answer: looking again", p.Ordinal)
	}
	needed := c.record.Promises()
	if needed == 0 {
		if gone {
			return c.say(StateLost, "member %d was alone, and its data is gone: restore a backup", p.Ordinal)
		}
		return c.say(StateQuorumLost, "member %d does not answer, and no other member has all that it acknowledged", p.Ordinal)
	}
	voters := c.voterMembers()
	for _, m := range voters {
		if !gone && m.Role == RoleReplica && m.Source == p.Ordinal && m.Connected {
			return c.say(StatePrimaryUnseen, "member %d does not answer the operator, and member %d still receives from it", p.Ordinal, m.Ordinal)
		}
	}
	if len(voters) < needed {
		return c.quorumLost(needed)
	}
	if c.want.Manual {
		return c.say(StatePrimaryLost, "member %d is gone, and spec.replication.failover is Manual: set it to Automatic", p.Ordinal)
	}
	d := c.promise(voters[0], c.record.Epoch+1)
	d.Step.Proof = []Proof{{Member: p, Fact: FactSilent}}
	d.Model.State = StatePrimaryLost
	return d
}

// quorumLost says what is missing for a promotion.
func (c *cluster) quorumLost(needed int) *Decision {
	var missing, lost []string
	for _, id := range c.record.Voters {
		switch m := c.at(id.Ordinal); {
		case m.Answers && m.Volume != VolumeForeign && (m.Volume == VolumeEmpty || m.Server != "" && m.Identity != id):
			lost = append(lost, fmt.Sprint(id.Ordinal))
		case !m.usable() || m.Identity != id:
			missing = append(missing, fmt.Sprint(id.Ordinal))
		}
	}
	p := c.at(c.record.Primary.Ordinal)
	gone := p.Answers && p.Volume != VolumeForeign && (p.Volume == VolumeEmpty || p.Server != "" && p.Identity != c.record.Primary)
	if gone && len(c.record.Voters)-len(lost) < needed {
		return c.say(StateLost, "the data of member %d and of %s is gone, and acknowledged transactions may have been there alone", p.Ordinal, strings.Join(lost, ", "))
	}
	return c.say(StateQuorumLost, "member %d is gone, and of %d voters %d must answer: waiting for %s", p.Ordinal, len(c.record.Voters), needed,
		strings.Join(append(missing, lost...), ", "))
}
