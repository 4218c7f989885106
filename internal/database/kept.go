// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import "fmt"

// Kept is the size in MiB of former data on the volume of a pod. The data stays there until a user removes it.
type Kept struct {
	Pod string
	MiB int64
}

// KeptNotes returns a note that names the pod whose volume contains the most former data. The parameter what
// describes this data. KeptNotes returns nil if no volume contains former data.
func KeptNotes(all []Kept, what string) []string {
	most, others, more := Kept{}, -1, ""
	for _, one := range all {
		if one.MiB > 0 {
			others++
		}
		if one.MiB > most.MiB {
			most = one
		}
	}
	if others < 0 {
		return nil
	}
	if others > 0 {
		more = fmt.Sprintf(" (%d more volumes keep some)", others)
	}
	return []string{fmt.Sprintf("the volume of %s keeps %d MiB of %s%s: remove the unneeded files before they fill the volume", most.Pod, most.MiB, what, more)}
}
