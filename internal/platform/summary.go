// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/backup"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/metrics"
	"d3os.com/d3os-operator/internal/mysql"
	"d3os.com/d3os-operator/internal/platform/component"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/schedule"
)

// Summary returns the summary of a DataService's status.
func (*Kind) Summary(ds *dsv1.DataService) reconcile.Summary {
	s := &ds.Status
	summary := reconcile.Summary{
		Phase: string(s.Phase), Generation: s.ObservedGeneration, ReadyText: "all components are ready (" + s.Ready + ")",
		Ready:  meta.IsStatusConditionTrue(s.Conditions, dsv1.ConditionReady),
		New:    s.Phase == "" || s.Phase == dsv1.PhasePending || s.Phase == dsv1.PhaseCreating,
		Urgent: s.Phase == dsv1.PhaseDegraded || s.Phase == dsv1.PhaseFailed || s.Phase == dsv1.PhaseRunning || s.Phase == dsv1.PhaseHibernated,
		Parts:  make([]metrics.Part, 0, len(s.Components)), Conditions: s.Conditions,
	}
	for i := range s.Components {
		c := &s.Components[i]
		summary.Parts = append(summary.Parts, metrics.Part{
			Name: c.Name, Ready: c.Phase == dsv1.PhaseRunning, Since: ptr.Deref(c.LastTransitionTime, metav1.Time{}).Time,
			Pods: c.Ready, Desired: c.Desired, Waits: len(c.WaitsFor) > 0,
		})
		if summary.ProblemField == "" && (c.Phase == dsv1.PhaseDegraded || c.Phase == dsv1.PhaseFailed) {
			summary.ProblemField = "status.components[" + c.Name + "]"
		}
	}
	if d := meta.FindStatusCondition(s.Conditions, dsv1.ConditionDegraded); d != nil && d.Status == metav1.ConditionTrue {
		summary.Problem, summary.ProblemReason = d.Message, d.Reason
	} else {
		summary.ProblemField = ""
		if isHibernating(s) {
			text, _, _ := strings.Cut(s.Message, mysql.StillThere)
			summary.Doing = reconcile.Doing{Step: string(s.Phase), Text: text}
		}
		summarizeSwitch(&summary, meta.FindStatusCondition(s.Conditions, dsv1.ConditionDatabaseSwitch))
	}
	summary.Backups = backupsOf(ds)
	known := ptr.Deref(s.Backup, dsv1.BackupStatus{})
	summary.Warnings = backup.Warnings(known.LastID, known.Warnings, s.Conditions)
	for i := range s.Components {
		if c := &s.Components[i]; requires(c) && c.Culprit.Reason == health.BeganEmpty {
			summary.Warnings = append(summary.Warnings, reconcile.Warning{Reason: dsv1.ReasonDataLost, Field: "status.components[" + c.Name + "]", Text: c.Name + ": " + c.Message})
		}
	}
	if m := ds.Spec.MySQL; m != nil && !m.IsReplicated() { // without a volume, this claim does not exist; a MySQLCluster reports its own claims
		summary.Claims = []string{mysql.ClaimName(cmp.Or(ds.Spec.MySQL.Name, component.DefaultObjectName(component.MySQL)))}
	}
	return summary
}

// isHibernating reports whether pods are stopped, or are being stopped, because of spec.hibernate.
func isHibernating(s *dsv1.DataServiceStatus) bool {
	return s.Phase == dsv1.PhaseHibernating || s.Phase == dsv1.PhaseHibernated
}

// summarizeSwitch adds a switch to another database to a summary: its step, or the action that a user must take. It
// omits the list of remaining pods, because that list changes with each pod that ends.
func summarizeSwitch(summary *reconcile.Summary, c *metav1.Condition) {
	if c == nil {
		return
	}
	text, _, _ := strings.Cut(c.Message, mysql.StillThere)
	if c.Status == metav1.ConditionTrue {
		summary.Doing = reconcile.Doing{Step: c.Reason, Text: text}
		return
	}
	summary.Problem, summary.ProblemReason, summary.ProblemField = text, c.Reason, "status.conditions"
}

// backupsOf returns the metrics of backups. Before the first backup or check, it uses the time at which the condition
// was set.
func backupsOf(ds *dsv1.DataService) *metrics.Backups {
	healthy := meta.FindStatusCondition(ds.Status.Conditions, dsv1.ConditionBackupHealthy)
	if ds.Spec.MySQL == nil || ds.Spec.MySQL.Backup == nil || ds.Status.Backup == nil || healthy == nil || isHibernating(&ds.Status) {
		return nil
	}
	declared, known := ds.Spec.MySQL.Backup, ds.Status.Backup
	b := &metrics.Backups{LastSuccessful: ptr.Deref(known.LastSuccessful, healthy.LastTransitionTime).Time, Every: schedule.Longest(declared.Schedule, declared.TimeZone)}
	if declared.Verify != nil {
		b.LastVerified, b.VerifyEvery = ptr.Deref(known.LastVerified, healthy.LastTransitionTime).Time, schedule.Longest(declared.Verify.Schedule, declared.TimeZone)
	}
	return b
}
