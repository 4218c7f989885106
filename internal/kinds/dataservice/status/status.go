// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package status turns what the operator saw into the status of a DataService.
// It is pure, and the only place that writes conditions, phases and messages.
package status

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/engine"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/kinds/dataservice/backups"
	"d3os.com/d3os-operator/internal/kinds/runs"
)

// Component is what was seen of one component.
type Component = engine.PartSeen

// Failure is why the spec cannot be carried out.
type Failure struct {
	Reason  string
	Message string
	// Stalled: only a change from outside helps; else the operator keeps trying.
	Stalled bool
}

// Pace is what became of the question whether the operator may change what runs on its own account.
type Pace struct {
	Granted         bool
	Reason, Message string // why it waits
}

// Observation is what was seen of a DataService in one reconciliation.
type Observation struct {
	Generation int64
	Paused     bool
	Deleting   bool
	Pace       *Pace // whether the operator's own change waits; nil when there is none to be asked about
	Kept       bool  // the spec of this generation was added to the history
	Failure    *Failure
	Components []Component       // in the order of the graph; empty when there is no plan
	Backups    *backups.Observed // nil when they were not looked at: what is known stays
	Switch     *Switch           // of the database to another one; nil for none
}

// Switch is where a switch of the database to another one stands.
type Switch struct {
	Reason, Message string
	IsRefused       bool // nothing is done until a person acts
}

// Compute returns the status after an observation. It equals prev, times included, when nothing
// that a user can see has changed.
func Compute(prev dsv1.DataServiceStatus, seen Observation, now metav1.Time) dsv1.DataServiceStatus {
	next := dsv1.DataServiceStatus{ObservedGeneration: seen.Generation, Components: prev.Components, Ready: prev.Ready, Backup: prev.Backup}
	if seen.Components != nil {
		next.Components = components(prev.Components, seen.Components, now)
		next.Ready = fmt.Sprintf("%d/%d", count(next.Components, dsv1.PhaseRunning), len(next.Components))
	}
	next.Phase = phase(prev.Phase, seen, next.Components)
	next.Message = message(seen, next)
	next.Conditions = conditions(prev.Conditions, seen, next, now)
	if seen.Backups != nil {
		var healthy, recoverable *runs.Verdict
		next.Backup, healthy, recoverable = backups.Judge(prev.Backup, *seen.Backups, now.Time)
		c := kinds.Conditions{List: &next.Conditions, Generation: seen.Generation, Now: now}
		healthy.Set(c, dsv1.ConditionBackupHealthy)
		recoverable.Set(c, dsv1.ConditionRecoverable)
	}
	tellSwitch(&next.Conditions, prev, seen, now)
	next.History = history(prev, seen, meta.IsStatusConditionTrue(next.Conditions, dsv1.ConditionReady))
	return next
}

// history is what the history has after an observation. It begins with the first change that an operator sees which
// keeps a history: for DataServices that are at rest nothing is written.
func history(prev dsv1.DataServiceStatus, seen Observation, ready bool) *dsv1.History {
	if prev.History == nil && prev.ObservedGeneration == seen.Generation {
		return nil
	}
	next := dsv1.History{}
	if prev.History != nil {
		next = *prev.History
	}
	if seen.Kept {
		next.Generation = seen.Generation
	}
	if ready && !seen.Paused {
		next.ReadyGeneration = seen.Generation
	}
	return &next
}

func components(prev []dsv1.ComponentStatus, seen []Component, now metav1.Time) []dsv1.ComponentStatus {
	next := make([]dsv1.ComponentStatus, 0, len(seen))
	for _, c := range seen {
		before := &dsv1.ComponentStatus{}
		if i := slices.IndexFunc(prev, func(p dsv1.ComponentStatus) bool { return p.Name == c.Name }); i >= 0 {
			before = &prev[i]
		}
		after := component(c, before)
		unbound(&after, before, c, now)
		late(&after, before, c, now)
		if len(after.WaitsFor) > 0 {
			after.Message = waiting(c, next)
		}
		after.LastTransitionTime = before.LastTransitionTime
		if after.Phase != before.Phase {
			after.LastTransitionTime = &now
		}
		next = append(next, after)
	}
	return next
}

func phase(prev dsv1.Phase, seen Observation, components []dsv1.ComponentStatus) dsv1.Phase {
	has := func(p dsv1.Phase) bool { return count(components, p) > 0 }
	switch {
	case seen.Deleting:
		return dsv1.PhaseTerminating
	case seen.Paused:
		return dsv1.PhasePaused
	case seen.Failure != nil || has(dsv1.PhaseFailed):
		return dsv1.PhaseFailed
	case has(dsv1.PhaseDegraded):
		return dsv1.PhaseDegraded
	case has(dsv1.PhaseUpdating):
		return dsv1.PhaseUpdating
	case has(dsv1.PhaseCreating) || has(dsv1.PhasePending):
		// A component added to a platform that was up is an update of it.
		if prev == dsv1.PhaseRunning || prev == dsv1.PhaseUpdating || prev == dsv1.PhaseScaling {
			return dsv1.PhaseUpdating
		}
		if count(components, dsv1.PhasePending) == len(components) {
			return dsv1.PhasePending
		}
		return dsv1.PhaseCreating
	case has(dsv1.PhaseScaling):
		return dsv1.PhaseScaling
	default:
		return dsv1.PhaseRunning
	}
}

func message(seen Observation, next dsv1.DataServiceStatus) string {
	switch {
	case seen.Deleting:
		return "being deleted; volumes with data and the Secrets that open them stay, unless spec.mysql.storage.retention is Delete"
	case seen.Failure != nil:
		return seen.Failure.Message
	case seen.Paused:
		return "paused: nothing is changed until spec.paused is false"
	case len(next.Components) == 0:
		return "no component is declared"
	case seen.Switch != nil:
		return seen.Switch.Message
	}
	if problem := problems(next.Components); problem != "" {
		return problem
	}
	for _, c := range next.Components {
		// What others may wait for, and a claim that stays as it is against the spec, comes before the order.
		if inWork(c.Phase) && c.Message != "" || strings.HasPrefix(c.Message, "PersistentVolumeClaim ") {
			return c.Name + ": " + c.Message + "; " + Arrows(next.Components)
		}
	}
	for _, c := range seen.Components {
		if c.Rewritten != "" {
			return c.Name + ": " + c.Rewritten + "; " + Arrows(next.Components)
		}
	}
	return Arrows(next.Components)
}

// problems names the first component that is not well, and how many more there are.
func problems(components []dsv1.ComponentStatus) string {
	var first string
	more := 0
	for _, c := range components {
		if c.Phase != dsv1.PhaseDegraded && c.Phase != dsv1.PhaseFailed {
			continue
		}
		if first != "" {
			more++
			continue
		}
		first = c.Name + ": " + c.Message
	}
	if more > 0 {
		return fmt.Sprintf("%s (and %d more: see status.components)", first, more)
	}
	return first
}

// Arrows is the line of components in their order, those being worked on in brackets.
func Arrows(components []dsv1.ComponentStatus) string {
	names := make([]string, 0, len(components))
	for _, c := range components {
		if inWork(c.Phase) || c.Phase == dsv1.PhaseDegraded {
			names = append(names, "["+c.Name+"]")
			continue
		}
		names = append(names, c.Name)
	}
	return strings.Join(names, "->")
}

func count(components []dsv1.ComponentStatus, phase dsv1.Phase) int {
	n := 0
	for _, c := range components {
		if c.Phase == phase {
			n++
		}
	}
	return n
}
