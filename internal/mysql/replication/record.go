// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"slices"
	"time"

	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

// Identity identifies the data of a member: the ordinal of its pod, and the UUID of the server that wrote the data. Recreated data has
// another UUID, so that an empty volume is never mistaken for the volume of a voter.
type Identity struct {
	Ordinal int    `json:"ordinal"`
	Server  string `json:"server"`
}

// Record stores facts that no member stores: the primary, and the copies that count.
type Record struct {
	// Epoch increases with each promotion.
	Epoch int64 `json:"epoch"`
	// Revision increases with each write of the record.
	Revision int64 `json:"revision"`
	// Formed reports whether a primary ever existed.
	Formed  bool     `json:"formed"`
	Primary Identity `json:"primary"`
	// Voters are the members whose acknowledgements count, sorted by ordinal. They do not include the primary. Without voters, the
	// primary is alone.
	Voters []Identity `json:"voters,omitempty"`
	// Acknowledgements is the number of voters that must have a transaction before the primary acknowledges it to the
	// client. 0 means that the primary needs no voter. If it is 1 and there are no voters, commits wait.
	Acknowledgements int `json:"acknowledgements"`
}

// Promises returns the number of voters that must promise a new epoch, or 0 if no member may be promoted. After these
// promises, the primary of the old epoch can acknowledge nothing more. And one of the promising voters has every
// acknowledged transaction.
func (r Record) Promises() int {
	if len(r.Voters) == 0 || r.Acknowledgements == 0 {
		return 0
	}
	return len(r.Voters) - r.Acknowledgements + 1
}

// Pods returns the number of pods that must exist. It covers the wanted members, the primary and all voters. A parked
// database has no pods.
func (r Record) Pods(replicas int) int {
	if replicas == 0 || !r.Formed {
		return replicas
	}
	pods := max(replicas, r.Primary.Ordinal+1)
	for _, id := range r.Voters {
		pods = max(pods, id.Ordinal+1)
	}
	return pods
}

// IsVoter reports whether the member with this data is a voter.
func (r Record) IsVoter(id Identity) bool { return slices.Contains(r.Voters, id) }

// next returns a copy of the record with the next revision.
func (r Record) next() Record {
	r.Revision++
	r.Voters = slices.Clone(r.Voters)
	return r
}

// Volume is the state of a volume, as the agent reports it.
type Volume = mysqlmember.Volume

// The kinds of volumes.
const (
	VolumeEmpty   = mysqlmember.VolumeEmpty
	VolumeLost    = mysqlmember.VolumeLost
	VolumeOwn     = mysqlmember.VolumeOwn
	VolumeForeign = mysqlmember.VolumeForeign
	VolumeSingle  = mysqlmember.VolumeSingle
)

// Role is the role of a member's server.
type Role = mysqlmember.Role

// The roles.
const (
	RoleNone    = mysqlmember.RoleNone
	RoleReplica = mysqlmember.RoleReplica
	RolePrimary = mysqlmember.RolePrimary
)

// Damage is the reason why a replica can never apply the transactions that it has received.
type Damage = mysqlmember.Damage

// The kinds of damage.
const (
	DamageLog  = mysqlmember.DamageLog
	DamageData = mysqlmember.DamageData
)

// Position is a position in a binary log.
type Position = mysqlmember.Position

// Member is the observation of one pod and its agent.
type Member struct {
	Identity
	// UID is the UID of the pod; empty if there is no pod.
	UID string
	// Answers reports whether the agent has answered the last query. If not, only Silent and Bad of the following fields are set.
	Answers bool
	// Silent reports whether the agent or its server has not answered three consecutive queries.
	Silent bool
	// Bad reports whether the member has been useless for more than ten seconds. It was missing, it was not connected
	// although the primary admits it, or its applier had an error or lagged.
	Bad bool

	Volume Volume
	// Mark is the mark of a single server's data on the volume.
	Mark string
	// Instance identifies the start of the server, or of the agent while no server runs.
	Instance string
	// Running reports whether the server answers its agent.
	Running bool
	Role    Role
	// Promised is the highest promised epoch. Revision is the highest revision of an accepted order.
	Promised, Revision int64
	// Ticket is the annotation of the member's pod. UsedTicket is the last used ticket. FailedTicket is a ticket that the member has failed
	// to use and will try again.
	Ticket, UsedTicket, FailedTicket string
	// Outdated reports whether the StatefulSet would create a different pod. Down reports whether, according to Kubernetes, no server of
	// the member runs.
	Outdated, Down bool
	// WellFor is the time for which the pod has been ready without a restart. Ended describes the last termination of a container; empty if
	// there is none.
	WellFor time.Duration
	Ended   string
	// Failing reports whether the agent names a reason why the server does not run on the member's data.
	Failing bool
	// Orders is the version of the orders that the agent can read. Since version 2, each server has a separate password.
	Orders int
	// Executed are the applied transactions. Received adds the transactions in the relay log.
	Executed, Received GTIDs

	// Fields of a primary. Writable reports whether it accepts writes. Purged are the transactions that its logs no
	// longer contain. Epoch is its epoch. Demands is the number of acknowledgements that it demands. Cut are the
	// ordinals whose connections it refuses. Servers are the servers that have a separate password, by the ordinals of
	// their members. End is the end of its binary log, and CutEnd was the end when it last refused a connection.
	// Waiting is the number of sessions that wait for an acknowledgement, or 0 if a transaction was committed since the
	// last query. Busy reports whether such a commit happened while sessions wait: members may already have
	// transactions that only the next query of the primary shows. Blocked reports whether sessions have waited for five
	// seconds.
	Writable bool
	Purged   GTIDs
	Epoch    int64
	Demands  int
	Cut      []int
	Servers  map[int]string
	End      Position
	CutEnd   Position
	Waiting  int
	Busy     bool
	Blocked  bool

	// Fields of a replica. Source is the ordinal that it was ordered to follow. SourceServer is the server to which it is connected,
	// possibly another server at the same address; empty without a connection, or with an older agent. Acknowledges reports whether it
	// acknowledges. Connected reports whether its receiver is connected. ReadTo is the position up to which it has the primary's log.
	// CaughtUp reports whether it has applied everything that is older than a second.
	Source       int
	SourceServer string
	// Personal reports whether the member logs in with the separate password of its server.
	Personal     bool
	Acknowledges bool
	Connected    bool
	ReadTo       Position
	CaughtUp     bool
	// Damage is the reason why the member can never apply the transactions that it has received; empty for none.
	Damage Damage
	// Routed reports whether the primary's Service selects the member.
	Routed bool
}

// usable reports whether a member's server can execute orders.
func (m Member) usable() bool { return m.Answers && m.Running && m.Volume == VolumeOwn }

// hasNoData reports whether a member answers and has no data.
func (m Member) hasNoData() bool {
	return m.Answers && (m.Volume == VolumeEmpty || m.Volume == VolumeLost)
}

// hasOther reports whether a member answers, and certainly does not have the data of an identity. If the answer does
// not state the volume, the agent could not read it, so nothing is certain.
func (m Member) hasOther(id Identity) bool {
	return m.hasNoData() || m.Answers && m.Volume == VolumeOwn && m.Server != "" && m.Identity != id
}

// isDamaged reports whether a replica has been bad for a time because it can never apply the transactions that it has
// received.
func (m Member) isDamaged() bool { return m.Bad && m.Damage != "" }

// drained reports whether the member has applied its whole relay log.
func (m Member) drained() bool { return m.Executed.Contains(m.Received) }

// WhenAlone selects the behaviour of a primary without a copy.
type WhenAlone string

// Behaviours of a primary without a copy.
const (
	Write WhenAlone = "Write"
	Block WhenAlone = "Block"
)

// Want is the desired state from the spec.
type Want struct {
	// Replicas is the number of members; 0 for a parked database.
	Replicas  int
	WhenAlone WhenAlone
	// Manual reports whether only a user starts a failover.
	Manual bool
	// Members is the maximum number of members. The primary also refuses ordinals below Members that have no pod,
	// because the server of a removed pod may still run and acknowledge.
	Members int
	// MaxVoters limits the number of voters: 2 of three members.
	MaxVoters int
	// WellFor is the time for which a pod must be ready without a restart before the next pod is replaced.
	WellFor time.Duration
	// Switch reports whether the user wants the member To as the primary.
	Switch bool
	To     int
	// AcceptLoss is the token of the loss that a user accepts: Model.Token in the state Lost.
	AcceptLoss string
	// Adopt is the mark of a single server's data, which becomes the first data of a database that was never formed; empty for a new
	// database.
	Adopt string
}

// Observation is the input of a decision. Members are sorted by ordinal, one for each wanted or existing pod. The
// record's primary is queried last. So a transaction that another member has and the primary's answer lacks is really
// missing: it was not written in between.
type Observation struct {
	Record  Record
	Members []Member
}
