// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/reconcile"
)

// Conditions and reasons of every database. They are part of the API: the packages under api define the same values.
const (
	conditionReady       = "Ready"
	conditionProgressing = "Progressing"
	conditionDegraded    = "Degraded"
	conditionReconciling = "Reconciling"
	conditionStalled     = "Stalled"

	reasonDeleting = "Deleting"
	reasonPaused   = "Paused"
	reasonSettled  = "Settled"
	reasonHealthy  = "Healthy"
	reasonWorking  = "Working"
	reasonOverdue  = "ProgressDeadlineExceeded"
)

// Standing holds the parts of a status that differ between kinds. A kind derives them from its observation and its
// decision. Explain and SetConditions derive the other fields of the status from them.
type Standing struct {
	// Settled reports whether the database matches the spec, Hopeless whether a user must act, and Degraded whether the
	// database is impaired. If seen.Failure is set, SetConditions ignores Hopeless and Degraded.
	Settled, Hopeless, Degraded bool

	PauseField       string   // the field that pauses the resource, such as spec.paused
	Deleting         string   // the effect of a deletion on the data
	WellReason, Well string   // the reason and the message of a settled database
	Began            string   // the message of the condition BeganEmpty; "" for a database that did not begin again
	Notes            []string // further sentences after Well and Began
	Unwell           string   // why a paused database is not settled
	Step, Doing      string   // the running step, and its message; empty without one
	Looking          string   // the message before the first observation
	WaitReason, Wait string   // why no step can be taken
	// CauseReason and Cause are the reason and the message of the conditions Degraded and Stalled. Default: the reason and message of the status.
	CauseReason, Cause string
	// Deadline limits the time of a creation, a change or a repair. 0: no limit.
	Deadline time.Duration
}

// Refuse adds the refusal of a spec to the standing of a database whose servers are maintained nevertheless. It does nothing if
// refused is nil.
func (s *Standing) Refuse(refused *reconcile.SpecError) {
	if refused == nil {
		return
	}
	text := strings.ReplaceAll(refused.Error(), "\n", "; ") + ". The running objects are not changed"
	s.Settled, s.Degraded, s.Hopeless = false, true, s.Hopeless || s.Step == ""
	s.WaitReason, s.CauseReason = refused.Reason, refused.Reason
	s.Wait, s.Cause, s.Unwell = Join(text, s.Wait), Join(text, s.Cause), Join(text, s.Unwell)
}

// Explain returns the reason and the message of a status.
func Explain[O any](s *Standing, seen reconcile.Seen[O]) (reason, message string) {
	paused := ""
	if seen.Paused {
		paused = fmt.Sprintf("paused (%s): nothing is changed", s.PauseField)
	}
	switch {
	case seen.Deleting:
		return reasonDeleting, s.Deleting
	case seen.Failure != nil:
		return seen.Failure.Reason, Join(paused, seen.Failure.Message)
	case s.Settled && seen.Paused:
		return reasonPaused, Join(paused, s.Well, s.Began)
	case s.Settled:
		return s.WellReason, Join(append([]string{s.Well, s.Began}, s.Notes...)...)
	case seen.Paused:
		return reasonPaused, Join(paused, s.Unwell)
	case s.Step != "":
		return s.Step, s.Doing
	case seen.Observed == nil:
		return reasonWorking, s.Looking
	}
	return s.WaitReason, s.Wait
}

// AddBackups returns the message of a database with the problem of its backups, if the database is well otherwise. The problem comes first,
// except after the report that the database began empty.
func AddBackups[O any](s *Standing, seen reconcile.Seen[O], message string, conditions []metav1.Condition) string {
	c := health.BackupProblem(conditions)
	switch {
	case c == nil || !s.Settled || seen.Paused || seen.Deleting:
		return message
	case s.Began != "":
		return Join(message, health.BackupText(c))
	}
	return Join(health.BackupText(c), message)
}

// SetConditions sets the conditions that every database has. reason and message are also the reason and the message
// of the status. more, which may be nil, sets the kind's own conditions. They follow the condition Ready.
func SetConditions[O any](c reconcile.Conditions, s *Standing, seen reconcile.Seen[O], reason, message string, more func()) {
	ready, stalled, degraded := s.Settled && !seen.Deleting, s.Hopeless && !seen.Deleting, s.Degraded && !seen.Deleting
	cause, problem := reason, message
	switch {
	case seen.Failure != nil:
		stalled, degraded = seen.Failure.Stalled && !seen.Deleting, !seen.Deleting
	case seen.Observed != nil:
		cause, problem = cmp.Or(s.CauseReason, reason), cmp.Or(s.Cause, message)
	}
	progressing := !ready && !stalled && (!seen.Paused || seen.Deleting)
	c.Set(conditionReady, ready, s.WellReason, message, reason, message)
	if more != nil {
		more()
	}
	idle := reasonSettled
	if seen.Paused {
		idle = reasonPaused
	}
	idleMessage := "no change is in progress"
	if progressing && s.Deadline > 0 {
		before := meta.FindStatusCondition(*c.List, conditionProgressing)
		since, isOverdue := overdue(before, c.Generation, s.Deadline, c.Now)
		switch {
		case isOverdue:
			problem = overdueText(problem, s.Deadline)
			if !degraded {
				cause = reasonOverdue
			}
			progressing, degraded, stalled = false, true, true
			idle, idleMessage = reasonOverdue, problem
		case before != nil && before.Status == metav1.ConditionTrue:
			before.LastTransitionTime = since // the start of the latest change, even if an earlier one was not finished
		}
	}
	c.Set(conditionProgressing, progressing, reason, message, idle, idleMessage)
	c.Set(conditionDegraded, degraded, cause, problem, reasonHealthy, "nothing has failed")
	c.While(health.BeganEmpty, s.Began != "", reasonDataLost, s.Began)
	c.While(conditionReconciling, progressing, reason, message)
	c.While(conditionStalled, stalled, cause, problem)
}
