// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"sync"
)

// size is the number of members of a world. txns is the maximum number of transactions.
const (
	size = 3
	txns = 3
)

var errRefused = errors.New("refused")

// mMember is a member with its agent. Transactions are bits. written holds the transactions in the binary log. received
// holds those in the binary log and in the relay log. restart keeps only the persistent fields.
type mMember struct {
	up                         bool
	outdated                   bool
	torn                       bool  // its relay log cannot be read
	uid                        uint8 // of its pod
	server                     uint8 // 0: an empty volume
	written, received          uint8
	promised, revision         uint8
	used                       mTicket
	ticket                     mTicket // annotation of its pod; the last one counts
	role                       Role
	epoch, demands             uint8
	cutVoters, cutOthers, done uint8 // done are committed transactions
	cutEnd                     uint8
	source                     uint8
	acknowledges               bool
}

type mTicket struct {
	verb                     uint8
	epoch, revision, demands uint8
	source, server           uint8
}

const (
	verbSeed = iota + 1
	verbPrimary
	verbJoin
	verbFence
)

type mID struct{ ordinal, server uint8 }

type mRecord struct {
	epoch, revision, demands uint8
	formed                   bool
	primary                  mID
	voters                   [size - 1]mID // server 0: none
}

// mStep is a step without its texts for users.
type mStep struct {
	action              Action
	member, uid         uint8
	server              uint8
	ticket              mTicket
	epoch, revision     uint8
	source              uint8
	acknowledge, renew  bool
	demands             uint8
	cutVoters, cutOther uint8
	record              mRecord
	was                 uint8 // revision of the record
}

// budget limits the faults that may still happen.
type budget struct{ crashes, cuts, losses, stale, writes, tears uint8 }

// rules selects the rules of the design that a negative control breaks.
type rules struct{ gracefulDemotion, learnerAcknowledges, anyRevision, timeout, noPromiseOnDisk, clearsCut, hastyDemotion bool }

type world struct {
	members [size]mMember
	record  mRecord
	servers uint8       // number of created servers
	links   uint8       // disconnected pairs, by the bit of link
	unseen  uint8       // members that the operator cannot reach
	acked   uint8       // transactions whose acknowledgement the client has received
	next    uint8       // number of the next transaction
	author  [txns]uint8 // servers that wrote the transactions
	acker   [8]uint8
	held    mStep
	to      uint8  // the member that the user wants as the primary, plus 1; 0: none
	wants   uint8  // number of members in the spec; 0: all
	late    string // an invariant that a step has violated by causing an acknowledgement
	left    budget
}

func link(a, b int) uint8 { return 1 << (a + b - 1) } // 0-1: 1, 0-2: 2, 1-2: 4

func (w *world) linked(a, b int) bool { return w.links&link(a, b) == 0 }

// pods returns the number of pods that exist when no step is left.
func (w *world) pods() int {
	pods := int(w.wants)
	if pods == 0 || !w.record.formed {
		return size
	}
	pods = max(pods, int(w.record.primary.ordinal)+1)
	for _, v := range w.record.voters {
		if v.server != 0 {
			pods = max(pods, int(v.ordinal)+1)
		}
	}
	return pods
}

func (w *world) id(i int) mID { return mID{uint8(i), w.members[i].server} }

// connected reports whether member i receives from its source.
func (w *world) connected(i int) bool {
	m := &w.members[i]
	p := int(m.source)
	return m.up && m.role == RoleReplica && p != i && w.members[p].up && w.members[p].server != 0 && w.linked(i, p) &&
		(w.members[p].cutVoters|w.members[p].cutOthers)&(1<<i) == 0
}

func identity(id mID) Identity {
	return Identity{Ordinal: int(id.ordinal), Server: server(id.server)}
}

func server(n uint8) string {
	if n == 0 {
		return ""
	}
	return servers[n]
}

var (
	servers [64]string
	sets    [1 << txns]GTIDs
)

func init() {
	for i := range servers {
		servers[i] = fmt.Sprintf("s%d", i)
	}
	for mask := range sets {
		sets[mask] = GTIDs{}
		for i := range txns {
			if mask>>i&1 == 1 {
				sets[mask]["a"] = append(sets[mask]["a"], interval{int64(i + 1), int64(i + 1)})
			}
		}
		if sets[mask]["a"] != nil {
			sets[mask]["a"] = merge(sets[mask]["a"])
		}
	}
}

func ordinals(mask uint8) []int {
	var all []int
	for i := range size {
		if mask>>i&1 == 1 {
			all = append(all, i)
		}
	}
	return all
}

func maskOf(all []int) (mask uint8) {
	for _, i := range all {
		mask |= 1 << i
	}
	return mask
}

func (r mRecord) real() Record {
	record := Record{Epoch: int64(r.epoch), Revision: int64(r.revision), Formed: r.formed, Primary: identity(r.primary), Acknowledgements: int(r.demands)}
	for _, v := range r.voters {
		if v.server != 0 {
			record.Voters = append(record.Voters, identity(v))
		}
	}
	return record
}

func serverNumber(name string) uint8 {
	n := slices.Index(servers[:], name)
	return uint8(max(n, 0))
}

func packID(id Identity) mID { return mID{uint8(id.Ordinal), serverNumber(id.Server)} }

func packRecord(r Record) mRecord {
	m := mRecord{epoch: uint8(r.Epoch), revision: uint8(r.Revision), demands: uint8(r.Acknowledgements), formed: r.Formed, primary: packID(r.Primary)}
	for i, v := range r.Voters {
		m.voters[i] = packID(v)
	}
	return m
}

func (t mTicket) text() string {
	switch t.verb {
	case verbSeed:
		return SeedTicket
	case verbFence:
		return FenceTicket
	case verbPrimary:
		return PrimaryTicket(int64(t.epoch), int64(t.revision), int(t.demands))
	case verbJoin:
		return JoinTicket(Record{Revision: int64(t.revision)}, identity(mID{t.source, t.server}))
	}
	return ""
}

// setKey identifies a set of transactions together with the servers that wrote them.
type setKey struct {
	mask   uint8
	author [txns]uint8
}

var namedSets sync.Map // GTIDs by setKey

// set returns transactions as GTIDs with the names of the servers that wrote them.
func (w *world) set(mask uint8) GTIDs {
	key := setKey{mask, w.author}
	if set, is := namedSets.Load(key); is {
		return set.(GTIDs)
	}
	set := GTIDs{}
	for i := range txns {
		if mask>>i&1 == 1 {
			set[server(w.author[i])] = append(set[server(w.author[i])], interval{int64(i + 1), int64(i + 1)})
		}
	}
	for source := range set {
		set[source] = merge(set[source])
	}
	namedSets.Store(key, set)
	return set
}

// busy returns an observation in which the primary has committed transactions between two queries while sessions wait.
// The second result is false if no session waits.
func (w *world) busy() (o Observation, is bool) {
	o = w.view()
	for i := range o.Members {
		if m := &o.Members[i]; m.Waiting > 0 {
			m.Busy, m.Waiting, m.Blocked, is = true, 0, false, true
		}
	}
	return o, is
}

// needless describes a step that replaces a member's data although the primary has all of this data.
func (w *world) needless(s *Step) string {
	m, p := &w.members[s.Member.Ordinal], &w.members[w.record.primary.ordinal]
	if s.Action == ActionTicket && strings.HasPrefix(s.Ticket, "join:") && m.server != 0 && !m.torn && m.received&^p.written == 0 {
		return fmt.Sprintf("the data of member %d is set aside, although the primary has all of it", s.Member.Ordinal)
	}
	return ""
}

// view returns the operator's observation.
func (w *world) view() Observation {
	o := Observation{Record: w.record.real(), Members: make([]Member, size)}
	for i := range w.members {
		m := &w.members[i]
		if !m.up && i >= w.pods() {
			o.Members = o.Members[:i]
			break
		}
		seen := Member{Identity: identity(w.id(i)), UID: servers[m.uid]}
		if !m.up || w.unseen>>i&1 == 1 {
			o.Members[i] = Member{Identity: Identity{Ordinal: i}, Silent: true, Bad: true}
			continue
		}
		seen.Answers, seen.Volume, seen.Running, seen.Outdated = true, VolumeOwn, true, m.outdated
		if m.server == 0 {
			seen.Volume, seen.Running = VolumeEmpty, false
		}
		seen.Role, seen.Promised, seen.Revision, seen.UsedTicket, seen.Ticket = m.role, int64(m.promised), int64(m.revision), m.used.text(), m.ticket.text()
		seen.Received, seen.Executed = w.set(m.received), w.set(m.written)
		seen.Source = int(m.source)
		if m.role == RolePrimary {
			seen.Writable = true
			seen.Epoch, seen.Demands, seen.Cut, seen.Routed = int64(m.epoch), int(m.demands), ordinals(m.cutVoters|m.cutOthers), true
			seen.End, seen.CutEnd = Position{File: "b", Offset: uint64(bits.Len8(m.written))}, Position{File: "b", Offset: uint64(m.cutEnd)}
			seen.Executed, seen.Waiting, seen.Blocked = w.set(m.done), bits.OnesCount8(m.written&^m.done), m.done != m.written
		}
		if m.role == RoleReplica {
			seen.Acknowledges, seen.Connected = m.acknowledges, w.connected(i)
			read := uint8(bits.TrailingZeros8(w.members[m.source].written&^m.received | 1<<7))
			seen.ReadTo = Position{File: "b", Offset: uint64(min(read, uint8(bits.Len8(w.members[m.source].written))))}
			seen.CaughtUp = m.written == m.received && w.members[m.source].done&^m.written == 0
			p := &w.members[m.source]
			seen.Bad = !seen.Connected && (p.cutVoters|p.cutOthers)&(1<<i) == 0
		}
		if m.torn && m.role != RolePrimary {
			seen.Damage, seen.Orders, seen.Bad, seen.CaughtUp = DamageLog, renewOrders, true, false
		}
		o.Members[i] = seen
	}
	return o
}

// pack returns the orders of a step, one for each member, or the step itself.
func pack(s *Step) []mStep {
	all := []mStep{packFor(s, s.Member)}
	for _, m := range s.Others {
		all = append(all, packFor(s, m))
	}
	return all
}

func packFor(s *Step, member Member) mStep {
	m := mStep{
		action: s.Action, member: uint8(member.Ordinal), uid: serverNumber(member.UID), server: serverNumber(member.Server), epoch: uint8(s.Epoch), revision: uint8(s.Revision),
		source: uint8(s.Source.Ordinal), acknowledge: s.Acknowledge, renew: s.Renew, demands: uint8(s.Demands), cutVoters: maskOf(s.CutVoters), cutOther: maskOf(s.CutOthers), was: uint8(s.Was.Revision),
	}
	if s.Record != nil {
		m.record = packRecord(*s.Record)
	}
	switch {
	case s.Ticket == SeedTicket:
		m.ticket.verb = verbSeed
	case s.Ticket == FenceTicket:
		m.ticket.verb = verbFence
	case s.Action == ActionTicket && s.Source.Server != "":
		m.ticket = mTicket{verb: verbJoin, revision: uint8(s.Revision), source: uint8(s.Source.Ordinal), server: serverNumber(s.Source.Server)}
	case s.Action == ActionTicket:
		var e, r, d uint8
		_, _ = fmt.Sscanf(s.Ticket, "primary:%d:%d:%d", &e, &r, &d)
		m.ticket = mTicket{verb: verbPrimary, epoch: e, revision: r, demands: d}
	}
	return m
}

// take applies the effect of a step, unless the API server or an agent refuses the step. It does not check proofs,
// because a delayed step has none.
func (w *world) take(s mStep, broken rules) error {
	if s.action == ActionRecord {
		if w.record.revision != s.was {
			return errRefused
		}
		w.record = s.record
		return nil
	}
	m := &w.members[s.member]
	if !m.up || m.uid != s.uid || w.unseen>>s.member&1 == 1 || s.action != ActionTicket && m.server != s.server {
		return errRefused
	}
	switch s.action { //nolint:exhaustive // the others are orders to the member
	case ActionTicket:
		m.ticket = s.ticket
		return nil
	case ActionDeletePod:
		w.restart(int(s.member))
		m.up, m.outdated, m.ticket = false, false, mTicket{}
		m.uid++
		return nil
	}
	if s.epoch < m.promised || s.action != ActionPromise && s.revision < m.revision && !broken.anyRevision { // a promise is accepted with any revision
		return errRefused
	}
	switch s.action { //nolint:exhaustive // the others are above, or change nothing here
	case ActionPromise:
		m.promised, m.acknowledges = s.epoch, false
		if m.role == RoleReplica {
			m.role = RoleNone
		}
	case ActionFollow:
		if m.role == RolePrimary {
			return errRefused
		}
		if s.renew {
			if !m.torn {
				return errRefused
			}
			m.torn, m.received, m.role = false, m.written, RoleNone
		}
		isSame := m.role == RoleReplica && m.source == s.source && m.acknowledges == s.acknowledge
		if m.written != m.received && !isSame { // the member stops, applies its relay log, and refuses the order
			m.promised, m.revision, m.role, m.acknowledges = s.epoch, s.revision, RoleNone, false
			return errRefused
		}
		m.promised, m.revision, m.role, m.source, m.acknowledges = s.epoch, s.revision, RoleReplica, s.source, s.acknowledge || broken.learnerAcknowledges
	case ActionDemote:
		if m.role != RolePrimary || m.written != m.done && !broken.hastyDemotion {
			return errRefused
		}
		if m.written != m.done {
			w.late = w.acknowledge(int(s.member), m.written)
		}
		m.promised = s.epoch
		w.restart(int(s.member))
	case ActionHeartbeat:
		w.heartbeat(int(s.member))
	case ActionServe:
		if m.role != RolePrimary {
			return errRefused
		}
		if s.revision > m.revision || broken.clearsCut {
			m.cutVoters = 0
		}
		m.promised, m.epoch, m.revision, m.demands = s.epoch, s.epoch, s.revision, s.demands
		m.cutVoters, m.cutOthers = m.cutVoters|s.cutVoters, s.cutOther
		m.cutEnd = uint8(bits.Len8(m.written))
		if m.demands == 0 {
			w.late = w.acknowledge(int(s.member), m.written)
		}
	}
	return nil
}
