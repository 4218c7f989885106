// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/kinds/dataservice/backups"
)

// conditions derives every condition from the phase that was just computed.
func conditions(prev []metav1.Condition, seen Observation, next dsv1.DataServiceStatus, now metav1.Time) []metav1.Condition {
	result := slices.Clone(prev)
	set := func(kind string, status bool, reason, message string) {
		c := metav1.Condition{
			Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message,
			ObservedGeneration: seen.Generation, LastTransitionTime: now,
		}
		if status {
			c.Status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&result, c)
	}
	setWhileTrue := func(kind string, status bool, reason, message string) {
		if status {
			set(kind, true, reason, message)
			return
		}
		meta.RemoveStatusCondition(&result, kind)
	}

	failing := seen.Failure != nil || count(next.Components, dsv1.PhaseFailed)+count(next.Components, dsv1.PhaseDegraded) > 0
	progressing := !seen.Paused && !seen.Deleting && seen.Failure == nil && slices.ContainsFunc(next.Components, func(c dsv1.ComponentStatus) bool {
		return inWork(c.Phase) || c.Phase == dsv1.PhasePending
	})
	reason := dsv1.ReasonComponentsNotReady
	switch {
	case seen.Failure != nil:
		reason = seen.Failure.Reason
	case seen.Deleting:
		reason = dsv1.ReasonDeleting
	case failing:
		reason = failingReason(next.Components)
	}

	ready := seen.Failure == nil && !seen.Deleting && count(next.Components, dsv1.PhaseRunning) == len(next.Components)
	if ready {
		set(dsv1.ConditionReady, true, dsv1.ReasonAllReady, "every declared component is ready")
	} else {
		set(dsv1.ConditionReady, false, reason, trouble(seen, next))
	}
	if failing && !seen.Deleting {
		set(dsv1.ConditionDegraded, true, reason, trouble(seen, next))
	} else {
		set(dsv1.ConditionDegraded, false, dsv1.ReasonHealthy, "nothing is known to be wrong")
	}
	if progressing {
		set(dsv1.ConditionProgressing, true, dsv1.ReasonRollingOut, Arrows(next.Components))
	} else {
		set(dsv1.ConditionProgressing, false, dsv1.ReasonSettled, "nothing is being rolled out")
	}
	if seen.Paused {
		set(dsv1.ConditionPaused, true, dsv1.ReasonPaused, "spec.paused is true")
	} else {
		set(dsv1.ConditionPaused, false, dsv1.ReasonNotPaused, "spec.paused is false")
	}
	result = operatorChange(result, seen, ready, now)
	stalled := seen.Failure != nil && seen.Failure.Stalled
	setWhileTrue(dsv1.ConditionStalled, stalled, reason, next.Message)
	setWhileTrue(dsv1.ConditionReconciling, !stalled && progressing, dsv1.ReasonRollingOut, next.Message)
	return result
}

// operatorChange tells of a change that comes from the operator. A turn ends when every component is ready in its new
// revision. The message of what waits is kept while its reason is the same: it would change with every other turn.
func operatorChange(conditions []metav1.Condition, seen Observation, ready bool, now metav1.Time) []metav1.Condition {
	before := meta.FindStatusCondition(conditions, dsv1.ConditionOperatorChange)
	hadTurn := before != nil && before.Status == metav1.ConditionTrue
	c := metav1.Condition{
		Type: dsv1.ConditionOperatorChange, Status: metav1.ConditionFalse, ObservedGeneration: seen.Generation, LastTransitionTime: now,
	}
	switch {
	case seen.Pace != nil && seen.Pace.Granted:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, dsv1.ReasonRollingOut, "this version of the operator changes what runs"
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

// tell sets a condition about backups to its verdict, or removes it where there is none.
func tell(conditions *[]metav1.Condition, kind string, v *backups.Verdict, generation int64, now metav1.Time) {
	if v == nil {
		meta.RemoveStatusCondition(conditions, kind)
		return
	}
	c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: v.Reason, Message: v.Message, ObservedGeneration: generation, LastTransitionTime: now}
	if v.Good {
		c.Status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(conditions, c)
}

// ofData are the reasons of trouble with data, in which a person has to act before anything else does.
var ofData = []string{
	dsv1.ReasonDataLost, dsv1.ReasonVolumeBeingDeleted, dsv1.ReasonServerVersionRefused, dsv1.ReasonVolumeReplaced, dsv1.ReasonVolumeUnreadable,
}

// failingReason is ComponentFailing, or what a component says about its data.
func failingReason(components []dsv1.ComponentStatus) string {
	for _, c := range components {
		if c.Culprit != nil && slices.Contains(ofData, c.Culprit.Reason) {
			return c.Culprit.Reason
		}
	}
	return dsv1.ReasonComponentFailing
}

// trouble is the message without the word that all is paused, which has its own condition.
func trouble(seen Observation, next dsv1.DataServiceStatus) string {
	if seen.Paused && seen.Failure == nil {
		if problem := problems(next.Components); problem != "" {
			return problem
		}
	}
	return next.Message
}
