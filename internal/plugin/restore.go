// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
)

// Restore returns a line with the progress of a restore. After the check, it adds facts about the restored data. It returns "" if the
// operator has not observed the restore yet.
func Restore(r *backupv1.DataRestore) string {
	s := &r.Status
	t := task{phase: s.Phase, good: backupv1.PhasePrepared, message: s.Message, facts: []string{"id " + s.ID}, warnings: s.Warnings}
	if s.RestoredTo != nil {
		t.add("restored to %s", moment(s.RestoredTo), true)
	}
	t.add("%d tables", s.Tables, s.Tables > 0)
	t.add("%d rows", s.Rows, s.Rows > 0)
	t.add("took %s", s.Duration, s.Duration != "")
	return t.String()
}

// Restores prints the DataBackups of a DataService and its DataRestores, latest first.
func (s Style) Restores(ds *dsv1.DataService, backups []backupv1.DataBackup, restores []backupv1.DataRestore, now time.Time) string {
	var known [][]string
	seen := map[string]bool{}
	slices.SortFunc(backups, func(a, b backupv1.DataBackup) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
	for i := range backups {
		b := &backups[i]
		seen[b.Status.ID] = true
		known = append(known, []string{cmp.Or(b.Status.ID, "-"), Age(&b.CreationTimestamp, now), cmp.Or(string(b.Status.Phase), "-"), cmp.Or(b.Status.Size, "-"), b.Name})
	}
	if last := ds.Status.Backup; last != nil && last.LastSuccessful != nil && !seen[last.LastID] {
		known = append([][]string{{last.LastID, Age(last.LastSuccessful, now), "Succeeded", "-", "-"}}, known...)
	}
	var made [][]string
	losses := ""
	slices.SortFunc(restores, func(a, b backupv1.DataRestore) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
	for i := range restores {
		r := &restores[i]
		reached := r.Status.ID
		if r.Status.RestoredTo != nil {
			reached = moment(r.Status.RestoredTo)
		}
		made = append(made, []string{r.Name, Age(&r.CreationTimestamp, now), cmp.Or(string(r.Status.Phase), "-"), cmp.Or(reached, "-"), cmp.Or(r.Status.Claim, "-")})
		if r.Status.Loses != nil && r.Status.Loses.Summary != "" {
			losses += fmt.Sprintf("a switch to %s would lose %s\n", r.Name, oneLine(r.Status.Loses.Summary))
		}
	}
	text := "no backup is known\n"
	if len(known) > 0 {
		text = s.Columns(append([][]string{{"BACKUP", "AGE", "PHASE", "SIZE", "DATABACKUP"}}, known...))
	}
	text += "Of the scheduled backups, the operator knows only the newest one.\nOlder scheduled backups are in the store, which the operator does not read.\n\n"
	if len(made) > 0 {
		text += s.Columns(append([][]string{{"DATARESTORE", "AGE", "PHASE", "RESTORED TO", "CLAIM"}}, made...)) + losses + "\n"
	}
	if slices.ContainsFunc(ds.Status.Components, func(c dsv1.ComponentStatus) bool { return c.Name == "mysql" && c.Kind == "Managed" }) {
		return text + "to restore one: create another DataService with spec.mysql.restoreFrom\n"
	}
	return text + fmt.Sprintf("to try one out: kubectl dataservice restore %s -n %s --backup latest\n", ds.Name, ds.Namespace)
}

func moment(at *metav1.Time) string { return at.UTC().Format(time.RFC3339) }
