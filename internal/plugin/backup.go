// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"

// Backup returns a line with the progress of a backup. After the end of the backup, it adds the contents. It returns "" if the operator
// has not observed the backup yet.
func Backup(b *backupv1.DataBackup) string {
	s := &b.Status
	t := task{phase: s.Phase, good: backupv1.PhaseSucceeded, message: s.Message, facts: []string{"id " + s.ID}, warnings: s.Warnings}
	t.add("%s", s.Size, s.Size != "")
	t.add("%d tables", s.Tables, s.Tables > 0)
	t.add("%d rows", s.Rows, s.Rows > 0)
	t.add("took %s", s.Duration, s.Duration != "")
	t.add("server %s", s.ServerVersion, s.ServerVersion != "")
	return t.String()
}
