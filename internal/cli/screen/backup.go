// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package screen

import (
	"fmt"
	"strings"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
)

// Backup prints where a backup stands: a line, and when the store holds it what is in it. It is empty for a backup that the
// operator has not seen yet.
func Backup(b *backupv1.DataBackup) string {
	s := &b.Status
	if s.Phase == "" {
		return ""
	}
	text := fmt.Sprintf("%-10s %s\n", s.Phase, oneLine(s.Message))
	if s.Phase != backupv1.PhaseSucceeded {
		return text
	}
	facts := []string{"id " + s.ID}
	add := func(format string, value any, known bool) {
		if known {
			facts = append(facts, fmt.Sprintf(format, value))
		}
	}
	add("%s", s.Size, s.Size != "")
	add("%d tables", s.Tables, s.Tables > 0)
	add("%d rows", s.Rows, s.Rows > 0)
	add("took %s", s.Duration, s.Duration != "")
	add("server %s", s.ServerVersion, s.ServerVersion != "")
	text += fmt.Sprintf("%-10s %s\n", "", strings.Join(facts, ", "))
	for _, warning := range s.Warnings {
		text += fmt.Sprintf("%-10s %s\n", "warning", oneLine(warning))
	}
	return text
}
