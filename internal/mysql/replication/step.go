// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"fmt"

	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

// Action names the effect of a step.
type Action string

// The actions. Each has one effect, which the next observation shows.
const (
	ActionTicket    Action = "Ticket"    // annotate the pod of Member with Ticket
	ActionPromise   Action = "Promise"   // make Member promise Epoch
	ActionRecord    Action = "Record"    // replace the record Was with Record
	ActionFollow    Action = "Follow"    // make Member follow Source, and acknowledge or not
	ActionServe     Action = "Serve"     // make the primary demand acknowledgements and refuse the connections of CutVoters and CutOthers
	ActionDemote    Action = "Demote"    // make the primary read-only, promise Epoch and restart; it continues unchanged if a commit still waits after two seconds
	ActionHeartbeat Action = "Heartbeat" // make the primary write a row, which wakes a receiver that lost an event
	ActionRoute     Action = "Route"     // point the Service to Member
	ActionDeletePod Action = "DeletePod" // delete the pod of Member, which its StatefulSet creates again
)

// Step is one effect, as data.
type Step struct {
	Action  Action
	Message string

	// Member is the observed subject of the step. The step is refused if its pod, its data or the start of its agent has changed.
	Member Member
	Ticket string
	// Epoch and Revision are part of each order. A member refuses values older than its promise or its revision.
	Epoch, Revision int64

	Source      Identity
	Acknowledge bool
	Personal    bool // the member logs in with the password that only its server has
	Demands     int
	// Servers are the servers with their own passwords, by the ordinals of their members.
	Servers map[int]string
	// CutVoters stay cut until the primary receives a newer revision: a delayed order cannot admit them again. Each order replaces
	// CutOthers.
	CutVoters, CutOthers []int

	Record *Record
	Was    Record
	// Proof holds members whose facts must hold again right before the effect.
	Proof []Proof
}

// Proof is a fact about a member that is read again right before the effect.
type Proof struct {
	Member Member
	Fact   Fact
	// Position is the position of FactHasLog.
	Position Position
}

// Fact names the statement of a proof.
type Fact string

// The facts.
const (
	FactEmpty    Fact = "Empty"    // its volume has no data
	FactSingle   Fact = "Single"   // its volume has the data of one server, with the mark as observed
	FactPromised Fact = "Promised" // its promise and received transactions are as observed
	FactDrained  Fact = "Drained"  // it applied all that it received
	FactHasLog   Fact = "HasLog"   // it has the primary's log up to Position, and is connected
	FactCut      Fact = "Cut"      // the primary refuses connections as observed
	FactServes   Fact = "Serves"   // it is the primary of this epoch and revision, and demands as observed
	FactSilent   Fact = "Silent"   // it does not answer, or its data is lost
	FactErrant   Fact = "Errant"   // it has a transaction that the primary lacks
	FactBehind   Fact = "Behind"   // it has no such transaction, and lacks one that the primary's logs do not have any more
	FactAhead    Fact = "Ahead"    // it has a transaction of the primary's server that the primary, which only reads, lacks
)

// State is the state of the database.
type State string

// The states, from the decision table of mysql-ha.
const (
	StateFresh         State = "Fresh"         // nothing was formed
	StateRecordLost    State = "RecordLost"    // data exists without its latest record: a user must act
	StateSwitching     State = "Switching"     // a higher epoch was promised
	StateDiverged      State = "Diverged"      // two candidates each have transactions that the other lacks: a user must act
	StatePrimaryLost   State = "PrimaryLost"   // the primary is lost and is being replaced
	StatePrimaryUnseen State = "PrimaryUnseen" // the operator does not reach the primary, but its replicas do
	StateQuorumLost    State = "QuorumLost"    // the primary is lost, and too few voters answer
	StateLost          State = "Lost"          // the same, and data is known to be lost: a user must act
	StateRecorded      State = "Recorded"      // the primary is being brought to the recorded state
	StateSplit         State = "Split"         // a member other than the record's primary is writable
	StateVoterBad      State = "VoterBad"      // a voter is useless
	StateErrant        State = "Errant"        // a member has transactions that the primary lacks
	StateJoining       State = "Joining"       // a member gets the data, or follows
	StateGrowing       State = "Growing"       // a member becomes a voter
	StateBlocked       State = "Blocked"       // commits wait
	StateSwitchWanted  State = "SwitchWanted"  // the user wants another primary
	StateRolling       State = "Rolling"       // pods are replaced by new ones, one at a time
	StateParked        State = "Parked"        // the user wants no member
	StateHealthy       State = "Healthy"
)

// Model describes the whole database for users.
type Model struct {
	State State
	// Message explains the state, and names what is awaited.
	Message string
	// Notes list further facts for the user.
	Notes []string
	// Token is the value of Want.AcceptLoss for this state Lost; empty for other states.
	Token string
}

// Decision is the result of Decide.
type Decision struct {
	Model Model
	// Step is nil if the operator can only wait.
	Step *Step
}

// PrimaryTicket returns the ticket that lets a member become the primary of an epoch, for one start. demands is the number of
// acknowledgements that it needs.
func PrimaryTicket(epoch, revision int64, demands int) string {
	return fmt.Sprintf(mysqlmember.TicketPrimary+":%d:%d:%d", epoch, revision, demands)
}

// The other tickets.
const (
	SeedTicket  = mysqlmember.TicketSeed
	FenceTicket = mysqlmember.TicketFence
)

// AdoptTicket returns the ticket to take the data of one server with a mark as the first data.
func AdoptTicket(mark string) string { return mysqlmember.TicketAdopt + ":" + mark }

// JoinTicket returns the ticket to set the member's data aside and copy that of source, once.
func JoinTicket(r Record, source Identity) string {
	return fmt.Sprintf(mysqlmember.TicketJoin+":%d:%d:%s", r.Revision, source.Ordinal, source.Server)
}

// isJoining reports whether a member has a usable ticket to copy the data of source. A newer revision of the record does not interrupt a
// copy.
func (m Member) isJoining(source Identity) bool {
	var revision int64
	var from Identity
	_, err := fmt.Sscanf(m.Ticket, mysqlmember.TicketJoin+":%d:%d:%s", &revision, &from.Ordinal, &from.Server)
	return err == nil && from == source && m.Ticket != m.UsedTicket && revision >= m.Revision
}
