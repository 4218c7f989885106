// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package databackup

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	"d3os.com/d3os-operator/internal/engine"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/kinds/agentjob"
)

// World is what is observed of a backup: plain data.
type World struct {
	// Source is the CronJob for the backups of the data; nil where there is none, and Problem says why.
	Source  *agentjob.Source
	Problem string
	// Job is the backup's; nil where there is none.
	Job *agentjob.Job
	// Conflict is whose the Job of that name is, where it is not the backup's.
	Conflict string
}

// Observe looks at the Job of a backup, and at what it is to be made from. A backup that has ended is not looked at.
func (k *Kind) Observe(ctx context.Context, b *backupv1.DataBackup, _ engine.Seen, _ kinds.Pods) (World, error) {
	var w World
	if isFinal(b.Status.Phase) {
		return w, nil
	}
	job, err := k.jobs.Get(ctx, client.ObjectKeyFromObject(b))
	if err != nil {
		return w, err
	}
	if job != nil {
		if !kinds.OwnerOf(k, b).Controls(job) {
			w.Conflict = agentjob.ControllerOf(job)
			return w, nil
		}
		w.Job, err = k.jobs.Follow(ctx, job)
		return w, err
	}
	of := b.Spec.Of
	if w.Source, err = k.jobs.Source(ctx, agentjob.Of{Kind: backupv1.GroupVersion.WithKind(of.Kind), Namespace: b.Namespace, Name: of.Name}, of.Component); w.Source == nil {
		w.Problem = fmt.Sprintf("%s %s of this namespace has no backup of %s: declare spec.%s.backup in it, or correct spec.of",
			of.Kind, of.Name, of.Component, of.Component)
	}
	return w, err
}
