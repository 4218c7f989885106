// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package runs

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/metrics"
)

// Cluster is a cluster that may have backups.
type Cluster struct {
	// Declared is what the spec says; nil for none.
	Declared *backupv1.ClusterBackup
	// Part is the one whose data they have, such as etcd.
	Part string
}

// See returns the pods that make backups, as the cache shows them.
func (of Cluster) See(ctx context.Context, pods kinds.Pods) ([]*corev1.Pod, error) {
	if of.Declared == nil {
		return nil, nil
	}
	return pods(ctx, of.Part+PartJobs)
}

// Tell returns what is known of backups after what their pods said, and sets the condition BackupHealthy. Where none are declared
// there is neither.
func (of Cluster) Tell(known *backupv1.ClusterBackupStatus, pods []*corev1.Pod, c kinds.Conditions) *backupv1.ClusterBackupStatus {
	if of.Declared == nil {
		meta.RemoveStatusCondition(c.List, backupv1.ConditionBackupHealthy)
		return nil
	}
	next := ptr.Deref(known, backupv1.ClusterBackupStatus{})
	good, bad := Last(pods, of.Part)
	Take(&next.LastSuccessful, &next.LastID, good)
	overdue := Overdue(pods, of.Part, of.Declared.Schedule, next.LastSuccessful, c.Now.Time)
	Judge(next.LastSuccessful, next.LastID, bad, overdue).Set(c, backupv1.ConditionBackupHealthy)
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
