// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/backup"
	"d3os.com/d3os-operator/internal/reconcile"
)

// conditions computes every condition from the new status.
func conditions(prev []metav1.Condition, seen StatusInput, next dsv1.DataServiceStatus, now metav1.Time) []metav1.Condition {
	result := slices.Clone(prev)
	c := reconcile.Conditions{List: &result, Generation: seen.Generation, Now: now}
	failing := seen.Failure != nil || count(next.Components, dsv1.PhaseFailed)+count(next.Components, dsv1.PhaseDegraded) > 0
	progressing := !seen.Paused && !seen.Deleting && seen.Failure == nil && slices.ContainsFunc(next.Components, func(c dsv1.ComponentStatus) bool {
		return inWork(c.Phase) || c.Phase == dsv1.PhasePending
	})
	rolling, how := dsv1.ReasonRollingOut, Arrows(next.Components)
	if seen.Hibernation.IsActive() && !seen.Paused {
		progressing, rolling, how = !seen.Deleting && seen.Failure == nil && !seen.Hibernation.IsDone(), dsv1.ReasonHibernating, next.Message
	}
	isRefused := seen.Switch != nil && seen.Switch.IsRefused && seen.Failure == nil
	reason := reasonOf(seen, next, failing)
	ready := isReady(seen, next)
	c.Set(dsv1.ConditionReady, ready, dsv1.ReasonAllReady, "every declared component is ready", reason, trouble(seen, next))
	c.Set(dsv1.ConditionDegraded, failing && !seen.Deleting, reason, trouble(seen, next), dsv1.ReasonHealthy, "nothing is known to be wrong")
	c.Set(dsv1.ConditionProgressing, progressing, rolling, how, dsv1.ReasonSettled, "nothing is being rolled out")
	c.Set(dsv1.ConditionPaused, seen.Paused, dsv1.ReasonPaused, "spec.paused is true", dsv1.ReasonNotPaused, "spec.paused is false")
	result = operatorChange(result, seen, ready, now)
	stalled := seen.Failure != nil && seen.Failure.Stalled || isRefused && !seen.Paused
	c.While(dsv1.ConditionStalled, stalled, reason, trouble(seen, next))
	c.While(dsv1.ConditionReconciling, !stalled && progressing, rolling, next.Message)
	return result
}

// isReady reports whether everything in the spec is running.
func isReady(seen StatusInput, next dsv1.DataServiceStatus) bool {
	return seen.Failure == nil && !seen.Deleting && seen.Switch == nil && !seen.Hibernation.IsActive() && count(next.Components, dsv1.PhaseRunning) == len(next.Components)
}

// reasonOf returns the reason for the conditions of a DataService that is not ready.
func reasonOf(seen StatusInput, next dsv1.DataServiceStatus, failing bool) string {
	switch {
	case seen.Failure != nil:
		return seen.Failure.Reason
	case seen.Deleting:
		return dsv1.ReasonDeleting
	case failing:
		return failingReason(next.Components)
	case seen.Switch != nil && seen.Switch.IsRefused:
		return seen.Switch.Reason
	case seen.Hibernation.IsDone():
		return dsv1.ReasonHibernated
	case seen.Hibernation.IsActive():
		return dsv1.ReasonHibernating
	}
	return dsv1.ReasonComponentsNotReady
}

// operatorChange sets the condition about a change that a new version of the operator causes. The operator makes this
// change when it is the DataService's turn. The turn ends when every component is ready in its new revision. While a
// DataService waits, the message changes only with the reason. Otherwise the message would change with each turn of
// another DataService.
func operatorChange(conditions []metav1.Condition, seen StatusInput, ready bool, now metav1.Time) []metav1.Condition {
	before := meta.FindStatusCondition(conditions, dsv1.ConditionOperatorChange)
	hadTurn := before != nil && before.Status == metav1.ConditionTrue
	c := metav1.Condition{
		Type: dsv1.ConditionOperatorChange, Status: metav1.ConditionFalse, ObservedGeneration: seen.Generation, LastTransitionTime: now,
	}
	switch {
	case seen.Pace != nil && seen.Pace.Granted:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, dsv1.ReasonRollingOut, "this version of the operator changes the resource"
	case seen.Pace != nil:
		c.Reason, c.Message = seen.Pace.Reason, seen.Pace.Message
		if before != nil && before.Reason == c.Reason {
			c.Message = before.Message
		}
	case before == nil || seen.Components == nil || hadTurn && !ready:
		return conditions
	default:
		meta.RemoveStatusCondition(&conditions, dsv1.ConditionOperatorChange)
		return conditions
	}
	meta.SetStatusCondition(&conditions, c)
	return conditions
}

// tellSwitch sets the condition about a switch to another database, and removes it after the switch. If the databases
// were not observed, it does not change the condition.
func tellSwitch(conditions *[]metav1.Condition, prev dsv1.DataServiceStatus, seen StatusInput, now metav1.Time) {
	var v *backup.Verdict
	switch {
	case seen.Switch != nil:
		v = &backup.Verdict{Good: !seen.Switch.IsRefused, Reason: seen.Switch.Reason, Message: seen.Switch.Message}
	case seen.Backups == nil && meta.FindStatusCondition(prev.Conditions, dsv1.ConditionDatabaseSwitch) != nil:
		return
	}
	v.Set(reconcile.Conditions{List: conditions, Generation: seen.Generation, Now: now}, dsv1.ConditionDatabaseSwitch)
}

// ofData lists the reasons of problems with data. They take precedence, because a user must act on them first.
var ofData = []string{
	dsv1.ReasonDataLost, dsv1.ReasonVolumeBeingDeleted, dsv1.ReasonServerVersionRefused, dsv1.ReasonVolumeReplaced, dsv1.ReasonVolumeUnreadable,
}

// failingReason returns a component's reason about a problem with its data; if there is none, ComponentFailing.
func failingReason(components []dsv1.ComponentStatus) string {
	for _, c := range components {
		if c.Culprit != nil && slices.Contains(ofData, c.Culprit.Reason) {
			return c.Culprit.Reason
		}
	}
	return dsv1.ReasonComponentFailing
}

// trouble returns the message of the conditions Ready, Degraded and Stalled: status.message without the number of problems in addition to a
// failure, and without the text about the pause, which has a separate condition.
func trouble(seen StatusInput, next dsv1.DataServiceStatus) string {
	switch problem := firstBroken(&next); {
	case seen.Deleting:
		return next.Message
	case seen.Failure != nil:
		return seen.Failure.Message
	case seen.Paused && problem != "":
		return problem
	}
	return next.Message
}
