// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"d3os.com/d3os-operator/internal/health"
)

const (
	reasonDataLost = "DataLost"
	reasonParked   = "Parked"
)

// Beginning detects a database that is formed again on empty volumes, although its resource was ready before. This happens after the claims
// and the record of the database were deleted together, for example by Kubernetes after a restore by another tool.
type Beginning struct {
	Subject string // kind and name of the resource
	// Serves reports whether the database matches the spec and has members. Forms reports whether all members are empty, without a record
	// and without a backup to restore, so that they form a new database.
	Serves, Forms bool
	// FirstReady is the field status.firstReady, and Conditions are the conditions, both of the last status.
	FirstReady **metav1.Time
	Conditions []metav1.Condition
}

// Judge stores the first readiness in the status when the database stops being ready, and not before, so that a new version of the operator
// writes no status. Judge returns the message of the condition BeganEmpty, or "". The condition stays until a user removes the
// first readiness from the status.
func (b Beginning) Judge() string {
	if ready := meta.FindStatusCondition(b.Conditions, conditionReady); *b.FirstReady == nil && !b.Serves && ready != nil &&
		ready.Status == metav1.ConditionTrue && ready.Reason != reasonParked {
		*b.FirstReady = ready.LastTransitionTime.DeepCopy()
	}
	if *b.FirstReady == nil || !b.Forms && !meta.IsStatusConditionTrue(b.Conditions, health.BeganEmpty) {
		return ""
	}
	return fmt.Sprintf("%s began empty: it was formed without data and without a record after it was ready (%s); restore a backup, or accept the loss: remove status.firstReady",
		b.Subject, (*b.FirstReady).UTC().Format(time.RFC3339))
}
