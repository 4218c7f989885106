// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

// listed is the number of components that fit on a screen of 24 lines.
const listed = 14

// Platform prints one DataService: first the complete problems, then the components.
func (s Style) Platform(ds *dsv1.DataService, now time.Time) string {
	var out strings.Builder
	out.WriteString(s.headline(ds, now))
	for _, line := range s.trouble(ds) {
		out.WriteString("  " + line + "\n")
	}
	if len(ds.Status.Components) > 0 {
		out.WriteString("\n" + s.components(ds.Status.Components, now))
	}
	fmt.Fprintf(&out, "  paused %s   rollout %s\n", yesNo(ds.Spec.Paused), cmp.Or(string(ds.Spec.Rollout.Order), string(dsv1.OrderDependency)))
	return out.String()
}

func (s Style) headline(ds *dsv1.DataService, now time.Time) string {
	generation := fmt.Sprintf("generation %d (seen)", ds.Generation)
	if !Seen(ds) {
		generation = fmt.Sprintf("generation %d (seen %d)", ds.Generation, ds.Status.ObservedGeneration)
	}
	phase := cmp.Or(string(ds.Status.Phase), "no status")
	if ds.Status.Ready != "" {
		phase += " " + ds.Status.Ready
	}
	return fmt.Sprintf("%s   namespace %s   %s   %s   for %s\n",
		ds.Name, ds.Namespace, s.Paint(ds.Status.Phase, phase), generation, Age(Since(ds), now))
}

// trouble prints the reason why a DataService is not ready, the object to examine, and the waiting components.
func (s Style) trouble(ds *dsv1.DataService) []string {
	var lines []string
	if ds.Spec.Paused {
		lines = append(lines, "paused: the operator heals and updates nothing until spec.paused is false")
	}
	if c := meta.FindStatusCondition(ds.Status.Conditions, dsv1.ConditionOperatorChange); c != nil {
		lines = append(lines, "turn   "+c.Message)
	}
	if Ready(ds) {
		return lines
	}
	// While components start, the message is the list of components, which is printed below.
	if message := Message(ds); message != "" && !strings.Contains(message, "->") {
		lines = append(lines, "why    "+s.Bad(message))
	}
	var broken *dsv1.ComponentStatus
	waiting := map[string][]string{}
	var order []string
	for i := range ds.Status.Components {
		c := &ds.Status.Components[i]
		if broken == nil && c.Culprit != nil && c.Phase != dsv1.PhaseRunning {
			broken = c
		}
		for _, name := range c.WaitsFor {
			if waiting[name] == nil {
				order = append(order, name)
			}
			waiting[name] = append(waiting[name], c.Name)
		}
	}
	if broken != nil && Seen(ds) {
		lines = append(lines, "look   "+Look(ds.Namespace, broken.Culprit.Kind, broken.Culprit.Name))
	}
	for _, name := range order {
		lines = append(lines, fmt.Sprintf("next   %s: after %s", strings.Join(waiting[name], ", "), name))
	}
	return append(lines, fmt.Sprintf("more   kubectl dataservice why %s -n %s", ds.Name, ds.Namespace))
}

// Look returns the command that describes an object.
func Look(namespace, kind, name string) string {
	return fmt.Sprintf("kubectl -n %s describe %s %s", namespace, strings.ToLower(kind), name)
}

// components prints a line for each component. If they do not fit on the screen, one line summarizes the running components.
func (s Style) components(all []dsv1.ComponentStatus, now time.Time) string {
	rows := [][]cell{{{text: "  COMPONENT"}, {text: "PHASE"}, {text: "PODS"}, {text: "SINCE"}, {text: "WAITS FOR / NOTE"}}}
	fold := len(all) > listed && !s.Verbose
	running := 0
	for i := range all {
		c := &all[i]
		if fold && c.Phase == dsv1.PhaseRunning && c.Message == "" {
			running++
			continue
		}
		rows = append(rows, []cell{
			{mark(c.Phase) + " " + c.Name, markPhase(c.Phase)}, {string(c.Phase), c.Phase},
			{text: fmt.Sprintf("%d/%d", c.Ready, c.Desired)}, {text: Age(c.LastTransitionTime, now)}, {text: note(c)},
		})
	}
	text := s.table(rows)
	if running > 0 {
		text += fmt.Sprintf("  %d more are Running (-v lists them)\n", running)
	}
	return text
}

// mark returns the first character of a component's line: x is broken, . is in progress.
func mark(phase dsv1.Phase) string {
	switch phase {
	case dsv1.PhaseRunning:
		return " "
	case dsv1.PhaseDegraded, dsv1.PhaseFailed:
		return "x"
	default:
		return "."
	}
}

func markPhase(phase dsv1.Phase) dsv1.Phase {
	if phase == dsv1.PhaseRunning {
		return ""
	}
	return phase
}

// note returns the object to examine, the components for which a component waits, or its message.
func note(c *dsv1.ComponentStatus) string {
	switch {
	case c.Culprit != nil:
		return strings.TrimSuffix(fmt.Sprintf("%s %s: %s", strings.ToLower(c.Culprit.Kind), c.Culprit.Name, c.Culprit.Reason), ": ")
	case len(c.WaitsFor) > 0:
		return strings.Join(c.WaitsFor, ", ")
	}
	return c.Message
}

func yesNo(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// Line prints a DataService in one line, for output that adds a line for each change.
func (s Style) Line(ds *dsv1.DataService) string {
	return fmt.Sprintf("%s/%s %s %s %s\n", ds.Namespace, ds.Name, cmp.Or(ds.Status.Ready, "-"),
		s.Paint(ds.Status.Phase, cmp.Or(string(ds.Status.Phase), "-")), Message(ds))
}
