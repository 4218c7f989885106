// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/reconcile"
)

// containerRestore is the container that restores a backup to the empty volume of a new database before the server starts.
const containerRestore = "d3os-restore"

// summarize returns a text with the number of warnings and the beginning of the first warning.
func summarize(warnings []string) string {
	first := health.Clip(warnings[0], 200)
	if len(warnings) == 1 {
		return "it has a warning: " + first
	}
	return fmt.Sprintf("it has %d warnings; the first: %s", len(warnings), first)
}

// Restored is the observation of a database that may have been restored from a backup.
type Restored struct {
	// IsDeclared reports whether the spec names a backup to restore into a new database. Pods are the pods of the database.
	IsDeclared bool
	Pods       []*corev1.Pod
}

// Set sets the condition Restored if a pod reports a restore with warnings. A recreated pod restores nothing and
// reports no warnings. So the condition stays until the spec declares no backup to restore.
func (r Restored) Set(c reconcile.Conditions) {
	if !r.IsDeclared {
		meta.RemoveStatusCondition(c.List, dsv1.ConditionRestored)
		return
	}
	for _, pod := range r.Pods {
		for _, status := range pod.Status.InitContainerStatuses {
			if status.Name != containerRestore || status.State.Terminated == nil {
				continue
			}
			if said := resultOf(status.State.Terminated); said != nil && said.OK && len(said.Warnings) > 0 {
				v := Verdict{Good: true, Reason: dsv1.ReasonBackupWarned, Message: "the database began with backup " + said.ID, Warnings: said.Warnings}
				v.Set(c, dsv1.ConditionRestored)
			}
		}
	}
}

// Warnings returns the warnings of the last backup and of the restore, for the summary of a status.
func Warnings(id string, warnings []string, conditions []metav1.Condition) (found []reconcile.Warning) {
	if len(warnings) > 0 {
		found = append(found, reconcile.Warning{Reason: dsv1.ReasonBackupWarned, Field: "status.backup.warnings", Text: "backup " + id + ": " + summarize(warnings)})
	}
	if c := meta.FindStatusCondition(conditions, dsv1.ConditionRestored); c != nil {
		found = append(found, reconcile.Warning{Reason: c.Reason, Field: "status.conditions", Text: c.Message})
	}
	return found
}
