// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Conditions sets the conditions of a status.
type Conditions struct {
	List       *[]metav1.Condition
	Generation int64
	Now        metav1.Time
}

// Set sets a condition to true with the first reason and message, or to false with the second reason and message.
func (c Conditions) Set(name string, is bool, reason, message, elseReason, elseMessage string) {
	made := metav1.Condition{
		Type: name, Status: metav1.ConditionFalse, Reason: elseReason, Message: elseMessage, ObservedGeneration: c.Generation, LastTransitionTime: c.Now,
	}
	if is {
		made.Status, made.Reason, made.Message = metav1.ConditionTrue, reason, message
	}
	meta.SetStatusCondition(c.List, made)
}

// While sets a condition to true if the argument is true, and removes the condition otherwise.
func (c Conditions) While(name string, is bool, reason, message string) {
	if !is {
		meta.RemoveStatusCondition(c.List, name)
		return
	}
	c.Set(name, true, reason, message, "", "")
}
