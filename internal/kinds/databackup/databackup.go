// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package databackup is the kind DataBackup: one backup on demand. The resource
// whose data it is declares a CronJob for its backups; a DataBackup makes one
// Job of that CronJob's template, follows it, and reads what its pod says at the
// end. The store is the truth: this is the record of how a backup was made.
package databackup

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/day2"
	"d3os.com/d3os-operator/internal/engine"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/kinds/agentjob"
	"d3os.com/d3os-operator/internal/object"
)

// The operator makes Jobs and reads them. It deletes none: they go with their DataBackup, by their owner reference.
// +kubebuilder:rbac:groups=d3os-product.com.d3os,resources=databackups,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=d3os-product.com.d3os,resources=databackups/status,verbs=patch
// +kubebuilder:rbac:groups=d3os-product.com.d3os,resources=databackups/finalizers,verbs=update
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create

const (
	// whileRunning is how often a Job that is at work is looked at, though its events come by themselves.
	whileRunning = 10 * time.Second
	// whilePending is how often what keeps a Job from being made is looked at, though events of the source come by themselves.
	whilePending = 10 * time.Second
	// StepCreateJob is the one step of a DataBackup.
	StepCreateJob = "CreateJob"
)

// Kind is the kind DataBackup.
type Kind struct {
	client client.Client
	jobs   agentjob.Reader
}

var (
	_ kinds.Kind[*backupv1.DataBackup, World] = &Kind{}
	_ kinds.Watcher                           = &Kind{}
)

// New returns the kind. The client is the operator's cached one; live reads from the API server.
func New(c client.Client, live client.Reader) *Kind {
	return &Kind{client: c, jobs: agentjob.Reader{Client: c, Live: live}}
}

// GVK is DataBackup of the API's version.
func (*Kind) GVK() schema.GroupVersionKind {
	return backupv1.GroupVersion.WithKind(backupv1.KindDataBackup)
}

// New returns an empty DataBackup.
func (*Kind) New() *backupv1.DataBackup { return &backupv1.DataBackup{} }

// Paused is never true: a DataBackup that should not be made is not created.
func (*Kind) Paused(*backupv1.DataBackup) bool { return false }

// Forget has nothing to do: nothing is remembered.
func (*Kind) Forget(string, string) {}

// Plan has no objects: a Job is made once, and never made again or put right.
func (*Kind) Plan(*backupv1.DataBackup, kinds.Inputs) (*engine.Plan, error) {
	return &engine.Plan{}, nil
}

// Watch makes events of Jobs those of their DataBackup, and those of a CronJob for backups those of all that wait for one.
func (k *Kind) Watch(b *builder.Builder) {
	b.Watches(object.Empty(object.JobKind), handler.EnqueueRequestsFromMapFunc(func(_ context.Context, job client.Object) []reconcile.Request {
		found := object.OwnerOf(k.GVK().GroupKind(), job)
		if found.Name == "" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: found}}
	}))
	b.Watches(object.Empty(object.CronJobKind), handler.EnqueueRequestsFromMapFunc(k.waiting))
}

// waiting returns the DataBackups that have no Job yet, beside a CronJob for backups.
func (k *Kind) waiting(ctx context.Context, cron client.Object) []reconcile.Request {
	if cron.GetLabels()[object.LabelBackup] == "" {
		return nil
	}
	list := &backupv1.DataBackupList{}
	if err := k.client.List(ctx, list, client.InNamespace(cron.GetNamespace())); err != nil {
		return nil // the timer brings the next pass
	}
	var found []reconcile.Request
	for i := range list.Items {
		if b := &list.Items[i]; b.Status.Job == "" && !isFinal(b.Status.Phase) {
			found = append(found, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(b)})
		}
	}
	return found
}

// Decide makes the Job where there is none, and looks again while it is at work.
func (k *Kind) Decide(b *backupv1.DataBackup, _ engine.Seen, w World) kinds.Decision {
	if isFinal(b.Status.Phase) {
		return kinds.Decision{}
	}
	verdict := judge(b, w)
	switch {
	case isFinal(verdict.Phase):
		return kinds.Decision{}
	case w.Job != nil:
		return kinds.Decision{LookAgain: whileRunning}
	case verdict.Reason != "":
		return kinds.Decision{LookAgain: whilePending}
	}
	return kinds.Decision{LookAgain: whileRunning, Steps: []day2.Step{{
		Name: StepCreateJob, Message: fmt.Sprintf("make Job %s from CronJob %s", b.Name, w.Source.Name),
		Do: func(ctx context.Context) error { return k.createJob(ctx, b, w.Source) },
	}}}
}

// createJob records the start of a backup and creates its Job. The next pass judges a Job that exists already.
func (k *Kind) createJob(ctx context.Context, b *backupv1.DataBackup, source *agentjob.Source) error {
	if err := agentjob.RecordStart(ctx, k.client, b); err != nil {
		return err
	}
	err := k.client.Create(ctx, jobOf(b, kinds.OwnerOf(k, b), source), client.FieldOwner(apply.FieldManager))
	switch {
	case apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%w: Job %s is there already", day2.ErrAgain, b.Name)
	case err != nil:
		return fmt.Errorf("make Job %s of CronJob %s: %w", b.Name, source.Name, err)
	}
	return nil
}

// isFinal reports whether a backup is made, or will not be.
func isFinal(phase backupv1.Phase) bool {
	return phase == backupv1.PhaseSucceeded || phase == backupv1.PhaseFailed
}
