// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"slices"
	"time"
)

// Action names the effect of a step.
type Action string

// The actions of steps. Each has one effect, which the next view shows.
const (
	ActionWait        Action = "Wait"        // no effect; Message names the awaited condition
	ActionRecord      Action = "Record"      // write Record; the plan follows it: pods are added or removed, or get another version
	ActionMarkClaim   Action = "MarkClaim"   // annotate the claim of Ordinal with Mark
	ActionTicket      Action = "Ticket"      // annotate Pod with Ticket
	ActionAddLearner  Action = "AddLearner"  // add a learner at PeerURL, by Via
	ActionPromote     Action = "Promote"     // make the learner Member a voter, by Via
	ActionRemove      Action = "Remove"      // remove Member, by Via
	ActionMoveLeader  Action = "MoveLeader"  // from Via to Member
	ActionDeletePod   Action = "DeletePod"   // its StatefulSet creates the pod again
	ActionDeleteClaim Action = "DeleteClaim" // delete the claim of Ordinal, whose data belongs to no member
	ActionScale       Action = "Scale"       // remove the pods from Ordinal on; none of them is a member
	ActionCompact     Action = "Compact"     // drop the history before Revision, by Via
	ActionDefrag      Action = "Defrag"      // rewrite the database file of Via
	ActionDisarm      Action = "Disarm"      // end Alarm, by Via
	ActionRotate      Action = "Rotate"      // begin the phase after Authorities in the replacement of certificate authorities
	ActionAppend      Action = "Append"      // append an entry without effect to the log, by Via
)

// Place identifies a pod and its etcd. A step is refused if the pod's UID or address, or the answering member or cluster, has changed.
// Member and Cluster are 0 if no etcd runs.
type Place struct {
	Pod, UID, IP    string
	Member, Cluster ID
}

// Step is one effect, as data. Package server runs steps on members, the kind runs steps on objects.
type Step struct {
	Action Action
	// Message describes the effect and its cause to users.
	Message string
	// Quiet reports whether the step is not reported to users: it changes nothing for them.
	Quiet bool

	Ordinal int
	Pod     Place // subject of Ticket and DeletePod
	Via     Place // the member that gets the request
	Member  ID    // the subject, from the member list
	PeerURL string
	// Expect is the member list of the decision. A step that changes the member list is refused if the present list differs from Expect.
	Expect []Member
	// Healthy are members that must answer immediately before the effect.
	Healthy []Place
	// Evidence is the kind of proof that a wanted member must be removed. Pod is queried for the proof again. Empty: the member is not
	// wanted.
	Evidence Evidence
	// Compared are the voters whose keys are compared again before the effect.
	Compared []Place
	// Silent are pods whose members have no data or no quorum. They are queried again before the effect.
	Silent []Place

	Ticket string
	// Claim identifies the observed claim. The step is refused if the claim has changed since.
	Claim ClaimAt
	Mark  Mark
	// Record is written if the stored record still equals Was.
	Record   *Record
	Was      Record
	Revision int64
	Alarm    Alarm
	// Authorities is the phase that ends.
	Authorities AuthorityPhase

	phase   string // of the cluster while the step is the next one
	ongoing bool   // the step also occurs in other kinds of changes
}

// Key identifies a step of a cluster across passes, by its action and the changed object.
func (s Step) Key() string {
	subject := ""
	switch s.Action {
	case ActionDeletePod:
		subject = s.Pod.UID
	case ActionTicket:
		subject = s.Pod.UID + " " + s.Ticket
	case ActionMarkClaim, ActionDeleteClaim:
		subject = s.Claim.UID
	case ActionAddLearner:
		subject = s.PeerURL
	case ActionPromote, ActionRemove, ActionMoveLeader:
		subject = s.Member.String()
	case ActionDefrag:
		subject = s.Via.Member.String()
	case ActionDisarm:
		subject = fmt.Sprint(s.Alarm)
	case ActionRecord:
		subject = fmt.Sprint(*s.Record)
	case ActionWait, ActionScale, ActionCompact, ActionRotate, ActionAppend:
	}
	return string(s.Action) + " " + subject
}

// ClaimAt identifies an observed claim.
type ClaimAt struct{ UID, Version string }

// Evidence is the proof that a member's data is of no use.
type Evidence string

// The evidence for removing a member that is wanted.
const (
	EvidenceLost     Evidence = "Lost"     // its agent reports that the data is lost, outdated, or that of a removed member
	EvidenceDamaged  Evidence = "Damaged"  // its agent reports damaged data
	EvidenceCrashing Evidence = "Crashing" // etcd keeps exiting
	EvidenceCorrupt  Evidence = "Corrupt"  // a quorum has other keys
)

// Mark holds the annotations of a claim about its volume's data.
type Mark struct {
	Cluster, Member ID
	Version         string
	Position        Position
	Tokens          string // of recoveries
}

// Decision is the result of Decide.
type Decision struct {
	Model Model
	// Steps are in order. The first is taken, then everything is observed again.
	Steps []Step
	// Positions is at most one step that marks a claim with the end of its data. It is taken also when the first of Steps fails.
	Positions []Step
	// LookAgain is the time until the next observation if no API event triggers one.
	LookAgain time.Duration
}

func (c *cluster) note(format string, args ...any) {
	c.notes = append(c.notes, fmt.Sprintf(format, args...))
}

// blocked notes why a requested change waits. Later rules still run.
func (c *cluster) blocked(format string, args ...any) []Step {
	if text := fmt.Sprintf(format, args...); !slices.Contains(c.waits, text) {
		c.waits = append(c.waits, text)
	}
	return nil
}

func (c *cluster) wait(phase, format string, args ...any) []Step {
	return []Step{{Action: ActionWait, Message: fmt.Sprintf(format, args...), phase: phase}}
}

func (c *cluster) do(phase string, step Step, format string, args ...any) []Step {
	step.phase, step.Message = phase, fmt.Sprintf(format, args...)
	return []Step{step}
}

// record returns the step that changes the record.
func (c *cluster) record(phase string, change func(*Record), format string, args ...any) []Step {
	record := c.Record
	record.Scheme = c.scheme()
	change(&record)
	return c.do(phase, Step{Action: ActionRecord, Record: &record, Was: c.Record}, format, args...)
}
