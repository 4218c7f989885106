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
	ActionPromise   Action = "Promise"   // make Member and Others promise Epoch
	ActionRecord    Action = "Record"    // replace the record Was with Record
	ActionFollow    Action = "Follow"    // make Member follow Source, and acknowledge or not
	ActionServe     Action = "Serve"     // make the primary demand acknowledgements, and refuse the connections of CutVoters and CutOthers
	ActionDemote    Action = "Demote"    // give all voters the log, make the primary read-only, promise Epoch and restart; if a commit still waits after two seconds, the primary continues unchanged
	ActionHeartbeat Action = "Heartbeat" // make the primary write a row, which wakes a receiver that has lost an event
	ActionRoute     Action = "Route"     // make the Service select Member
	ActionDeletePod Action = "DeletePod" // delete the pod of Member; its StatefulSet creates a new pod
)

// Step is one side effect, as data.
type Step struct {
	Action  Action
	Message string

	// Member is the member to which the step applies, as observed. The step fails if its pod or its data was replaced, or its server
	// was restarted.
	Member Member
	// Others are further members that get the order of ActionPromise at the same time. Each may accept or refuse it.
	Others []Member
	Ticket string
	// Epoch and Revision are part of each order. A member refuses an epoch below its promise, and a revision below its own.
	Epoch, Revision int64

	Source      Identity
	Acknowledge bool
	Renew       bool // the member drops its relay log
	Personal    bool // the member logs in with the password that only its server has
	Demands     int
	// Servers are the servers with separate passwords, by the ordinals of their members.
	Servers map[int]string
	// CutVoters are voters whose connections the primary refuses until it gets a newer revision, so that a delayed
	// order does not admit them. CutOthers are other members that it refuses until the next order.
	CutVoters, CutOthers []int

	Record *Record
	Was    Record
	// Proof holds the facts that must hold again right before the side effect.
	Proof []Proof
}

// Members returns the members to which the step applies: none if it writes the record.
func (s Step) Members() []Member {
	if s.Action == ActionRecord {
		return nil
	}
	return append([]Member{s.Member}, s.Others...)
}

// Proof is a fact about a member. It is read again right before the side effect.
type Proof struct {
	Member Member
	Fact   Fact
	// Position is the position of FactHasLog.
	Position Position
}

// Fact is the kind of a proof.
type Fact string

// The facts.
const (
	FactEmpty    Fact = "Empty"    // its volume has no data
	FactSingle   Fact = "Single"   // its volume has the data of one server, with the mark as observed
	FactPromised Fact = "Promised" // its promise and received transactions are as observed
	FactDrained  Fact = "Drained"  // it applied all that it received
	FactHasLog   Fact = "HasLog"   // it has the primary's log up to Position, and is connected
	FactCut      Fact = "Cut"      // the primary refuses connections as observed
	FactServes   Fact = "Serves"   // it is the primary of this epoch and revision, and demands as many acknowledgements as observed
	FactSilent   Fact = "Silent"   // it does not answer, or its data is lost; promises of the voters protect the data if it answers later
	FactGone     Fact = "Gone"     // as FactSilent, but no promise protects the data: the member gets the full time to answer
	FactErrant   Fact = "Errant"   // it has a transaction that the primary lacks
	FactBehind   Fact = "Behind"   // it has no transaction that the primary lacks, and can never get all transactions from the primary
	FactDamaged  Fact = "Damaged"  // it can never apply the transactions that it received, and the primary has all of these
	FactAhead    Fact = "Ahead"    // it has a transaction of the primary's server that the primary itself lacks, and the primary does not serve
)

// State is the state of the database.
type State string

// The states of a database.
const (
	StateFresh         State = "Fresh"         // the database was never formed
	StateRecordLost    State = "RecordLost"    // data exists, but its latest record does not: a user must act
	StateSwitching     State = "Switching"     // a member has promised a higher epoch
	StateDiverged      State = "Diverged"      // two candidates each have transactions that the other lacks: a user must act
	StatePrimaryLost   State = "PrimaryLost"   // the primary is lost and is being replaced
	StatePrimaryUnseen State = "PrimaryUnseen" // the operator cannot reach the primary, but the replicas can
	StateQuorumLost    State = "QuorumLost"    // the primary is lost, and too few voters answer
	StateLost          State = "Lost"          // as QuorumLost, but data was lost: a user must act
	StateRecorded      State = "Recorded"      // the primary is being brought to the recorded state
	StateSplit         State = "Split"         // a member other than the record's primary is writable
	StateVoterBad      State = "VoterBad"      // a voter is useless
	StateErrant        State = "Errant"        // a member has transactions that the primary lacks
	StateJoining       State = "Joining"       // a member copies the data, or starts to follow
	StateGrowing       State = "Growing"       // a member becomes a voter
	StateBlocked       State = "Blocked"       // commits wait
	StateSwitchWanted  State = "SwitchWanted"  // another member must become the primary
	StateRolling       State = "Rolling"       // pods are replaced by new ones, one at a time
	StateParked        State = "Parked"        // the user wants no member
	StateHealthy       State = "Healthy"
)

// Model describes the whole database for users.
type Model struct {
	State State
	// Message explains the state and the awaited condition.
	Message string
	// Notes list further facts for the user.
	Notes []string
	// Token is the value of Want.AcceptLoss in the state Lost; empty in other states.
	Token string
}

// Decision is the result of Decide.
type Decision struct {
	Model Model
	// Step is nil if the operator must wait.
	Step *Step
}

// PrimaryTicket returns the ticket that allows a member to become the primary of an epoch, for one start. demands is the number of
// acknowledgements that this primary needs.
func PrimaryTicket(epoch, revision int64, demands int) string {
	return fmt.Sprintf(mysqlmember.TicketPrimary+":%d:%d:%d", epoch, revision, demands)
}

// The other tickets.
const (
	SeedTicket  = mysqlmember.TicketSeed
	FenceTicket = mysqlmember.TicketFence
)

// AdoptTicket returns the ticket with which the first member may use the data of a single server. mark is the mark of
// that data.
func AdoptTicket(mark string) string { return mysqlmember.TicketAdopt + ":" + mark }

// JoinTicket returns the ticket with which a member may set its data aside and copy the data of source, once.
func JoinTicket(r Record, source Identity) string {
	return fmt.Sprintf(mysqlmember.TicketJoin+":%d:%d:%s", r.Revision, source.Ordinal, source.Server)
}

// isJoining reports whether a member has a ticket to copy the data of source, and has not used it. The ticket may have
// an older revision than the record, so that a new revision of the record does not interrupt a copy.
func (m Member) isJoining(source Identity) bool {
	var revision int64
	var from Identity
	_, err := fmt.Sscanf(m.Ticket, mysqlmember.TicketJoin+":%d:%d:%s", &revision, &from.Ordinal, &from.Server)
	return err == nil && from == source && m.Ticket != m.UsedTicket && revision >= m.Revision
}
