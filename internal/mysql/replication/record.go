// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"slices"
	"strings"
)

// Identity names the data of a member: its pod's ordinal, and the UUID of the server that wrote it. Data that was made again
// has another UUID, so that an empty volume is never mistaken for a voter's.
type Identity struct {
	Ordinal int    `json:"ordinal"`
	Server  string `json:"server"`
}

// Record stores what members cannot tell: who is primary, and whose copies count.
type Record struct {
	// Epoch grows with each promotion.
	Epoch int64 `json:"epoch"`
	// Revision grows with each write of the record.
	Revision int64 `json:"revision"`
	// Formed reports whether there ever was a primary.
	Formed  bool     `json:"formed"`
	Primary Identity `json:"primary"`
	// Voters are members other than the primary whose acknowledgements count, by ordinal. None: the primary is alone.
	Voters []Identity `json:"voters,omitempty"`
	// Acknowledgements is how many voters must have a transaction before the primary acknowledges it. 0: none, the primary is
	// alone. 1 without voters: the primary waits.
	Acknowledgements int `json:"acknowledgements"`
}

// Promises returns how many voters must promise a new epoch, so that the primary of the old one cannot acknowledge any more,
// and each acknowledged transaction is on one of them. 0: no other member may be promoted.
func (r Record) Promises() int {
	if len(r.Voters) == 0 || r.Acknowledgements == 0 {
		return 0
	}
	return len(r.Voters) - r.Acknowledgements + 1
}

// IsVoter reports whether the copy of this data counts.
func (r Record) IsVoter(id Identity) bool { return slices.Contains(r.Voters, id) }

// next returns a copy to change, with the next revision.
func (r Record) next() Record {
	r.Revision++
	r.Voters = slices.Clone(r.Voters)
	return r
}

// Volume is one word for what a volume is, as the agent says.
type Volume string

// The kinds of volumes.
const (
	VolumeEmpty   Volume = "Empty"   // it never had data
	VolumeOwn     Volume = "Own"     // data of this member
	VolumeForeign Volume = "Foreign" // data of another member, or without a mark
)

// Role is one word for what a member's server does.
type Role string

// The roles.
const (
	RoleNone    Role = ""        // the server does not run, or only reads
	RoleReplica Role = "Replica" // its receiver runs, connected or not
	RolePrimary Role = "Primary" // it is writable, or on the way there
)

// Position is a place in a binary log.
type Position struct {
	File   string `json:"file"`
	Offset uint64 `json:"offset"`
}

// Before reports whether p lies before q. Numbers of files have a fixed width, until there are a million of them.
func (p Position) Before(q Position) bool {
	if p.File == q.File {
		return p.Offset < q.Offset
	}
	if len(p.File) == len(q.File) {
		return strings.Compare(p.File, q.File) < 0
	}
	return len(p.File) < len(q.File)
}

// Member is what was observed of one pod and its agent.
type Member struct {
	Identity
	// UID is the pod's; empty without one.
	UID string
	// Answers reports whether the agent answered this time. Without that, nothing below is known but Silent and Bad.
	Answers bool
	// Silent reports whether the agent, or the server that it should run, did not answer three looks in a row.
	Silent bool
	// Bad reports whether the member was gone, not connected though the primary lets it in, or its applier had an error or
	// lagged, for more than ten seconds.
	Bad bool

	Volume Volume
	// Instance names the start of the agent.
	Instance string
	// Running reports whether the server answers the agent.
	Running bool
	Role    Role
	// Promised is the highest epoch that it promised, and Revision the highest of an order that it took.
	Promised, Revision int64
	// UsedTicket is the last ticket that it used.
	UsedTicket string
	// Executed are the transactions that were applied, and Received those and what the relay log has.
	Executed, Received GTIDs

	// Of a primary: its epoch, how many acknowledgements it demands, whose connections it refuses, where its binary log ends
	// and where it ended when the last of them was refused, how many sessions wait for an acknowledgement, and whether that
	// took more than five seconds.
	Epoch   int64
	Demands int
	Cut     []int
	End     Position
	CutEnd  Position
	Waiting int
	Blocked bool

	// Of a replica: the ordinal that it follows, whether it acknowledges, whether its receiver is connected, up to where it has
	// the log of the primary, and whether it has applied that up to a second ago.
	Source       int
	Acknowledges bool
	Connected    bool
	ReadTo       Position
	CaughtUp     bool
	// Routed reports whether the Service leads to it.
	Routed bool
}

// usable reports whether orders can be given to a member's server.
func (m Member) usable() bool { return m.Answers && m.Running && m.Volume == VolumeOwn }

// drained reports whether its relay log is applied.
func (m Member) drained() bool { return m.Executed.Contains(m.Received) }

// WhenAlone is what a primary does without a copy.
type WhenAlone string

// What a primary does without a copy.
const (
	Write WhenAlone = "Write"
	Block WhenAlone = "Block"
)

// Want is what the resource asks for.
type Want struct {
	Replicas  int
	WhenAlone WhenAlone
	// Manual reports whether a failover waits for a person.
	Manual bool
	// MaxVoters bounds the voters: 2 of three members.
	MaxVoters int
	// Switch asks for the member To as the primary.
	Switch bool
	To     int
}

// Observation is what a decision depends on. Members are by ordinal, one for each wanted pod or one that exists. The record's
// primary is asked after the others have answered: what they have more is not what it wrote since.
type Observation struct {
	Record  Record
	Members []Member
}
