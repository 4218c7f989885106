// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"strings"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
)

// task is the printed form of a backup or a restore: a line and, after a success, its facts.
type task struct {
	phase, good backupv1.Phase
	message     string
	facts       []string
	warnings    []string
}

// add adds a fact if known is true.
func (t *task) add(format string, value any, known bool) {
	if known {
		t.facts = append(t.facts, fmt.Sprintf(format, value))
	}
}

// String returns "" until the operator has observed the task.
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
