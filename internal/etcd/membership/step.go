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

// The actions of steps. Each action has one effect, which the next view shows.
const (
	ActionWait        Action = "Wait"        // no effect; Message names the awaited condition
	ActionRecord      Action = "Record"      // write Record; the next plan uses the recorded number of pods and the recorded version
	ActionMarkClaim   Action = "MarkClaim"   // annotate the claim of Ordinal with Mark
	ActionTicket      Action = "Ticket"      // annotate Pod with Ticket
	ActionAddLearner  Action = "AddLearner"  // Via adds a learner at PeerURL
	ActionPromote     Action = "Promote"     // Via makes the learner Member a voter
	ActionRemove      Action = "Remove"      // Via removes Member
	ActionMoveLeader  Action = "MoveLeader"  // Via transfers the leadership to Member
	ActionDeletePod   Action = "DeletePod"   // its StatefulSet creates the pod again
	ActionDeleteClaim Action = "DeleteClaim" // delete the claim of Ordinal, whose data belongs to no current member
	ActionScale       Action = "Scale"       // remove the pods from Ordinal on; none of them is a member
	ActionCompact     Action = "Compact"     // Via drops the history before Revision
	ActionDefrag      Action = "Defrag"      // Via rewrites its database file
	ActionDisarm      Action = "Disarm"      // Via ends Alarm
	ActionRotate      Action = "Rotate"      // end the phase Authorities of the replacement of certificate authorities, and begin the next phase
	ActionAppend      Action = "Append"      // Via appends an entry without effect to the log
)

// Place identifies a pod and the etcd in it. Member and Cluster are 0 if no etcd runs. A step fails if the pod has
// another UID or address than its Place, or if another member or cluster answers.
type Place struct {
	Pod, UID, IP    string
	Member, Cluster ID
}

// Step is one side effect, as data. Package server runs it, and changes Kubernetes objects through package etcd.
type Step struct {
	Action Action
	// Message describes the effect and its cause to users.
	Message string
	// Quiet steps are not reported to users, because they change nothing for users.
	Quiet bool

	Ordinal int
	Pod     Place // the pod that Ticket annotates or DeletePod deletes
	Via     Place // the member that gets the request
	Member  ID    // the member to change, from the member list
	PeerURL string
	// Expect is the member list at the decision. A step that changes the member list fails if the present list differs.
	Expect []Member
	// Healthy are members that must answer immediately before the side effect.
	Healthy []Place
	// Evidence is the kind of proof that the data of a wanted member cannot be used. Right before the removal of the
	// member, Pod is queried for that proof again. Evidence is empty if the member is not wanted.
	Evidence Evidence
	// Compared are the voters whose keys are compared again before the side effect.
	Compared []Place
	// Silent are the pods other than the survivor's pod in a recovery. Right before the side effect, they are queried
	// again: none may answer a read that needs a quorum.
	Silent []Place

	Ticket string
	// Claim identifies the observed claim. The step fails if the claim has changed since the observation.
	Claim ClaimAt
	Mark  Mark
	// Record is stored only if the stored record still equals Was.
	Record   *Record
	Was      Record
	Revision int64
	Alarm    Alarm
	// Authorities is the phase that ends.
	Authorities AuthorityPhase

	phase   string // phase of the cluster while the step is the next one
	ongoing bool   // the step also occurs in other kinds of changes
}

// Key identifies a step of a cluster across passes, by the action and the changed object.
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

// Evidence is the reason why a member's data cannot be used.
type Evidence string

// The evidence for removing a member that is wanted.
const (
	EvidenceLost     Evidence = "Lost"     // its agent reports that the data is lost or outdated, or belongs to a removed member
	EvidenceDamaged  Evidence = "Damaged"  // its agent reports damaged data
	EvidenceCrashing Evidence = "Crashing" // etcd keeps exiting
	EvidenceCorrupt  Evidence = "Corrupt"  // a quorum has other keys
)

// Mark holds the annotations of a claim about its volume's data.
type Mark struct {
	Cluster, Member ID
	Version         string
	Position        Position
	Tokens          string // tokens of recoveries
}

// Decision is the result of Decide.
type Decision struct {
	Model Model
	// Steps are in order. The caller runs the first one, and then observes everything again.
	Steps []Step
	// Positions contains at most one step. That step annotates a claim with the position of the last log entry in the claim's data, even if the
	// first of Steps fails.
	Positions []Step
	// LookAgain is the time until the next observation if no API event triggers one.
	LookAgain time.Duration
}

func (c *cluster) note(format string, args ...any) {
	c.notes = append(c.notes, fmt.Sprintf(format, args...))
}

// blocked adds to c.waits the reason why a requested change waits. Later rules still run.
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
