// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/binlog"
	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

// proof holds the facts that follow from one query of the members.
type proof struct {
	primary member
	voters  []member
	// safe are the transactions that no failover loses: the primary has committed them, and a voter has them on its disk. A promotion needs
	// the promises of voters, and the new primary has all transactions of these voters. If the primary is the only member, all its
	// transactions are safe, because no other member can be promoted.
	safe binlog.Set
	// committed are the transactions that the primary has committed.
	committed binlog.Set
}

// prove derives the facts from the members' states. It fails if there is no primary. It also fails if there is no voter, unless the primary
// is the only member.
func prove(members []member) (p proof, err error) {
	if p.primary, err = primaryOf(members); err != nil {
		return p, err
	}
	if p.committed, err = binlog.ParseSet(p.primary.State.Executed); err != nil {
		return p, err
	}
	p.voters = votersOf(members, p.primary)
	switch {
	case p.primary.State.Demands == 0:
		p.safe = p.committed
		return p, nil
	case p.primary.State.Demands > 1: // the operator's record requires at most one acknowledgement
		return p, contract.Errorf(contract.ReasonRefused, "member %d demands %d acknowledgements for a commit, but this agent supports one acknowledgement", p.primary.ordinal, p.primary.State.Demands)
	case len(p.voters) == 0:
		return p, contract.Errorf(contract.ReasonServerUnreachable, "no voter follows the primary, member %d: nothing new is archived until a voter follows the primary", p.primary.ordinal)
	}
	received := binlog.Set{}
	for _, v := range p.voters {
		has, err := binlog.ParseSet(v.State.Received)
		if err != nil {
			return p, err
		}
		received = received.Union(has)
	}
	p.safe = p.committed.And(received)
	return p, nil
}

// isOf reports whether two queries saw the same primary.
func (p proof) isOf(other proof) bool {
	return p.primary.Server == other.primary.Server && p.primary.State.Epoch == other.primary.State.Epoch &&
		(p.primary.State.Demands == 0) == (other.primary.State.Demands == 0)
}

// voter returns the voter with the data of a server.
func (p proof) voter(server string) (member, bool) {
	for _, v := range p.voters {
		if v.Server == server {
			return v, true
		}
	}
	return member{}, false
}

// aim is a point in time for the archive to reach. The archive reaches this time when it has all transactions that were committed before.
type aim struct {
	// at is the point in time by the primary's clock. No transaction after the position end was committed before at.
	at  time.Time
	end mysqlmember.Position
	// voter is the UUID of a voter's server. The voter has received everything up to end. So in the next query, the
	// voter's transactions include everything up to end.
	voter string
	all   binlog.Set
}

// take updates the aim with another query. The aim needs two queries: the first finds a voter that has received everything up to end; the
// second returns all transactions that this voter has received. One query is not sufficient, because a voter reads its position before its
// transactions.
func (a *aim) take(p proof) error {
	if a.all != nil || p.primary.State.Demands == 0 {
		return nil
	}
	if v, is := p.voter(a.voter); is {
		var err error
		a.all, err = binlog.ParseSet(v.State.Received)
		return err
	}
	a.voter = ""
	for _, v := range p.voters {
		if !before(v.State.ReadTo, a.end) {
			a.voter = v.Server
		}
	}
	return nil
}

// before reports whether a position in a server's log comes before another position.
func before(a, b mysqlmember.Position) bool {
	return binlog.Before(contract.Position{File: a.File, Offset: a.Offset}, contract.Position{File: b.File, Offset: b.Offset})
}
