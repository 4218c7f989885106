// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package stateful

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"d3os.com/d3os-operator/internal/engine"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/object"
)

// Selector returns what the scale subresource selects the pods of a part by.
func Selector(owner object.Owner, part string) string {
	return labels.SelectorFromSet(labels.Set{
		object.LabelInstance: owner.Name, object.LabelComponent: part, object.LabelKind: owner.KindLabel(),
	}).String()
}

// Doing returns the name of the step that is being taken, and what it does. Both are empty while the operator only
// waits, which is the step of the name wait, or is not to do anything.
func Doing[W any](seen kinds.Seen[W], wait string) (step, text string) {
	if seen.Paused || seen.Deleting || seen.Failure != nil || len(seen.Decision.Steps) == 0 {
		return "", ""
	}
	first := seen.Decision.Steps[0]
	if first.Name == wait {
		return "", ""
	}
	return first.Name, first.Message
}

// Notes returns what was seen of the parts that a person should know, such as a volume that did not get its size.
func Notes(seen engine.Seen) (notes []string) {
	for i := range seen.Parts {
		notes = append(notes, seen.Parts[i].Notes...)
	}
	return notes
}

// Blocked returns which StatefulSet lacks pods that its controller cannot create, or which claim is not bound; empty for none. No pod says so.
func Blocked(seen engine.Seen) string {
	for i := range seen.Parts {
		h := &seen.Parts[i].Health
		if h.Problem == "" && (h.HintCulprit.Reason == health.ReasonPodsMissing || h.HintCulprit.Reason == health.ReasonNotBound) {
			return h.Hint
		}
	}
	return ""
}

// Join joins the texts that are not empty.
func Join(texts ...string) string {
	var given []string
	for _, text := range texts {
		if text != "" {
			given = append(given, text)
		}
	}
	return strings.Join(given, "; ")
}

// Summarize adds to a summary the conditions of a status, the step that is being taken, and what is wrong according to the
// condition of the type degraded.
func Summarize(summary *kinds.Summary, conditions []metav1.Condition, degraded, step, message string) {
	summary.Conditions = conditions
	if step != "" {
		summary.Doing = kinds.Doing{Step: step, Text: message}
	}
	if d := meta.FindStatusCondition(conditions, degraded); d != nil && d.Status == metav1.ConditionTrue {
		summary.Problem, summary.ProblemReason, summary.ProblemField = d.Message, d.Reason, "status.conditions"
	}
}
