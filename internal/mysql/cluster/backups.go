// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	mysqlv1 "d3os.com/d3os-operator/api/mysql/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/backup"
	"d3os.com/d3os-operator/internal/mysql"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

// backupsSeen is the observation of the backups and the archive of a database.
type backupsSeen struct {
	backup.Seen

	archive []*corev1.Pod
	// afterGap is the Job to create because the archive has a gap; nil for none.
	afterGap *batchv1.Job
	// first is the Job to create because a single server has become several members, which have no backup yet; nil for none.
	first *batchv1.Job
}

// backupsOf returns the backup.Cluster of a database.
func backupsOf(mc *mysqlv1.MySQLCluster) backup.Cluster {
	if mc.Spec.Backup == nil {
		return backup.Cluster{Part: part}
	}
	return backup.Cluster{Declared: &mc.Spec.Backup.ClusterBackup, Part: part, IsParked: replicasOf(&mc.Spec) == 0}
}

// seeBackups reads the pods and Jobs of backups and of the archive from the cache.
func (k *Kind) seeBackups(ctx context.Context, mc *mysqlv1.MySQLCluster, pods reconcile.Pods) (seen backupsSeen, err error) {
	owner := reconcile.OwnerOf(k, mc)
	if seen.Seen, err = backupsOf(mc).See(ctx, pods, k.jobs, owner); err != nil || mc.Spec.Backup == nil {
		return seen, err
	}
	of := backup.Of{Kind: k.GVK(), Namespace: mc.Namespace, Name: mc.Name}
	if wasOneServer(mc) && replicasOf(&mc.Spec) > 0 && (mc.Status.Backup == nil || mc.Status.Backup.LastSuccessful == nil) {
		if seen.first, err = mysql.FirstJob(ctx, k.client, of, part); err != nil {
			return seen, err
		}
	}
	if mc.Spec.Backup.PointInTime == nil {
		return seen, nil
	}
	if seen.archive, err = pods(ctx, part+mysql.PartArchive); err != nil {
		return seen, err
	}
	seen.afterGap, err = mysql.JobAfterGap(ctx, k.client, of, part, observed(mc, seen).Gap())
	return seen, err
}

// wasOneServer reports whether a database was created from the data of a DataService's single server.
func wasOneServer(mc *mysqlv1.MySQLCluster) bool { return mc.Annotations[object.AnnotationAdopt] != "" }

// observed converts the observation to the type for the backups of a DataService, so that the same rules judge both.
func observed(mc *mysqlv1.MySQLCluster, seen backupsSeen) mysql.Observed {
	b := mc.Spec.Backup
	declared := &dsv1.Backup{Schedule: b.Schedule, TimeZone: b.TimeZone}
	if b.PointInTime != nil {
		declared.PointInTime = &dsv1.PointInTime{Interval: b.PointInTime.Interval}
	}
	if b.Verify != nil {
		declared.Verify = &dsv1.BackupVerify{Schedule: b.Verify.Schedule}
	}
	return mysql.Observed{
		Declared: declared, Component: part, IsStopped: replicasOf(&mc.Spec) == 0, Jobs: seen.Pods, Archive: seen.archive, Unfinished: seen.Jobs,
	}
}

// reportBackups returns the next status of backups. It sets the conditions BackupHealthy and Recoverable, or removes them.
func (v *view) reportBackups(known *mysqlv1.BackupStatus, c reconcile.Conditions) *mysqlv1.BackupStatus {
	before := ptr.Deref(known, mysqlv1.BackupStatus{})
	if b := v.mc.Spec.Backup; b == nil || b.Verify == nil && b.PointInTime == nil {
		next := backupsOf(v.mc).Report(&before.ClusterBackupStatus, v.observed.backups.Seen, c)
		(*backup.Verdict)(nil).Set(c, mysqlv1.ConditionRecoverable)
		if next == nil {
			return nil
		}
		before.ClusterBackupStatus = *next
		before.Since = v.since(&before)
		return &before
	}
	next, healthy, recoverable := mysql.JudgeBackups(&dsv1.BackupStatus{
		LastSuccessful: before.LastSuccessful, LastID: before.LastID, Warnings: before.Warnings, LastVerified: before.LastVerified, VerifiedID: before.VerifiedID,
	}, observed(v.mc, v.observed.backups), c.Now.Time)
	result := &mysqlv1.BackupStatus{
		ClusterBackupStatus: backupv1.ClusterBackupStatus{LastSuccessful: next.LastSuccessful, LastID: next.LastID, Warnings: next.Warnings},
		LastVerified:        next.LastVerified, VerifiedID: next.VerifiedID, Since: before.Since,
	}
	result.Since = v.since(result)
	if recoverable != nil && recoverable.Good && result.Since != nil {
		recoverable.Message += fmt.Sprintf("; points in time before %s are in the backups of the former single server", result.Since.UTC().Format(time.RFC3339))
	}
	healthy.Set(c, backupv1.ConditionBackupHealthy)
	recoverable.Set(c, mysqlv1.ConditionRecoverable)
	return result
}

// since returns the time of the first backup after a single server has become several members; nil for none.
func (v *view) since(s *mysqlv1.BackupStatus) *metav1.Time {
	if s.Since != nil || !wasOneServer(v.mc) {
		return s.Since
	}
	return s.LastSuccessful
}
