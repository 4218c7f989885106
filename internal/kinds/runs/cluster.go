// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package runs

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	"d3os.com/d3os-operator/internal/day2"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/kinds/agentjob"
	"d3os.com/d3os-operator/internal/metrics"
	"d3os.com/d3os-operator/internal/object"
)

// Cluster is a cluster that may have backups.
type Cluster struct {
	// Declared is what the spec says; nil for none.
	Declared *backupv1.ClusterBackup
	// Part is the one whose data they have, such as etcd.
	Part string
}

// Seen is what is observed of the backups of a cluster: the pods that make them, and Jobs that have not ended.
type Seen struct {
	Pods []*corev1.Pod
	Jobs []agentjob.Unfinished
}

// See returns the pods that make backups and their Jobs, as the cache shows them.
func (of Cluster) See(ctx context.Context, pods kinds.Pods, jobs agentjob.Reader, owner object.Owner) (seen Seen, err error) {
	if of.Declared == nil {
		return seen, nil
	}
	if seen.Pods, err = pods(ctx, of.Part+PartJobs); err != nil {
		return seen, err
	}
	seen.Jobs, err = jobs.Unfinished(ctx, owner.Namespace, owner.Name, of.Part)
	return seen, err
}

// StepEndJob ends a Job whose work has ended while another container of its pod runs on.
const StepEndJob = "EndJob"

// EndHeld returns the step that ends the first Job whose work has ended a while ago; nil where there is none.
func EndHeld(jobs agentjob.Reader, namespace string, unfinished []agentjob.Unfinished) []day2.Step {
	i := slices.IndexFunc(unfinished, func(u agentjob.Unfinished) bool { return u.IsHeld })
	if i < 0 {
		return nil
	}
	held := unfinished[i]
	return []day2.Step{{
		Name: StepEndJob, Message: "delete Job " + held.Name + ": its work has ended, and another container keeps its pod and with it the next backup",
		Do: func(ctx context.Context) error { return jobs.End(ctx, namespace, held) },
	}}
}

// Tell returns what is known of backups after what their pods said, and sets the condition BackupHealthy. Where none are declared
// there is neither.
func (of Cluster) Tell(known *backupv1.ClusterBackupStatus, seen Seen, c kinds.Conditions) *backupv1.ClusterBackupStatus {
	if of.Declared == nil {
		meta.RemoveStatusCondition(c.List, backupv1.ConditionBackupHealthy)
		return nil
	}
	next := ptr.Deref(known, backupv1.ClusterBackupStatus{})
	good, bad := Last(seen.Pods, of.Part)
	Take(&next.LastSuccessful, &next.LastID, good)
	overdue := Overdue(seen.Pods, of.Part, of.Declared.Schedule, next.LastSuccessful, c.Now.Time)
	verdict := cmp.Or(Stuck(seen.Jobs), Judge(next.LastSuccessful, next.LastID, bad, overdue))
	verdict.Set(c, backupv1.ConditionBackupHealthy)
	return &next
}

// Summary is what the metrics tell of backups; nil for nothing. The first one is waited for since the condition is there.
func (of Cluster) Summary(known *backupv1.ClusterBackupStatus, conditions []metav1.Condition) *metrics.Backups {
	healthy := meta.FindStatusCondition(conditions, backupv1.ConditionBackupHealthy)
	if of.Declared == nil || known == nil || healthy == nil {
		return nil
	}
	return &metrics.Backups{
		LastSuccessful: ptr.Deref(known.LastSuccessful, healthy.LastTransitionTime).Time, Every: Longest(of.Declared.Schedule),
	}
}
