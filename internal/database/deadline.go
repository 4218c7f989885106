// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Deadline returns spec.progressDeadlineSeconds as a duration. For nil, it returns 0, which means no deadline.
func Deadline(seconds *int32) time.Duration {
	if seconds == nil {
		return 0
	}
	return time.Duration(*seconds) * time.Second
}

// overdue reports whether a creation, a change or a repair has taken longer than its deadline, and returns the time of
// its start. before is the condition Progressing of the previous status, or nil. The start is the transition time of
// this condition, so that a restart of the operator does not reset the start.
//
// A new generation resets the start. An overdue change stays overdue until it is finished.
func overdue(before *metav1.Condition, generation int64, deadline time.Duration, now metav1.Time) (since metav1.Time, is bool) {
	switch {
	case deadline == 0 || before == nil || before.ObservedGeneration != generation:
		return now, false
	case before.Status == metav1.ConditionTrue:
		return before.LastTransitionTime, now.Sub(before.LastTransitionTime.Time) >= deadline
	default:
		return now, before.Reason == reasonOverdue
	}
}

// overdueText returns the message of an overdue change: the cause, then the deadline.
func overdueText(cause string, deadline time.Duration) string {
	return Join(cause, fmt.Sprintf("not finished within %s (spec.progressDeadlineSeconds)", deadline))
}
