// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import "fmt"

// Action is what a step does.
type Action string

// The actions. Each has one effect; what it did is seen in the next observation.
const (
	ActionTicket    Action = "Ticket"    // annotate the pod of Member with Ticket
	ActionPromise   Action = "Promise"   // have Member promise Epoch
	ActionRecord    Action = "Record"    // write Record in place of Was
	ActionFollow    Action = "Follow"    // have Member follow Source, and acknowledge or not
	ActionServe     Action = "Serve"     // have the primary demand acknowledgements and refuse the connections of CutVoters and CutOthers
	ActionDemote    Action = "Demote"    // have the primary become read-only, promise Epoch and start again; it goes on as it was if a commit still waits after two seconds
	ActionHeartbeat Action = "Heartbeat" // have the primary write a row, which wakes a receiver that lost an event
	ActionRoute     Action = "Route"     // have the Service lead to Member
)

// Step is one effect, as data.
type Step struct {
	Action  Action
	Message string

	// Member is whom it is about, as observed: another pod, data or start of its agent refuses the step.
	Member Member
	Ticket string
	// Epoch and Revision go with each order. A member refuses what is older than its promise or than its revision.
	Epoch, Revision int64

	Source      Identity
	Acknowledge bool
	Demands     int
	// CutVoters stay cut until the primary takes a newer revision: a delayed order cannot let them in again. CutOthers are
	// replaced by each order.
	CutVoters, CutOthers []int

	Record *Record
	Was    Record
	// Proof are members whose facts must hold again right before the effect.
	Proof []Proof
}

// Proof is a fact about a member that is read again right before the effect.
type Proof struct {
	Member Member
	Fact   Fact
	// Position is that of FactHasLog.
	Position Position
}

// Fact is one word for what a proof shows.
type Fact string

// The facts.
const (
	FactEmpty    Fact = "Empty"    // its volume has no data
	FactPromised Fact = "Promised" // its promise, and what it received, are as observed
	FactDrained  Fact = "Drained"  // it applied all that it received
	FactHasLog   Fact = "HasLog"   // it has the primary's log up to Position, and is connected
	FactCut      Fact = "Cut"      // the primary refuses connections as observed
	FactServes   Fact = "Serves"   // it is the primary of this epoch and revision, and demands as observed
	FactSilent   Fact = "Silent"   // it does not answer, or its data is gone
	FactErrant   Fact = "Errant"   // it has a transaction that the primary has not
)

// State is one word for where the database stands.
type State string

// The states, of mysql-ha's table of decisions.
const (
	StateFresh         State = "Fresh"         // nothing was formed
	StateRecordLost    State = "RecordLost"    // there is data, and no record: a person must act
	StateSwitching     State = "Switching"     // a higher epoch was promised
	StateDiverged      State = "Diverged"      // two candidates have transactions that the other has not: a person must act
	StatePrimaryLost   State = "PrimaryLost"   // the primary is gone, and is replaced
	StatePrimaryUnseen State = "PrimaryUnseen" // the operator does not see the primary, and its replicas do
	StateQuorumLost    State = "QuorumLost"    // the primary is gone, and too few voters answer
	StateLost          State = "Lost"          // the same, and data is known to be gone: a person must act
	StateRecorded      State = "Recorded"      // the primary is being made what the record says
	StateSplit         State = "Split"         // a member is writable that is not the record's primary
	StateVoterBad      State = "VoterBad"      // a voter is of no use
	StateErrant        State = "Errant"        // a member has what the primary has not
	StateJoining       State = "Joining"       // a member gets the data, or follows
	StateGrowing       State = "Growing"       // a member becomes a voter
	StateBlocked       State = "Blocked"       // commits wait
	StateSwitchWanted  State = "SwitchWanted"  // another primary is asked for
	StateHealthy       State = "Healthy"
)

// Model is the database as a whole, for people.
type Model struct {
	State State
	// Message says what it rests on, and what is waited for.
	Message string
	// Notes are what else a person should know.
	Notes []string
}

// Decision is what Decide says.
type Decision struct {
	Model Model
	// Step is nil when there is nothing to do but wait.
	Step *Step
}

// PrimaryTicket is the leave to become the primary of an epoch, for one start. demands is how many acknowledgements it needs.
func PrimaryTicket(epoch, revision int64, demands int) string {
	return fmt.Sprintf("primary:%d:%d:%d", epoch, revision, demands)
}

// The other tickets. JoinTicket is for one copy of the data of a source.
const (
	SeedTicket  = "seed"
	FenceTicket = "fence"
)

// JoinTicket is the leave to set the data aside and to copy that of a member, once.
func JoinTicket(r Record, source Identity) string {
	return fmt.Sprintf("join:%d:%d:%s", r.Revision, source.Ordinal, source.Server)
}
