// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package dataservice

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/engine"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/kinds/dataservice/backups"
	"d3os.com/d3os-operator/internal/kinds/dataservice/component"
	"d3os.com/d3os-operator/internal/kinds/runs"
)

// World is what is observed beside the components: the pods that look after backups. Nothing is asked of what runs.
type World struct {
	Backups backups.Observed
	// Databases is which database is in use; nil where none runs in the cluster.
	Databases *Databases
	// AfterGap is the Job that has to be made, because the binary log has a gap; nil for none.
	AfterGap *batchv1.Job
}

// backupsSeen is how soon the operator looks again while the latest moments cannot be restored: what the archive says at its
// end, and that it works on, is no event.
const backupsSeen = 15 * time.Second

// backupsDue is how soon the operator looks again whether a backup is overdue, cannot start, or is kept from ending: none of these is
// an event.
const backupsDue = 30 * time.Second

// Observe reads the pods of backups, from the cache.
func (k *Kind) Observe(ctx context.Context, ds *dsv1.DataService, seen engine.Seen, pods kinds.Pods) (World, error) {
	w := World{}
	w.Databases, _ = seen.Found.(*Databases)
	if ds.Spec.MySQL == nil || ds.Spec.MySQL.Backup == nil {
		return w, nil
	}
	name := string(component.MySQL)
	w.Backups = backups.Observed{Declared: ds.Spec.MySQL.Backup, Component: name, IsStopped: ptr.Deref(ds.Spec.MySQL.Replica, 1) == 0}
	var err error
	if w.Backups.Jobs, err = pods(ctx, name+runs.PartJobs); err != nil {
		return w, err
	}
	if w.Backups.Unfinished, err = k.jobs.Unfinished(ctx, ds.Namespace, ds.Name, name); err != nil {
		return w, err
	}
	if w.Backups.Declared.PointInTime != nil {
		if w.Backups.Archive, err = pods(ctx, name+backups.PartArchive); err != nil {
			return w, err
		}
		w.AfterGap, err = k.jobAfterGap(ctx, ds, w.Backups.Gap())
	}
	return w, err
}
