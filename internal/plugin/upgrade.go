// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"d3os.com/d3os-operator/internal/apply"
)

// Platform is the predicted change of one DataService by a version of the operator.
type Platform struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Restarts are the pods that would be replaced, by component.
	Restarts map[string]int64 `json:"restarts,omitempty"`
	// Replaces are the objects that would be deleted and created again.
	Replaces []string `json:"replaces,omitempty"`
	// Writes is the number of objects that would be written or deleted.
	Writes int `json:"writes"`
	// Error is the reason why the operator would change nothing.
	Error string `json:"error,omitempty"`
	// Paused reports that the operator would change nothing until the user resumes the DataService.
	Paused bool `json:"paused,omitempty"`
}

// Upgrade is the predicted change of all DataServices by a version of the operator.
type Upgrade struct {
	Version   string     `json:"version"`
	Platforms []Platform `json:"platforms"`
	Notes     []string   `json:"notes,omitempty"`
}

// Add adds a DataService with its predicted change.
func (u *Upgrade) Add(namespace, name string, paused bool, d *Diff, err error) {
	p := Platform{Namespace: namespace, Name: name, Paused: paused}
	if err != nil {
		p.Error = err.Error()
		u.Platforms = append(u.Platforms, p)
		return
	}
	for i := range d.Changes {
		c := &d.Changes[i]
		if c.Error != "" {
			p.Error = cmp.Or(p.Error, c.Kind+" "+c.Name+": "+c.Error)
			continue
		}
		p.Writes++
		if c.Action == apply.Replaced {
			p.Replaces = append(p.Replaces, c.Kind+" "+c.Name)
		}
		if c.Pods > 0 {
			if p.Restarts == nil {
				p.Restarts = map[string]int64{}
			}
			p.Restarts[c.Component] += c.Pods
		}
	}
	for _, note := range d.Notes {
		if !slices.Contains(u.Notes, note) {
			u.Notes = append(u.Notes, note)
		}
	}
	u.Platforms = append(u.Platforms, p)
}

// Changed reports whether the operator would change a DataService, or refuse a change.
func (u *Upgrade) Changed() bool {
	return slices.ContainsFunc(u.Platforms, func(p Platform) bool { return p.Writes > 0 || p.Error != "" })
}

// Text prints a line for each DataService that would change, and a summary.
func (u *Upgrade) Text(style Style) string {
	slices.SortFunc(u.Platforms, func(a, b Platform) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	var out strings.Builder
	rows := [][]string{{"NAMESPACE", "NAME", "RESTARTS", "REPLACES", "WRITES"}}
	unchanged, restarting, replacing, refused := 0, 0, 0, 0
	var errors []string
	for i := range u.Platforms {
		p := &u.Platforms[i]
		switch {
		case p.Error != "":
			refused++
			errors = append(errors, p.Namespace+"/"+p.Name+": "+p.Error)
			continue
		case p.Writes == 0:
			unchanged++
			continue
		}
		var restarts []string
		for _, component := range slices.Sorted(maps.Keys(p.Restarts)) {
			restarts = append(restarts, fmt.Sprintf("%s %d", component, p.Restarts[component]))
		}
		if len(restarts) > 0 {
			restarting++
		}
		if len(p.Replaces) > 0 {
			replacing++
		}
		name := p.Name
		if p.Paused {
			name += " (paused)"
		}
		rows = append(rows, []string{p.Namespace, name, cmp.Or(strings.Join(restarts, ", "), "-"), cmp.Or(strings.Join(p.Replaces, ", "), "-"), fmt.Sprint(p.Writes)})
	}
	if len(rows) > 1 {
		out.WriteString(style.Columns(rows))
		out.WriteString("\n")
	}
	for _, text := range errors {
		out.WriteString("refused " + text + "\n")
	}
	fmt.Fprintf(&out, "%d DataServices under version %s: unchanged %d, changed %d (pods restart in %d, objects are replaced in %d), refused %d\n",
		len(u.Platforms), u.Version, unchanged, len(rows)-1, restarting, replacing, refused)
	for _, note := range u.Notes {
		out.WriteString("note: " + note + "\n")
	}
	return out.String()
}
