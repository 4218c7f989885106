// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/backup"
	"d3os.com/d3os-operator/internal/mysql"
	"d3os.com/d3os-operator/internal/platform/component"
	"d3os.com/d3os-operator/internal/reconcile"
)

// Observation holds the state of databases, backups, restores and imports. It comes from objects and pods, and from the
// agent of an import. The operator does not query running servers.
type Observation struct {
	Backups mysql.Observed
	// Databases is the state of the databases; nil if none runs in the cluster.
	Databases *mysql.Databases
	// Members are the backups of several members; nil for a single server, or without backups.
	Members *mysql.Members
	// Restored is the observation of the restore that created the database.
	Restored backup.Restored
	// Import is the import of a running server; nil if there is none.
	Import *mysql.Import
	// Hibernation is the state of the hibernation; nil if spec.hibernate is not set.
	Hibernation *Hibernation
	// AfterGap is the backup Job to create because the binary log has a gap; nil if no such Job is needed.
	AfterGap *batchv1.Job
}

// backupsSeen is the delay until the next reconciliation while the database cannot be restored to the latest points in
// time. No event triggers a reconciliation when a backup pod reports a result or the archive progresses.
const backupsSeen = 15 * time.Second

// backupsDue is the delay until the next check whether a backup is overdue, cannot start, or cannot end. No event
// reports these states.
const backupsDue = 30 * time.Second

// Observe reads the states of backups, of the restore and of the import. Without a mysql it does nothing.
func (k *Kind) Observe(ctx context.Context, ds *dsv1.DataService, _ reconcile.PlanSeen, pods reconcile.Pods, obs *Observation) (err error) {
	if ds.Spec.MySQL == nil {
		return nil
	}
	name := string(component.MySQL)
	if ds.Spec.MySQL.ImportFrom != nil {
		own, err := pods(ctx, name)
		if err != nil {
			return err
		}
		if obs.Import, err = obs.Databases.SeeImport(ctx, own); err != nil {
			return err
		}
		if obs.Databases == nil || obs.Databases.IsLeaving { // the server that imported the data becomes, or has become, the first of several members
			obs.Import = &mysql.Import{Declared: ds.Spec.MySQL.ImportFrom, IsDone: true}
		}
	}
	if ds.Spec.MySQL.RestoreFrom != nil {
		obs.Restored.IsDeclared = true
		if obs.Restored.Pods, err = pods(ctx, name); err != nil {
			return err
		}
	}
	if ds.Spec.MySQL.Backup == nil || obs.Members != nil {
		return nil
	}
	obs.Backups = mysql.Observed{Declared: ds.Spec.MySQL.Backup, Component: name, IsStopped: ptr.Deref(ds.Spec.MySQL.Replica, 1) == 0 || obs.Hibernation.IsActive()}
	if obs.Backups.Jobs, err = pods(ctx, name+backup.PartJobs); err != nil {
		return err
	}
	if obs.Backups.Unfinished, err = k.jobs.Unfinished(ctx, ds.Namespace, ds.Name, name); err != nil {
		return err
	}
	if obs.Backups.Declared.PointInTime != nil {
		if obs.Backups.Archive, err = pods(ctx, name+mysql.PartArchive); err != nil {
			return err
		}
		obs.AfterGap, err = mysql.JobAfterGap(ctx, k.client, backup.Of{Kind: k.GVK(), Namespace: ds.Namespace, Name: ds.Name}, name, obs.Backups.Gap())
	}
	return err
}
