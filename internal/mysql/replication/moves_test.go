// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"fmt"
	"math/bits"
)

// moves are what happens without the operator: agents act on tickets, transactions are written, sent and applied.
func (w *world) moves(broken rules, visit func(how string, next world, harm string)) {
	for i := range w.members {
		m := &w.members[i]
		if !m.up {
			next := *w
			next.members[i].up = true
			visit(fmt.Sprintf("%d starts", i), next, "")
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
		if m.written != m.received && m.role != RolePrimary {
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

// receive brings a transaction to a replica, which acknowledges it or not. The client may get its answer at once.
func (w *world) receive(i int, bit uint8, visit func(string, world, string)) {
	next := *w
	m := &next.members[i]
	m.received |= bit
	harm := ""
	p := &w.members[m.source]
	if waits := p.written & m.received & (2*bit - 1) &^ p.done; p.role == RolePrimary && m.acknowledges && waits != 0 {
		harm = next.acknowledge(int(m.source), waits) // an acknowledgement is for all up to a place in the log
	}
	visit(fmt.Sprintf("%d receives", i), next, harm)
}

// heartbeat is a row that the primary writes, without a number of its own: who receives it acknowledges what it had before.
func (w *world) heartbeat(primary int) {
	p := &w.members[primary]
	for i := range w.members {
		m := &w.members[i]
		if waits := p.written &^ p.done; p.role == RolePrimary && int(m.source) == primary && w.connected(i) && m.acknowledges && m.received&p.written == p.written && waits != 0 {
			w.late = w.acknowledge(primary, waits)
		}
	}
}

// acknowledge answers the client of a transaction on primary i. It returns what is wrong with that.
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

// useTicket is what an agent does with a ticket. It returns what is wrong with that.
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
				m.cutOthers |= 1 << other // until it is ordered whom to let in
			}
		}
	case verbJoin:
		p := &w.members[t.source]
		if m.role == RolePrimary || t.revision < m.revision || !p.up || p.server != t.server || p.role != RolePrimary || !w.linked(i, int(t.source)) || int(t.source) == i {
			return ""
		}
		w.servers++
		m.server, m.used, m.role, m.acknowledges = w.servers, t, RoleNone, false
		m.written, m.received, m.done = p.done, p.done, p.done // what waits is not committed, and is not in a copy
		m.revision = t.revision
	}
	return ""
}

// release is what a graceful stop does to commits that wait.
func (w *world) release(i int) string {
	if waiting := w.members[i].written &^ w.acked; waiting != 0 {
		return w.acknowledge(i, waiting&-waiting)
	}
	return ""
}

// restart ends the server and the agent of a member. What was written is committed by its next start.
func (w *world) restart(i int) {
	m := &w.members[i]
	m.role, m.epoch, m.demands, m.source, m.acknowledges = RoleNone, 0, 0, 0, false
	m.cutVoters, m.cutOthers, m.cutEnd, m.done = 0, 0, 0, m.written
}

// faults are what happens from outside.
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
			next.members[i] = mMember{uid: m.uid + 1} // its pod is another one, without a ticket
			visit(fmt.Sprintf("the volume of %d is lost", i), next, "")
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
