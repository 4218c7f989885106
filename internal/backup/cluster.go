// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	"d3os.com/d3os-operator/internal/metrics"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/schedule"
)

// Cluster is a cluster that may have backups.
type Cluster struct {
	// Declared is the declaration of backups in the spec; nil if the spec declares none.
	Declared *backupv1.ClusterBackup
	// Part is the name of the part with the data, such as etcd.
	Part string
	// IsParked reports whether the spec declares no pods. In that case, no backup is made, and none counts as overdue.
	IsParked bool
}

// schedule returns the schedule of backups, or "".
func (of Cluster) schedule() string {
	if of.IsParked {
		return ""
	}
	return of.Declared.Schedule
}

// Seen is the observation of a cluster's backups: the pods that make them, and unfinished Jobs.
type Seen struct {
	Pods []*corev1.Pod
	Jobs []Unfinished
}

// See returns the backup pods and their unfinished Jobs from the cache.
func (of Cluster) See(ctx context.Context, pods reconcile.Pods, jobs Reader, owner object.Owner) (seen Seen, err error) {
	if of.Declared == nil {
		return seen, nil
	}
	if seen.Pods, err = pods(ctx, of.Part+PartJobs); err != nil {
		return seen, err
	}
	seen.Jobs, err = jobs.Unfinished(ctx, owner.Namespace, owner.Name, of.Part)
	return seen, err
}

// StepEndJob deletes a Job whose working container has ended while another container of its pod still runs.
const StepEndJob = "EndJob"

// EndHeld returns the step that deletes the first of the Jobs with Unfinished.IsHeld, or nil.
func EndHeld(jobs Reader, namespace string, unfinished []Unfinished) []reconcile.Step {
	i := slices.IndexFunc(unfinished, func(u Unfinished) bool { return u.IsHeld })
	if i < 0 {
		return nil
	}
	held := unfinished[i]
	return []reconcile.Step{{
		Name: StepEndJob, Message: "delete Job " + held.Name + ": its work has ended, but another container of its pod runs on and delays the next backup",
		Do: func(ctx context.Context) error { return jobs.End(ctx, namespace, held) },
	}}
}

// Report computes the backup status from the reports of pods, and sets the condition BackupHealthy. If no backups are declared, it returns
// nil and removes the condition.
func (of Cluster) Report(known *backupv1.ClusterBackupStatus, seen Seen, c reconcile.Conditions) *backupv1.ClusterBackupStatus {
	if of.Declared == nil {
		meta.RemoveStatusCondition(c.List, backupv1.ConditionBackupHealthy)
		return nil
	}
	next := ptr.Deref(known, backupv1.ClusterBackupStatus{})
	good, bad := Last(seen.Pods, of.Part)
	TakeBackup(&next.LastSuccessful, &next.LastID, &next.Warnings, good)
	overdue := Overdue(seen.Pods, of.Part, of.schedule(), of.Declared.TimeZone, next.LastSuccessful, c.Now.Time)
	verdict := cmp.Or(Stuck(seen.Jobs), Judge(next.LastSuccessful, next.LastID, next.Warnings, bad, overdue))
	verdict.Set(c, backupv1.ConditionBackupHealthy)
	return &next
}

// Summary returns the metrics of backups, or nil. Before the first successful backup, it uses the transition time of
// the condition BackupHealthy instead of the time of a backup.
func (of Cluster) Summary(known *backupv1.ClusterBackupStatus, conditions []metav1.Condition) *metrics.Backups {
	healthy := meta.FindStatusCondition(conditions, backupv1.ConditionBackupHealthy)
	if of.Declared == nil || known == nil || healthy == nil {
		return nil
	}
	return &metrics.Backups{
		LastSuccessful: ptr.Deref(known.LastSuccessful, healthy.LastTransitionTime).Time, Every: schedule.Longest(of.schedule(), of.Declared.TimeZone),
	}
}
