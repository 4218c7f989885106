// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The reasons of a resource whose operator has set no conditions for the present state.
const (
	// ReasonNotObserved: the resource's operator has not reported on the latest generation.
	ReasonNotObserved = "NotObserved"
	// ReasonTerminating: the resource is being deleted.
	ReasonTerminating = "Terminating"
)

// ReasonNotServed is the reason of an object whose kind the API server does not serve.
const ReasonNotServed = "NotServed"

// The reasons of a Secret that a resource of another operator needs.
const (
	// ReasonSecretMissing: the user's Secret with a password does not exist.
	ReasonSecretMissing = "SecretMissing"
	// ReasonConflict: the other operator would write a Secret, but a Secret of that name exists and belongs to another owner.
	ReasonConflict = "Conflict"
)

// BeganEmpty is the condition of a resource with a database that was formed again on empty volumes although it was ready before, and the
// reason of a request about such a database.
const BeganEmpty = "BeganEmpty"

// isCustom reports whether an object's kind is not one of Kubernetes' own. Another controller reconciles such an object, and reports its
// state in conditions.
func isCustom(object *unstructured.Unstructured) bool {
	group := object.GroupVersionKind().Group
	return strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io")
}

// addCustom judges a custom resource by its own conditions. Stalled and Degraded are problems. Without these conditions, the resource is
// settled when it is Ready in its latest generation. A resource without conditions is not settled, unlike in kstatus.
func (s *State) addCustom(object *unstructured.Unstructured) {
	s.countCustom(object)
	culprit := Culprit{Kind: object.GetKind(), Name: object.GetName()}
	say := func(tell func(Culprit, string), reason, message string) {
		s.unsettle(false)
		culprit.Reason, culprit.Message = reason, message
		text := fmt.Sprintf("%s %s: %s", culprit.Kind, culprit.Name, reason)
		if message != "" {
			text += ": " + message
		}
		tell(culprit, text)
	}
	if object.GetDeletionTimestamp() != nil {
		say(s.hint, ReasonTerminating, "it is being deleted")
		return
	}
	observed, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
	if observed != object.GetGeneration() {
		say(s.hint, ReasonNotObserved, "its operator has not reported on it yet")
		return
	}
	for _, kind := range []string{"Stalled", "Degraded"} {
		if is, reason, message := conditionOf(object, kind); is {
			say(s.problem, reason, message)
			return
		}
	}
	if is, reason, message := conditionOf(object, "Ready"); !is {
		if reason == "" {
			reason, message = "NotReady", "it is not ready"
		}
		say(s.hint, reason, message)
		return
	}
	if is, _, message := conditionOf(object, BeganEmpty); is {
		s.Note = Note{Text: message, Culprit: Culprit{culprit.Kind, culprit.Name, BeganEmpty, message}}
		return
	}
	var backups []metav1.Condition
	for _, kind := range backupConditions {
		if is, reason, message := conditionOf(object, kind); !is && reason != "" && reason != ReasonNotObserved {
			backups = append(backups, metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message})
		}
	}
	if c := BackupProblem(backups); c != nil {
		s.Note = Note{Text: BackupText(c), Culprit: Culprit{culprit.Kind, culprit.Name, c.Reason, c.Message}, Backup: true}
	}
}

// backupConditions are the conditions about backups: the backups themselves, and the archive between them.
var backupConditions = []string{"BackupHealthy", "Recoverable"}

// notDue are the reasons of these conditions without a problem: the first backup or the first check is not due yet, or the archive is
// stopped or starts.
var notDue = []string{"NoBackup", "NotVerified", "ArchiveStopped", "ArchiveNotReady"}

// BackupProblem returns the first condition that reports a failed or late backup, or nil.
func BackupProblem(conditions []metav1.Condition) *metav1.Condition {
	if c := BackupState(conditions); c != nil && !slices.Contains(notDue, c.Reason) {
		return c
	}
	return nil
}

// BackupState returns the condition that explains the state of the backups: the first one that reports a problem, else the first one that
// is False because something is not due yet, else nil.
func BackupState(conditions []metav1.Condition) (state *metav1.Condition) {
	for _, kind := range backupConditions {
		c := meta.FindStatusCondition(conditions, kind)
		switch {
		case c == nil || c.Status != metav1.ConditionFalse:
		case !slices.Contains(notDue, c.Reason):
			return c
		case state == nil:
			state = c
		}
	}
	return state
}

// BackupText describes a condition about backups in a message.
func BackupText(c *metav1.Condition) string { return "backup: " + c.Reason + ": " + c.Message }

// conditionOf reports whether a condition is True, and returns its reason and message. Conditions of an earlier generation are ignored.
func conditionOf(object *unstructured.Unstructured, kind string) (is bool, reason, message string) {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		if condition["type"] != kind {
			continue
		}
		if observed, given := condition["observedGeneration"].(int64); given && observed != object.GetGeneration() {
			return false, ReasonNotObserved, "its condition " + kind + " describes an earlier generation"
		}
		reason, _ = condition["reason"].(string)
		message, _ = condition["message"].(string)
		return condition["status"] == "True", reason, message
	}
	return false, "", ""
}

// countCustom reads the numbers of ready and desired pods from a status.ready such as 5/6. If the status describes an earlier generation,
// the desired number is spec.replicas.
func (s *State) countCustom(object *unstructured.Unstructured) {
	desired, _, _ := unstructured.NestedInt64(object.Object, "spec", "replicas")
	text, _, _ := unstructured.NestedString(object.Object, "status", "ready")
	count, of, _ := strings.Cut(text, "/")
	ready, _ := strconv.ParseInt(count, 10, 32)
	observed, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
	if wanted, err := strconv.ParseInt(of, 10, 32); err == nil && observed == object.GetGeneration() {
		desired = wanted
	}
	s.Desired, s.Ready = int32(desired), int32(ready)
}
