// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"fmt"
	"strings"
)

// switching completes a change of the epoch that has begun: some member has promised an epoch above the record's.
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
	if p, answers := c.primary(); answers && !c.handsOver(p, epoch) && c.ahead(p) == nil {
		return c.keep(p, epoch)
	}
	needed := c.record.Promises()
	if needed == 0 {
		return nil // primaryLost reports the wait
	}
	var promised, next []Member
	for _, m := range c.voterMembers() {
		if m.Promised == epoch && m.Role == RoleNone { // its receiver has ended
			promised = append(promised, m)
		} else {
			next = append(next, m)
		}
	}
	switch {
	case len(promised) >= needed:
		return c.promote(promised, epoch)
	case len(next) > 0 && (len(c.voterMembers()) >= needed):
		return c.promise(next, epoch)
	}
	return c.quorumLost(needed)
}

// keep records the promised epoch for the present primary, which answers and has all acknowledged transactions. Then
// members that have promised this epoch follow the primary again, because they refuse only orders of older epochs.
func (c *cluster) keep(p Member, epoch int64) *Decision {
	next := c.record.next()
	next.Epoch = epoch
	return c.write(StateSwitching, next, nil, "member %d answers and stays the primary, in epoch %d", p.Ordinal, epoch)
}

// promise makes members promise an epoch, all at the same time: the end of a receiver that connects to a hanging primary takes two seconds.
func (c *cluster) promise(members []Member, epoch int64) *Decision {
	step := c.order(ActionPromise, members[0])
	step.Epoch, step.Others = epoch, members[1:]
	var ordinals []int
	for _, m := range members {
		ordinals = append(ordinals, m.Ordinal)
	}
	return c.do(StateSwitching, step, "members %v promise epoch %d", ordinals, epoch)
}

// handsOver reports whether a planned change of the primary can continue: the primary has ended its epoch, and the
// wanted member has all transactions of the primary.
func (c *cluster) handsOver(p Member, epoch int64) bool {
	ordinal, isWanted := c.target()
	to := c.at(ordinal)
	return isWanted && p.Promised == epoch && p.Role == RoleNone && c.record.Promises() > 0 && len(c.voterMembers()) == len(c.record.Voters) &&
		to.usable() && c.record.IsVoter(to.Identity) && to.Received.Contains(p.Received)
}

// switchover starts a planned change of the primary: the primary ends its epoch for the wanted member (target). Before
// that, all voters must be healthy, and those that stay must have caught up. (A voter follows the new primary only when it has applied all
// that it received, and commits of the new primary may wait for it.)
func (c *cluster) switchover() *Decision {
	p, answers := c.primary()
	ordinal, isWanted := c.target()
	if !answers || !isWanted || ordinal == p.Ordinal {
		return nil
	}
	to := c.at(ordinal)
	switch {
	case !to.usable() || !c.record.IsVoter(to.Identity) || to.Bad || c.lags(to):
		return c.say(StateSwitchWanted, "member %d must become the primary: waiting until it is a voter that has caught up", ordinal)
	case len(c.voterMembers()) < len(c.record.Voters) || p.Waiting > 0:
		return c.say(StateSwitchWanted, "member %d must become the primary: waiting until all voters are well and no commit waits", to.Ordinal)
	}
	for _, m := range c.voterMembers() {
		if m.Ordinal < c.want.Replicas && c.lags(m) {
			return c.say(StateSwitchWanted, "member %d must become the primary: waiting until voter %d has caught up", to.Ordinal, m.Ordinal)
		}
	}
	step := c.order(ActionDemote, p)
	step.Epoch++
	step.Proof = []Proof{{Member: to, Fact: FactHasLog, Position: p.End}}
	return c.do(StateSwitchWanted, step, "member %d stops being the primary, so that member %d can become the primary", p.Ordinal, to.Ordinal)
}

// lags reports whether a member lacks transactions of the primary, or cannot get new ones.
func (c *cluster) lags(m Member) bool { return !c.follows(m) || !m.CaughtUp }

// promote makes a voter the primary. The voter must have promised the epoch, and must have all transactions that any of
// the promised voters has received.
func (c *cluster) promote(promised []Member, epoch int64) *Decision {
	best := promised[0]
	to, isWanted := c.target()
	for _, m := range promised[1:] {
		isAsked := isWanted && m.Ordinal == to
		if !best.Received.Contains(m.Received) || m.Executed.Contains(best.Received) && (isAsked || !best.drained()) {
			best = m
		}
	}
	next := c.record.next()
	next.Epoch, next.Primary, next.Voters, next.Acknowledgements = epoch, best.Identity, nil, 1
	var proof []Proof
	for _, m := range promised {
		if !best.Received.Contains(m.Received) {
			return c.say(StateDiverged, "members %d and %d each have transactions that the other lacks: no member is promoted", best.Ordinal, m.Ordinal)
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
		switch {
		case best.Received.Contains(p.Received):
		case c.ahead(p) != nil:
			return c.say(StateDiverged, "members %d and %d each have transactions that the other lacks: no member is promoted", best.Ordinal, p.Ordinal)
		default:
			return c.keep(p, epoch)
		}
		proof = append(proof, Proof{Member: p, Fact: FactPromised})
	} else {
		proof = append(proof, Proof{Member: p, Fact: FactSilent})
	}
	return c.write(StateSwitching, next, proof, "member %d becomes the primary of epoch %d: it has all transactions that %d voters received", best.Ordinal, epoch, len(promised))
}

// primaryLost begins a failover if the primary is lost. The voters must confirm the loss.
func (c *cluster) primaryLost() *Decision {
	p, answers := c.primary()
	ahead := c.ahead(p)
	if answers && ahead == nil {
		return nil
	}
	gone := ahead != nil || p.hasOther(c.record.Primary)
	if !gone && !p.Silent {
		return c.say(StatePrimaryUnseen, "member %d does not answer: looking again", p.Ordinal)
	}
	needed := c.record.Promises()
	if needed == 0 {
		if gone {
			return c.lost("member %d was the only member, and its data is lost: restore a backup, or accept the loss", p.Ordinal)
		}
		return c.say(StateQuorumLost, "member %d does not answer, and no other member is known to have all acknowledged transactions", p.Ordinal)
	}
	voters := c.voterMembers()
	for _, m := range voters {
		if !gone && c.follows(m) {
			return c.say(StatePrimaryUnseen, "member %d does not answer the operator, but member %d still receives from it", p.Ordinal, m.Ordinal)
		}
	}
	if len(voters) < needed {
		return c.quorumLost(needed)
	}
	if c.want.Manual {
		return c.say(StatePrimaryLost, "member %d is lost, but spec.replication.failover is Manual: to promote another member, set that field to Automatic", p.Ordinal)
	}
	d := c.promise(voters, c.record.Epoch+1)
	d.Step.Proof = []Proof{{Member: p, Fact: FactSilent}}
	if ahead != nil {
		d.Step.Proof = []Proof{{Member: *ahead, Fact: FactAhead}}
	}
	d.Model.State = StatePrimaryLost
	return d
}

// ahead returns a voter that has transactions of the primary's server which the primary itself lacks after a start.
// Such transactions prove that storage has reset the primary's volume to an older state. Any acknowledged transaction
// that the volume lacks is on the voters.
func (c *cluster) ahead(p Member) *Member {
	if p.Role != RoleNone || p.Identity != c.record.Primary || !p.usable() {
		return nil
	}
	for _, m := range c.voterMembers() {
		if p.lacksOwn(m) {
			return &m
		}
	}
	return nil
}

// quorumLost names the voters that must answer before a member can be promoted. If the data of too many voters is lost,
// it describes that loss instead.
func (c *cluster) quorumLost(needed int) *Decision {
	var missing, lost []string
	for _, id := range c.record.Voters {
		switch m := c.at(id.Ordinal); {
		case m.hasOther(id):
			lost = append(lost, fmt.Sprint(id.Ordinal))
		case !m.usable() || m.Identity != id:
			missing = append(missing, fmt.Sprint(id.Ordinal))
		}
	}
	p := c.at(c.record.Primary.Ordinal)
	if p.hasOther(c.record.Primary) && len(c.record.Voters)-len(lost) < needed {
		return c.lost("the data of members %d and %s is lost, with transactions that possibly no other member has", p.Ordinal, strings.Join(lost, ", "))
	}
	return c.say(StateQuorumLost, "member %d is lost, and of %d voters %d must answer: waiting for %s", p.Ordinal, len(c.record.Voters), needed,
		strings.Join(append(missing, lost...), ", "))
}
