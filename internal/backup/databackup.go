// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

// The operator creates and reads Jobs. It deletes no Job: Kubernetes deletes a Job with its DataBackup, by the owner reference.
// +kubebuilder:rbac:groups=d3os-product.com.d3os,resources=databackups,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=d3os-product.com.d3os,resources=databackups/status,verbs=patch
// +kubebuilder:rbac:groups=d3os-product.com.d3os,resources=databackups/finalizers,verbs=update
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create

const (
	// whileRunning is the interval between observations of a running Job. Some changes of its pods trigger no event.
	whileRunning = 10 * time.Second
	// whilePending is the interval between observations while an object blocks the creation of a Job. Events of the
	// CronJob also trigger a pass.
	whilePending = 5 * time.Second
	// StepCreateJob creates the Job of a DataBackup or a DataRestore.
	StepCreateJob = "CreateJob"
)

// DataBackups implements the kind DataBackup.
type DataBackups struct {
	oneRun[*backupv1.DataBackup, DataBackupObservation]

	client client.Client
	jobs   Reader
}

var (
	_ reconcile.Kind[*backupv1.DataBackup, DataBackupObservation] = &DataBackups{}
	_ reconcile.Watcher                                           = &DataBackups{}
)

// NewDataBackups returns the kind. c reads from the operator's cache; live reads from the API server.
func NewDataBackups(c client.Client, live client.Reader) *DataBackups {
	return &DataBackups{client: c, jobs: Reader{Client: c, Live: live}}
}

// GVK returns the group, version and kind of DataBackup.
func (*DataBackups) GVK() schema.GroupVersionKind {
	return backupv1.GroupVersion.WithKind(backupv1.KindDataBackup)
}

// New returns an empty DataBackup.
func (*DataBackups) New() *backupv1.DataBackup { return &backupv1.DataBackup{} }

// Watch maps events of Jobs to their DataBackup, and events of a CronJob for backups to all DataBackups that wait for it.
func (k *DataBackups) Watch(b *builder.Builder) {
	watchJobs(b, k.GVK().GroupKind())
	b.Watches(object.Empty(object.CronJobKind), handler.EnqueueRequestsFromMapFunc(k.waiting))
}

// waiting returns the DataBackups without a Job in the namespace of a CronJob.
func (k *DataBackups) waiting(ctx context.Context, cron client.Object) []ctrl.Request {
	if cron.GetLabels()[object.LabelBackup] == "" {
		return nil
	}
	list := &backupv1.DataBackupList{}
	if err := k.client.List(ctx, list, client.InNamespace(cron.GetNamespace())); err != nil {
		return nil // a later pass retries
	}
	var found []ctrl.Request
	for i := range list.Items {
		if b := &list.Items[i]; b.Status.Job == "" && !isFinalBackup(b.Status.Phase) {
			found = append(found, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(b)})
		}
	}
	return found
}

// Decide returns the step that creates the Job, if the Job is missing. While the Job runs, it requests another pass.
func (k *DataBackups) Decide(b *backupv1.DataBackup, _ reconcile.PlanSeen, obs *DataBackupObservation) reconcile.Decision {
	if isFinalBackup(b.Status.Phase) {
		return reconcile.Decision{}
	}
	verdict := judgeBackup(b, *obs)
	switch {
	case isFinalBackup(verdict.Phase):
		return reconcile.Decision{}
	case obs.Job != nil:
		return reconcile.Decision{LookAgain: obs.Job.LookAgain(whileRunning)}
	case verdict.Reason != "":
		return reconcile.Decision{LookAgain: whilePending}
	}
	return reconcile.Decision{LookAgain: whileRunning, Steps: []reconcile.Step{{
		Name: StepCreateJob, Message: fmt.Sprintf("make Job %s from CronJob %s", b.Name, obs.Source.Name),
		Do: func(ctx context.Context) error { return k.createJob(ctx, b, obs.Source) },
	}}}
}

// createJob records the start of a backup and creates its Job. If a Job of that name exists, the next pass judges it.
func (k *DataBackups) createJob(ctx context.Context, b *backupv1.DataBackup, source *Source) error {
	if err := RecordStart(ctx, k.client, b); err != nil {
		return err
	}
	err := k.client.Create(ctx, backupJob(b, reconcile.OwnerOf(k, b), source), client.FieldOwner(apply.FieldManager))
	switch {
	case apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%w: Job %s already exists", reconcile.ErrAgain, b.Name)
	case err != nil:
		return fmt.Errorf("make Job %s of CronJob %s: %w", b.Name, source.Name, err)
	}
	return nil
}

// isFinalBackup reports whether a backup has succeeded or failed.
func isFinalBackup(phase backupv1.Phase) bool {
	return phase == backupv1.PhaseSucceeded || phase == backupv1.PhaseFailed
}
