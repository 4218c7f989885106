// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"strings"
	"time"

	"d3os.com/d3os-operator/internal/plugin"
)

// Print prints a diagnosis: the cause, the object to examine, and then the evidence.
func (d *Diagnosis) Print(style plugin.Style, now time.Time) string {
	var out strings.Builder
	cause := d.Cause
	if d.Wrong {
		cause = style.Bad(cause)
	}
	out.WriteString(cause + "\n")
	if d.Policy != "" {
		out.WriteString(d.Policy + "\n")
	}
	if d.Object != nil {
		fmt.Fprintf(&out, "look at %s %s: %s\n", d.Object.Kind, d.Object.Name, d.Object.Command)
	}
	first := true
	section := func(name string, lines ...string) {
		for i, line := range lines {
			if first {
				out.WriteString("\n")
			}
			if first = false; i > 0 {
				name = ""
			}
			fmt.Fprintf(&out, "%-8s %s\n", name, line)
		}
	}
	if d.Detail != "" {
		section("detail", d.Detail)
	}
	section("also", d.Others...)
	if len(d.Way) > 1 {
		section("chain", strings.Join(d.Way, " waits for "))
	}
	if len(d.Waiting) > 0 {
		section("waiting", strings.Join(d.Waiting, ", "))
	}
	section("state", d.State...)
	if d.LogCommand != "" {
		section("log", append([]string{d.LogCommand}, prefixed(d.Log)...)...)
	}
	var events []string
	for i := range d.Events {
		e := &d.Events[i]
		events = append(events, fmt.Sprintf("%s %s %s/%s: %s%s", plugin.Age(plugin.Last(e), now), e.Reason,
			strings.ToLower(e.InvolvedObject.Kind), e.InvolvedObject.Name, plugin.Times(e), strings.Join(strings.Fields(e.Message), " ")))
	}
	section("events", events...)
	section("do", d.Do...)
	return out.String()
}

func prefixed(lines []string) []string {
	result := make([]string, len(lines))
	for i, line := range lines {
		result[i] = "| " + line
	}
	return result
}
