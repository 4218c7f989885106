// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"fmt"
	"math/bits"
)

// moves visits each change that can happen without the operator: an agent uses a ticket, or a transaction is written,
// sent or applied.
func (w *world) moves(broken rules, visit func(how string, next world, harm string)) {
	for i := range w.members {
		m := &w.members[i]
		if isWanted := i < w.pods(); !m.up || !isWanted {
			next := *w
			if m.up {
				next.restart(i)
				next.members[i].ticket = mTicket{}
			}
			if next.members[i].up = isWanted; next != *w {
				visit(fmt.Sprintf("%d starts or is removed: %v", i, isWanted), next, "")
			}
			continue
		}
		if m.ticket.verb != 0 && m.ticket != m.used {
			next := *w
			harm := next.useTicket(i, broken)
			if next != *w {
				visit(fmt.Sprintf("%d uses %s", i, m.ticket.text()), next, harm)
			}
		}
		if m.role == RolePrimary && m.server != 0 {
			w.primaryMoves(i, broken, visit)
		}
		if m.written != m.received && m.role != RolePrimary && !m.torn {
			next := *w
			missing := m.received &^ m.written
			next.members[i].written |= missing & -missing
			next.members[i].done = next.members[i].written
			visit(fmt.Sprintf("%d applies", i), next, "")
		}
		if w.connected(i) {
			if missing := w.members[m.source].written &^ m.received; missing != 0 {
				w.receive(i, missing&-missing, visit)
			}
		}
	}
}

func (w *world) primaryMoves(i int, broken rules, visit func(string, world, string)) {
	m := &w.members[i]
	if w.left.writes > 0 && w.next < txns {
		next := *w
		next.left.writes--
		bit := uint8(1) << next.next
		next.author[next.next] = m.server
		next.next++
		next.members[i].written |= bit
		next.members[i].received |= bit
		harm := ""
		if m.demands == 0 || broken.timeout {
			harm = next.acknowledge(i, bit)
		}
		visit(fmt.Sprintf("%d writes", i), next, harm)
	}
}

// receive delivers a transaction to a replica. If the replica acknowledges, clients of waiting commits get their
// answer.
func (w *world) receive(i int, bit uint8, visit func(string, world, string)) {
	next := *w
	m := &next.members[i]
	m.received |= bit
	harm := ""
	p := &w.members[m.source]
	if waits := p.written & m.received & (2*bit - 1) &^ p.done; p.role == RolePrimary && m.acknowledges && waits != 0 {
		harm = next.acknowledge(int(m.source), waits) // an acknowledgement covers everything up to a log position
	}
	visit(fmt.Sprintf("%d receives", i), next, harm)
}

// heartbeat simulates a row that the primary writes outside of any numbered transaction. By receiving the row, a
// replica also acknowledges all earlier transactions.
func (w *world) heartbeat(primary int) {
	p := &w.members[primary]
	for i := range w.members {
		m := &w.members[i]
		if waits := p.written &^ p.done; p.role == RolePrimary && int(m.source) == primary && w.connected(i) && m.acknowledges && m.received&p.written == p.written && waits != 0 {
			w.late = w.acknowledge(primary, waits)
		}
	}
}

// acknowledge answers the client of a transaction on primary i. It returns the violated invariant, or "".
func (w *world) acknowledge(i int, bit uint8) string {
	m := &w.members[i]
	m.done |= bit
	if w.acked&bit == bit {
		return ""
	}
	w.acked |= bit
	if other := w.acker[m.epoch]; other != 0 && other != uint8(i+1) {
		return fmt.Sprintf("members %d and %d acknowledge in epoch %d", other-1, i, m.epoch)
	}
	w.acker[m.epoch] = uint8(i + 1)
	if w.record.primary != w.id(i) {
		return fmt.Sprintf("member %d acknowledges, and the primary is member %d", i, w.record.primary.ordinal)
	}
	return ""
}

// useTicket simulates an agent that uses a ticket. It returns the violated invariant, or "".
func (w *world) useTicket(i int, broken rules) string {
	m := &w.members[i]
	switch t := m.ticket; t.verb {
	case verbSeed:
		if m.server == 0 && m.used.verb == 0 {
			w.servers++
			m.server, m.used = w.servers, t
		}
	case verbFence:
		if m.role == RolePrimary {
			w.restart(i)
			if broken.gracefulDemotion {
				return w.release(i)
			}
		}
	case verbPrimary:
		if m.server == 0 || m.role == RolePrimary || t.epoch < m.promised || t.revision < m.revision && !broken.anyRevision || m.written != m.received {
			return ""
		}
		m.used, m.role, m.epoch, m.promised, m.revision, m.demands, m.acknowledges = t, RolePrimary, t.epoch, t.epoch, t.revision, t.demands, false
		m.cutVoters, m.cutOthers, m.cutEnd, m.done = 0, 0, uint8(bits.Len8(m.written)), m.written
		for other := range size {
			if other != i {
				m.cutOthers |= 1 << other // until ActionServe names the members to refuse
			}
		}
	case verbJoin:
		p := &w.members[t.source]
		if m.role == RolePrimary || t.revision < m.revision || !p.up || p.server != t.server || p.role != RolePrimary || !w.linked(i, int(t.source)) || int(t.source) == i || p.written != p.done {
			return "" // a copy waits while a commit waits
		}
		w.servers++
		m.server, m.used, m.role, m.acknowledges, m.torn = w.servers, t, RoleNone, false, false
		m.written, m.received, m.done = p.done, p.done, p.done // no commit waits
		m.revision = t.revision
	}
	return ""
}

// release answers a client whose commit still waits, as a graceful stop does.
func (w *world) release(i int) string {
	if waiting := w.members[i].written &^ w.acked; waiting != 0 {
		return w.acknowledge(i, waiting&-waiting)
	}
	return ""
}

// restart ends the server and the agent of a member. Its next start commits all written transactions.
func (w *world) restart(i int) {
	m := &w.members[i]
	m.role, m.epoch, m.demands, m.source, m.acknowledges = RoleNone, 0, 0, 0, false
	m.cutVoters, m.cutOthers, m.cutEnd, m.done = 0, 0, 0, m.written
}

// faults visits each change that a fault or a user can cause.
func (w *world) faults(broken rules, visit func(how string, next world, harm string)) {
	for i := range w.members {
		m := &w.members[i]
		if w.left.crashes > 0 && m.up {
			next := *w
			next.left.crashes--
			next.restart(i)
			next.members[i].up = false
			if broken.noPromiseOnDisk {
				next.members[i].promised = 0
			}
			visit(fmt.Sprintf("%d crashes", i), next, "")
		}
		if w.left.losses > 0 && m.server != 0 {
			next := *w
			next.left.losses--
			next.members[i] = mMember{uid: m.uid + 1} // the pod is replaced, without a ticket
			visit(fmt.Sprintf("the volume of %d is lost", i), next, "")
		}
		if w.left.tears > 0 && m.up && m.role != RolePrimary && m.received != m.written {
			next := *w
			next.left.tears--
			next.members[i].torn = true
			visit(fmt.Sprintf("the relay log of %d is torn", i), next, "")
		}
		if w.left.cuts > 0 && w.unseen>>i&1 == 0 {
			next := *w
			next.left.cuts--
			next.unseen |= 1 << i
			visit(fmt.Sprintf("the operator does not reach %d", i), next, "")
		}
		if w.unseen>>i&1 == 1 {
			next := *w
			next.unseen &^= 1 << i
			visit(fmt.Sprintf("the operator reaches %d", i), next, "")
		}
	}
	for bit := uint8(1); bit <= 4; bit <<= 1 {
		next := *w
		switch {
		case w.links&bit != 0:
			next.links &^= bit
			visit(fmt.Sprintf("link %d is back", bit), next, "")
		case w.left.cuts > 0:
			next.links |= bit
			next.left.cuts--
			visit(fmt.Sprintf("link %d is cut", bit), next, "")
		}
	}
}
