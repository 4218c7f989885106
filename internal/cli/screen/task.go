// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package screen

import (
	"fmt"
	"strings"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
)

// task is a piece of work as it is printed: a line, and when it has come to its good end what came of it.
type task struct {
	phase, good backupv1.Phase
	message     string
	facts       []string
	warnings    []string
}

// add adds a fact, if it is known.
func (t *task) add(format string, value any, known bool) {
	if known {
		t.facts = append(t.facts, fmt.Sprintf(format, value))
	}
}

// String is empty for a task that the operator has not seen yet.
func (t *task) String() string {
	if t.phase == "" {
		return ""
	}
	text := fmt.Sprintf("%-10s %s\n", t.phase, oneLine(t.message))
	if t.phase != t.good {
		return text
	}
	text += fmt.Sprintf("%-10s %s\n", "", strings.Join(t.facts, ", "))
	for _, warning := range t.warnings {
		text += fmt.Sprintf("%-10s %s\n", "warning", oneLine(warning))
	}
	return text
}
