// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"slices"
	"time"
)

// Action is what a step does.
type Action string

// The actions of steps. Each has one effect; what it did is seen in the next view.
const (
	ActionWait        Action = "Wait"        // for the running system; Message says for what
	ActionRecord      Action = "Record"      // write Record; the plan follows it: pods are added or removed, or get another version
	ActionMarkClaim   Action = "MarkClaim"   // annotate the claim of Ordinal with Mark
	ActionTicket      Action = "Ticket"      // annotate Pod with Ticket
	ActionAddLearner  Action = "AddLearner"  // add a learner at PeerURL, by Via
	ActionPromote     Action = "Promote"     // let the learner Member vote, by Via
	ActionRemove      Action = "Remove"      // remove Member, by Via
	ActionMoveLeader  Action = "MoveLeader"  // from Via to Member
	ActionDeletePod   Action = "DeletePod"   // so that its StatefulSet makes it anew
	ActionDeleteClaim Action = "DeleteClaim" // of an ordinal whose data is no member's
	ActionScale       Action = "Scale"       // take away the pods from Ordinal on, none of which is a member
	ActionCompact     Action = "Compact"     // drop the history before Revision, by Via
	ActionDefrag      Action = "Defrag"      // rewrite the database file of Via
	ActionDisarm      Action = "Disarm"      // end Alarm, by Via
	ActionRotate      Action = "Rotate"      // begin the phase after Authorities of the replacement of certificate authorities
	ActionAppend      Action = "Append"      // add an entry to the log that changes nothing, by Via
)

// Place is a pod with the etcd in it. A step is refused when the pod's UID or address, or the member or cluster that
// answers there, is no longer this one. Member and Cluster are 0 where no etcd runs.
type Place struct {
	Pod, UID, IP    string
	Member, Cluster ID
}

// Step is one effect, as data. Package server takes those on members, the kind those on objects.
type Step struct {
	Action Action
	// Message tells people what is done to what, and why.
	Message string
	// Quiet reports whether people do not hear of it: it changes nothing for them.
	Quiet bool

	Ordinal int
	Pod     Place // whom it is about: of Ticket and DeletePod
	Via     Place // the member that is asked
	Member  ID    // whom it is about, in the list of members
	PeerURL string
	// Expect is the list of members that was decided about. A step that changes it is refused when the list is
	// another one by now.
	Expect []Member
	// Healthy are members that have to answer, immediately before the effect.
	Healthy []Place
	// Evidence is why a member is removed that is wanted, and Pod is asked for it again. Empty: it is not wanted.
	Evidence Evidence
	// Compared are the voters whose keys are compared again.
	Compared []Place
	// Silent are pods with members that have no data, or no quorum: they are asked again.
	Silent []Place

	Ticket string
	// Claim is the claim that the step is about, as it was seen: one that has changed since is left alone.
	Claim ClaimAt
	Mark  Mark
	// Record is what is to be written, and Was what was observed: who writes it refuses when there is something else by now.
	Record   *Record
	Was      Record
	Revision int64
	Alarm    Alarm
	// Authorities is the phase that ends.
	Authorities AuthorityPhase
}

// ClaimAt is a claim as it was seen.
type ClaimAt struct{ UID, Version string }

// Evidence is what shows that a member's data is of no use.
type Evidence string

// The evidence for removing a member that is wanted.
const (
	EvidenceLost     Evidence = "Lost"     // its agent says that the data is gone, of the past, or that of a member which was removed
	EvidenceDamaged  Evidence = "Damaged"  // its agent says that the data is damaged
	EvidenceCrashing Evidence = "Crashing" // etcd ends again and again
	EvidenceCorrupt  Evidence = "Corrupt"  // a quorum has other keys
)

// Mark is what a claim says of its volume's data.
type Mark struct {
	Cluster, Member ID
	Version         string
	Position        Position
	Tokens          string // of recoveries
}

// Decision is what Decide says.
type Decision struct {
	Model Model
	// Steps in their order. The first is taken, then everything is looked at again.
	Steps []Step
	// LookAgain is when to look again if nothing happens at the API server.
	LookAgain time.Duration
}

func (c *cluster) note(format string, args ...any) {
	c.notes = append(c.notes, fmt.Sprintf(format, args...))
}

// blocked notes what keeps back a change that was asked for. What comes later in the order may go on.
func (c *cluster) blocked(format string, args ...any) []Step {
	if text := fmt.Sprintf(format, args...); !slices.Contains(c.waits, text) {
		c.waits = append(c.waits, text)
	}
	return nil
}

func (c *cluster) wait(phase, format string, args ...any) []Step {
	c.phase = phase
	return []Step{{Action: ActionWait, Message: fmt.Sprintf(format, args...)}}
}

func (c *cluster) do(phase string, step Step, format string, args ...any) []Step {
	c.phase = phase
	step.Message = fmt.Sprintf(format, args...)
	return []Step{step}
}

// record returns the step that changes the record.
func (c *cluster) record(phase string, change func(*Record), format string, args ...any) []Step {
	record := c.Record
	record.Scheme = c.scheme()
	change(&record)
	return c.do(phase, Step{Action: ActionRecord, Record: &record, Was: c.Record}, format, args...)
}
