// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package dataservice

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/engine"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/kinds/dataservice/backups"
	"d3os.com/d3os-operator/internal/kinds/dataservice/component"
	"d3os.com/d3os-operator/internal/kinds/dataservice/guard"
)

// World is what is observed beside the components: the pods that look after backups. Nothing is asked of what runs.
type World struct {
	Backups backups.Observed
	// IsOtherRunning reports whether there is a pod of a database that has another name, for which the new one waits.
	IsOtherRunning bool
}

// backupsSeen is how soon the operator looks again while the latest moments cannot be restored: what the archive says at its
// end, and that it works on, is no event.
const backupsSeen = 15 * time.Second

// Observe reads the pods of backups, from the cache.
func (k *Kind) Observe(ctx context.Context, ds *dsv1.DataService, _ engine.Seen, pods kinds.Pods) (World, error) {
	w := World{}
	if err := k.others(ctx, ds, pods, &w); err != nil {
		return w, err
	}
	if ds.Spec.MySQL == nil || ds.Spec.MySQL.Backup == nil {
		return w, nil
	}
	name := string(component.MySQL)
	w.Backups = backups.Observed{Declared: ds.Spec.MySQL.Backup, Component: name, IsStopped: ptr.Deref(ds.Spec.MySQL.Replica, 1) == 0}
	var err error
	if w.Backups.Jobs, err = pods(ctx, name+backups.PartJobs); err != nil {
		return w, err
	}
	if w.Backups.Declared.PointInTime != nil {
		w.Backups.Archive, err = pods(ctx, name+backups.PartArchive)
	}
	return w, err
}

// others looks for pods of a database of another name than the spec's.
func (k *Kind) others(ctx context.Context, ds *dsv1.DataService, pods kinds.Pods, w *World) error {
	graph, err := k.planner.Graph(ds)
	if err != nil {
		return err
	}
	c := graph.Get(component.MySQL)
	if c == nil || c.Kind != component.StatefulSet && c.Kind != component.Deployment {
		return nil
	}
	found, err := pods(ctx, string(component.MySQL))
	w.IsOtherRunning = slices.ContainsFunc(found, func(pod *corev1.Pod) bool { return guard.IsOther(c.ObjectName, pod) })
	return err
}
