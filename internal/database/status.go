// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

// Selector returns the label selector of a part's pods for the scale subresource.
func Selector(owner object.Owner, part string) string {
	return labels.SelectorFromSet(labels.Set{
		object.LabelInstance: owner.Name, object.LabelComponent: part, object.LabelKind: owner.KindLabel(),
	}).String()
}

// Doing returns the name and the message of the running step. Both are empty while the operator waits (a step named
// wait), or may not change anything.
func Doing[O any](seen reconcile.Seen[O], wait string) (step, text string) {
	if seen.Paused || seen.Deleting || seen.Failure != nil || len(seen.Decision.Steps) == 0 {
		return "", ""
	}
	first := seen.Decision.Steps[0]
	if first.Name == wait {
		return "", ""
	}
	return first.Name, first.Message
}

// Notes returns the notes for users about the parts, for example about a volume that was not resized.
func Notes(seen reconcile.PlanSeen) (notes []string) {
	for i := range seen.Parts {
		for _, note := range seen.Parts[i].Notes {
			notes = append(notes, note.Text)
		}
	}
	return notes
}

// Blocked returns the text about a problem that no pod's status shows, or "": a full volume that cannot grow, a
// StatefulSet whose controller cannot create pods, a claim that is not bound, or a volume that a node cannot mount.
func Blocked(seen reconcile.PlanSeen) string {
	for i := range seen.Parts {
		h := &seen.Parts[i].Health
		if h.Culprit.Reason == health.ReasonVolumeFull {
			return h.Problem
		}
		isExplained := h.Explained && h.HintCulprit.Reason != health.ReasonUnhealthy // a cluster's steps already explain members that are starting
		if h.Problem == "" && (isExplained || h.HintCulprit.Reason == health.ReasonPodsMissing || h.HintCulprit.Reason == health.ReasonNotBound) {
			return h.Hint
		}
	}
	return ""
}

// FirstProblem returns the pod whose problem is reported first, or "". problems maps the names of pods to their problems.
// A pod with a container that keeps exiting comes last, because the problem of another pod may be the cause.
func FirstProblem(problems map[string]string) string {
	first := ""
	for _, pod := range slices.Sorted(maps.Keys(problems)) {
		switch {
		case first == "":
			first = pod
		case isCrash(problems[first]) && !isCrash(problems[pod]):
			return pod
		}
	}
	return first
}

func isCrash(problem string) bool { return strings.HasPrefix(problem, "CrashLoopBackOff: ") }

// Account joins three texts: the first problem of a pod, the text of Blocked, and rest, which describes the consequences. It omits the
// problem if rest already contains it. problems maps the names of pods to their problems.
func Account(problems map[string]string, seen reconcile.PlanSeen, rest string) string {
	problem := ""
	if pod := FirstProblem(problems); pod != "" {
		const enough = 40 // rest may contain the problem in a shorter form
		if text := problems[pod]; !strings.Contains(rest, text[:min(enough, len(text))]) {
			problem = "pod " + pod + ": " + text
		}
	}
	return Join(problem, Blocked(seen), rest)
}

// Problem reports whether a part of the plan has a problem, such as a StatefulSet without pods.
func Problem(seen reconcile.PlanSeen) bool {
	return slices.ContainsFunc(seen.Parts, func(p reconcile.PartSeen) bool { return p.Health.Problem != "" })
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

// Summarize adds four things to a summary: the conditions of a status, the running step, the problem, and the warning of the condition
// BeganEmpty. The problem is the message of the condition named degraded.
func Summarize(summary *reconcile.Summary, conditions []metav1.Condition, degraded, step, message string) {
	summary.Conditions = conditions
	if step != "" {
		summary.Doing = reconcile.Doing{Step: step, Text: message}
	}
	if d := meta.FindStatusCondition(conditions, degraded); d != nil && d.Status == metav1.ConditionTrue {
		summary.Problem, summary.ProblemReason, summary.ProblemField = d.Message, d.Reason, "status.conditions"
	}
	if began := meta.FindStatusCondition(conditions, health.BeganEmpty); began != nil {
		summary.Warnings = append(summary.Warnings, reconcile.Warning{Reason: began.Reason, Field: "status.conditions", Text: began.Message})
	}
}
