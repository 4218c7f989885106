// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mysqlmember defines the interface of the agent of a MySQL member: the answers and orders of its API over mutual TLS, and the
// tickets of its pod. The operator, the agents of other members, and the commands for backups and archives use it.
//
// A member may run an older agent than the operator. An older agent refuses an order with a field that it does not know: see OrdersVersion.
package mysqlmember

import (
	"strings"
	"time"

	"d3os.com/d3os-operator/internal/contract"
)

const (
	// Port is the port of the API.
	Port = 3307
	// Operator is the DNS name in the operator's certificate. Only the operator may give orders; other certificates of the cluster's
	// authority may read the state.
	Operator = "operator"
	// OrdersVersion is the version of Request. Version 1 added Source.Server, version 2 the passwords of servers, version 3 Renew.
	OrdersVersion = 3
)

// The paths of the API. State, Events and Ping are read by GET, the others are orders by POST.
const (
	PathState     = contract.PathState
	PathEvents    = "/events"
	PathPing      = "/ping"
	PathPromise   = "/promise"
	PathFollow    = "/follow"
	PathServe     = "/serve"
	PathHeartbeat = "/heartbeat"
	PathDemote    = "/demote"
)

// The verbs of tickets. A ticket is an annotation on one pod, and is valid for one start of its server.
const (
	TicketPrimary = "primary" // primary:EPOCH:REVISION:ACKNOWLEDGEMENTS: become the primary
	TicketSeed    = "seed"    // seed: create the first data, on an empty volume
	TicketAdopt   = "adopt"   // adopt:MARK: use the data of a single server with that mark as the first data
	TicketJoin    = "join"    // join:REVISION:ORDINAL:SERVER: move the data aside, and copy the data of a member
	TicketFence   = "fence"   // fence: kill the server if it is a primary
)

// Volume classifies the data on a member's volume.
type Volume string

// The kinds of volumes.
const (
	VolumeEmpty   Volume = "Empty"   // the volume never had data
	VolumeLost    Volume = "Lost"    // the volume had data of this member, and the data is lost
	VolumeOwn     Volume = "Own"     // data of this member
	VolumeForeign Volume = "Foreign" // data of another pod, of a server other than the recorded one, or without a record
	VolumeSingle  Volume = "Single"  // data of a single server of a DataService, with a mark and without a record
)

// Role is the role of a member's server.
type Role string

// The roles.
const (
	RoleNone    Role = ""        // the server does not run, or is neither a replica nor a primary
	RoleReplica Role = "Replica" // the receiver runs, connected or not
	RolePrimary Role = "Primary" // the server is writable, or is becoming writable
)

// Commits describes the commits of a primary.
type Commits string

// The states of a primary's commits.
const (
	CommitsEnd  Commits = "End"  // no session waits for an acknowledgement
	CommitsBusy Commits = "Busy" // sessions wait, and transactions are committed
	CommitsWait Commits = "Wait" // sessions wait, and no transaction is committed
)

// Damage classifies the reason why a replica can never apply the transactions that it has received. Other errors of the applier may end by
// themselves.
type Damage string

// The kinds of damage.
const (
	DamageLog  Damage = "Log"  // the replica's relay log cannot be read
	DamageData Damage = "Data" // the replica's data differs from the primary's, or its relay log could not be read even after it was renewed
)

// Position is a position in a binary log.
type Position struct {
	File   string `json:"file,omitempty"`
	Offset uint64 `json:"offset,omitempty"`
}

// Before reports whether p is before q. File numbers have a fixed width below one million.
func (p Position) Before(q Position) bool {
	if p.File == q.File {
		return p.Offset < q.Offset
	}
	if len(p.File) == len(q.File) {
		return strings.Compare(p.File, q.File) < 0
	}
	return len(p.File) < len(q.File)
}

// Order identifies the version of the operator's record on which an order is based.
type Order struct {
	Epoch    int64 `json:"epoch"`
	Revision int64 `json:"revision"`
}

// Source is the member from which another member replicates.
type Source struct {
	Ordinal int    `json:"ordinal"`
	Host    string `json:"host"`
	Port    int    `json:"port"`
	// Server is the UUID of the server's data; empty in the order of an older operator, which does not compare UUIDs.
	Server string `json:"server,omitempty"`
	// Personal makes the member log in with its server's password, instead of the common password of all members.
	Personal bool `json:"personal,omitempty"`
}

// Request is the body of an order. Instance and Server identify the start and the data of the member that the operator
// observed. The agent refuses an order for another start or for other data. For a primary, Demands is the number of
// replicas that must acknowledge each transaction. CutVoters and CutOthers are the ordinals of the members whose
// connections the primary must refuse.
type Request struct {
	Order
	Instance    string `json:"instance"`
	Server      string `json:"server"`
	Source      Source `json:"source,omitzero"`
	Acknowledge bool   `json:"acknowledge,omitempty"`
	// Renew makes a member with DamageLog delete its relay log, and receive again the transactions that it has not
	// applied.
	Renew     bool  `json:"renew,omitempty"`
	Demands   int   `json:"demands,omitempty"`
	CutVoters []int `json:"cutVoters,omitempty"`
	CutOthers []int `json:"cutOthers,omitempty"`
	// Servers are the UUIDs of the servers that log in with their own passwords, by the ordinals of their members.
	Servers map[int]string `json:"servers,omitempty"`
}

// Report describes a member, whether its server runs or not.
type Report struct {
	// Instance identifies the start of the server. While no server runs, it identifies the start of the agent.
	Instance string `json:"instance"`
	Volume   Volume `json:"volume,omitempty"`
	// Mark identifies the data of a single server that no member has adopted.
	Mark string `json:"mark,omitempty"`
	// Server is the UUID of the data.
	Server   string `json:"server,omitempty"`
	Promised int64  `json:"promised,omitempty"`
	Revision int64  `json:"revision,omitempty"`
	// Ticket is the last ticket that was used. Making is the ticket for which the agent is now creating new data.
	// Failed is the last ticket for which this creation failed; the agent retries it.
	Ticket string `json:"ticket,omitempty"`
	Making string `json:"making,omitempty"`
	Failed string `json:"failed,omitempty"`
	// Problem is the reason why the server does not run, or why a ticket is not used.
	Problem string `json:"problem,omitempty"`
	// Full describes the free space of a nearly full volume: soon the server cannot write.
	Full string `json:"full,omitempty"`
	// Kept is the size in MiB of folders of former data that were set aside on the volume.
	Kept int64 `json:"kept,omitempty"`
	// Orders is the newest version of orders that this agent reads: it refuses fields of newer versions.
	Orders int `json:"orders,omitempty"`
	// Accounts is the reason why databases and accounts of a primary differ from the spec.
	Accounts string `json:"accounts,omitempty"`
}

// State stores the answers of a member's server. Promised is the highest epoch that the member has promised: it refuses
// orders of older epochs. Sets of GTIDs are in the notation of MySQL, and may contain a range twice.
type State struct {
	Server string `json:"server"`
	// Version is the server's version, such as 8.4.9.
	Version  string `json:"version,omitempty"`
	Role     Role   `json:"role,omitempty"`
	Promised int64  `json:"promised,omitempty"`
	Revision int64  `json:"revision,omitempty"`
	// Executed is the set of applied transactions. Received also contains the transactions of the relay log.
	Executed string `json:"executed"`
	Received string `json:"received"`
	Writable bool   `json:"writable,omitempty"`

	// The following fields are set for a primary. Purged is the set of transactions that the primary's logs no longer
	// contain. Demands is the number of replicas that must acknowledge each transaction. Cut are the ordinals of the
	// members whose connections the primary refuses, and CutEnd was the end of its binary log when it last refused one.
	// Waiting is the number of sessions that wait for an acknowledgement.
	Purged  string `json:"purged,omitempty"`
	Epoch   int64  `json:"epoch,omitempty"`
	Demands int    `json:"demands,omitempty"`
	Cut     []int  `json:"cut,omitempty"`
	// Servers are the UUIDs of the servers that log in with their own passwords, by the ordinals of their members.
	Servers map[int]string `json:"servers,omitempty"`
	CutEnd  Position       `json:"cutEnd,omitzero"`
	// Clock is a time by the server's clock: transactions after End are committed after that time.
	Clock   time.Time `json:"clock,omitzero"`
	End     Position  `json:"end,omitzero"`
	Waiting int       `json:"waiting,omitempty"`
	// Commits describes the state of commits; an older agent does not report it. Stalled is the time in milliseconds
	// since the last commit; it is 0 while no session waits.
	Commits Commits `json:"commits,omitempty"`
	Stalled int64   `json:"stalled,omitempty"`
	// Unprotected reports whether the server must be killed: the primary requires acknowledgements and semi-sync is off, or a promotion
	// failed halfway.
	Unprotected bool `json:"unprotected,omitempty"`

	// The following fields are set for a replica. SourceServer is the UUID of the server that the replica is connected
	// to.
	Source       int    `json:"source,omitempty"`
	SourceServer string `json:"sourceServer,omitempty"`
	// Personal reports whether the replica logs in with its server's password.
	Personal     bool     `json:"personal,omitempty"`
	Acknowledges bool     `json:"acknowledges,omitempty"`
	Connected    bool     `json:"connected,omitempty"`
	ReadTo       Position `json:"readTo,omitzero"`
	Lag          int      `json:"lag,omitempty"`
	// Problem is the last error of the receiver or the applier. Damage classifies it if it is permanent.
	Problem string `json:"problem,omitempty"`
	Damage  Damage `json:"damage,omitempty"`
}

// Event is a scheduled event of the server. A replica stores each event as REPLICA_SIDE_DISABLED: only the primary has the declared status.
type Event struct {
	Schema string `json:"schema"`
	Name   string `json:"name"`
	Status string `json:"status"`
}

// Answer is the body of each answer: the state after the order, or the reason of the refusal. State is missing if the server does not
// answer.
type Answer struct {
	Report
	State   *State          `json:"state,omitempty"`
	Reason  contract.Reason `json:"reason,omitempty"`
	Message string          `json:"message,omitempty"`
	// Only the answer to PathEvents contains Events.
	Events []Event `json:"events,omitempty"`
}
