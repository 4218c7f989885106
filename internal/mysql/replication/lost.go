// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"fmt"
	"hash/crc32"
	"slices"
)

// LossToken returns the token with which a user accepts a loss of data in this state of the record. The token changes
// with the epoch, so that it is valid for one loss only.
func (r Record) LossToken() string {
	return fmt.Sprintf("%d-%d-%.8s", r.Epoch, r.Revision, r.Primary.Server)
}

// choiceToken returns the token with which a user chooses one of several copies. It is valid only while no copy gets
// further transactions.
func (c *cluster) choiceToken(chosen Member, left []Member) string {
	text := ""
	for _, m := range left {
		text += fmt.Sprintf("%d %s %s\n", m.Ordinal, m.Server, m.Received)
	}
	return fmt.Sprintf("%s-%d-%08x", c.record.LossToken(), chosen.Ordinal, crc32.ChecksumIEEE([]byte(text)))
}

// lost describes lost data. With a user's consent, a remaining copy becomes the primary: the copy that has all transactions of the others,
// or else the copy that the consent names.
func (c *cluster) lost(format string, args ...any) *Decision {
	token, left := c.record.LossToken(), c.copiesLeft()
	best := mostComplete(left)
	if c.want.AcceptLoss == token {
		for _, id := range c.record.Voters {
			if m := c.at(id.Ordinal); !m.usable() && !m.hasNoData() {
				return c.say(StateLost, "the loss is accepted: waiting for member %d, which may have the latest copy", id.Ordinal)
			}
		}
		if len(left) == 0 {
			return c.say(StateLost, "the loss is accepted, but no member has a copy: restore a backup")
		}
	}
	if len(left) > 0 && best == nil {
		return c.choose(left)
	}
	if c.want.AcceptLoss == token {
		return c.acceptLoss(*best, left)
	}
	d := c.say(StateLost, format, args...)
	d.Model.Token = token
	return d
}

// copiesLeft returns the members with data that can become the primary if a user consents.
func (c *cluster) copiesLeft() (left []Member) {
	for _, m := range c.members {
		if m.usable() && m.Role != RolePrimary {
			left = append(left, m)
		}
	}
	return left
}

// mostComplete returns the first member that has all transactions of the others, or nil. (Counting is not enough: a member with more
// transactions may lack one that another member has.)
func mostComplete(members []Member) *Member {
	for _, m := range members {
		if !slices.ContainsFunc(members, func(other Member) bool { return !m.Received.Contains(other.Received) }) {
			return &m
		}
	}
	return nil
}

// choose continues with the copy that the user's token names. Without a token, it adds a note for each copy. The note
// lists the transactions that only this copy has, those that it lacks, and the token.
func (c *cluster) choose(left []Member) *Decision {
	for _, id := range c.record.Voters {
		if m := c.at(id.Ordinal); !m.usable() && !m.hasNoData() {
			return c.say(StateLost, "no copy has all transactions of the other copies: waiting for member %d before a copy is chosen", id.Ordinal)
		}
	}
	var all []int
	for _, m := range left {
		token, others := c.choiceToken(m, left), GTIDs{}
		if c.want.AcceptLoss == token {
			return c.acceptLoss(m, left)
		}
		for _, other := range left {
			if other.Ordinal != m.Ordinal {
				others = others.With(other.Received)
			}
		}
		all = append(all, m.Ordinal)
		c.notes = append(c.notes, fmt.Sprintf("only member %d has the transactions %s, and it lacks %s: to continue with its data, set spec.replication.acceptLoss to %s", m.Ordinal,
			m.Received.Without(others).brief(), others.Without(m.Received).brief(), token))
	}
	return c.say(StateLost, "none of the copies (of members %v) has all transactions: set acceptLoss to a value in status.notes", all)
}

// acceptLoss makes all members with data promise the next epoch, and then makes one of them the primary.
func (c *cluster) acceptLoss(best Member, left []Member) *Decision {
	epoch := c.record.Epoch + 1
	for _, m := range left {
		epoch = max(epoch, m.Promised)
	}
	proof := []Proof{{Member: c.at(c.record.Primary.Ordinal), Fact: FactGone}}
	var next []Member
	for _, m := range left {
		if m.Promised < epoch || m.Role != RoleNone {
			next = append(next, m)
		}
		proof = append(proof, Proof{Member: m, Fact: FactPromised})
	}
	if len(next) > 0 {
		return c.promise(next, epoch)
	}
	if !best.drained() {
		return c.say(StateSwitching, "member %d applies its relay log before it becomes the primary", best.Ordinal)
	}
	record := c.record.next()
	record.Epoch, record.Primary, record.Voters, record.Acknowledgements = epoch, best.Identity, nil, 1
	return c.write(StateSwitching, record, append(proof, Proof{Member: best, Fact: FactDrained}), "member %d becomes the primary of epoch %d: the loss of the transactions that it lacks is accepted", best.Ordinal, epoch)
}
