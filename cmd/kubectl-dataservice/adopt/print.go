// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"fmt"
	"strings"

	"d3os.com/d3os-operator/internal/plugin"
)

// Text returns the report for a terminal: refusals first, then a line for each object.
func (r *Report) Text(style plugin.Style) string {
	var out strings.Builder
	for _, reason := range r.Refused {
		fmt.Fprintf(&out, "x %s\n", style.Bad(reason))
	}
	if len(r.Refused) > 0 && len(r.Objects) > 0 {
		out.WriteString("\n")
	}
	if len(r.Objects) > 0 {
		rows := [][]string{{"OBJECT", "OWNER NOW", "ACTION", "PODS", "NOTE"}}
		for _, x := range r.Objects {
			pods, note := "-", x.Note
			if x.Pods > 0 {
				pods = fmt.Sprint(x.Pods)
			}
			if x.Action == Roll && len(x.Touches) > 0 {
				note += fmt.Sprintf("; labels on %d ReplicaSets and pods", len(x.Touches))
			}
			owner := x.Owner
			if owner == "" {
				owner = "-"
			}
			rows = append(rows, []string{x.Kind + "/" + x.Name, owner, string(x.Action), pods, note})
		}
		out.WriteString(style.Columns(rows))
	}
	if r.Database != "" {
		fmt.Fprintf(&out, "\ndatabase  %s\n", style.Bad(r.Database))
	}
	if r.Data != nil {
		r.Data.text(&out, style)
	}
	if len(r.Changes) > 0 {
		out.WriteString("\nnot as before:\n")
		for _, change := range r.Changes {
			fmt.Fprintf(&out, "  %s\n", change)
		}
	}
	switch {
	case len(r.Refused) > 0:
		out.WriteString("\nthe command changes nothing while the report has a line with x\n")
	case r.Complete:
		out.WriteString("\nall objects are adopted\n")
	}
	return out.String()
}

// text appends the part about the database.
func (d *Data) text(out *strings.Builder, style plugin.Style) {
	fmt.Fprintf(out, "data      %s\n", d.State)
	for _, reason := range d.Refused {
		fmt.Fprintf(out, "  x %s\n", style.Bad(reason))
	}
	for i, step := range d.Steps {
		fmt.Fprintf(out, "  %d. %s\n", i+1, step)
	}
	for _, o := range d.Objects {
		fmt.Fprintf(out, "     %s/%s: %s, %s\n", o.Kind, o.Name, o.Action, o.Note)
	}
}
