// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

// The operator creates and reads Jobs and claims. It deletes none of them: Kubernetes deletes the Job, and the claim of a rehearsal, with
// the DataRestore, by their owner references. Only a user deletes any other claim.
// +kubebuilder:rbac:groups=d3os-product.com.d3os,resources=datarestores,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=d3os-product.com.d3os,resources=datarestores/status,verbs=patch
// +kubebuilder:rbac:groups=d3os-product.com.d3os,resources=datarestores/finalizers,verbs=update
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create

const (
	// StepCreateClaim creates the claim of the restore.
	StepCreateClaim = "CreateClaim"
	// StepMarkClaim annotates the claim when its database is complete. The claim outlives the DataRestore.
	StepMarkClaim = "MarkClaim"
)

// DataRestores implements the kind DataRestore.
type DataRestores struct {
	oneRun[*backupv1.DataRestore, DataRestoreObservation]

	client client.Client
	live   client.Reader
	jobs   Reader
}

var (
	_ reconcile.Kind[*backupv1.DataRestore, DataRestoreObservation] = &DataRestores{}
	_ reconcile.Watcher                                             = &DataRestores{}
)

// NewDataRestores returns the kind. c reads from the operator's cache; live reads from the API server.
func NewDataRestores(c client.Client, live client.Reader) *DataRestores {
	return &DataRestores{client: c, live: live, jobs: Reader{Client: c, Live: live}}
}

// GVK returns the group, version and kind of DataRestore.
func (*DataRestores) GVK() schema.GroupVersionKind {
	return backupv1.GroupVersion.WithKind(backupv1.KindDataRestore)
}

// New returns an empty DataRestore.
func (*DataRestores) New() *backupv1.DataRestore { return &backupv1.DataRestore{} }

// Watch maps events of Jobs to their DataRestore. All other inputs are read at an interval.
func (k *DataRestores) Watch(b *builder.Builder) {
	watchJobs(b, k.GVK().GroupKind())
}

// Decide returns the steps that create the claim, and then the Job, if they are missing. While the Job runs, it
// requests another pass.
func (k *DataRestores) Decide(r *backupv1.DataRestore, _ reconcile.PlanSeen, obs *DataRestoreObservation) reconcile.Decision {
	if isFinalRestore(r.Status.Phase) {
		return reconcile.Decision{}
	}
	verdict := judgeRestore(r, *obs)
	switch {
	case isFinalRestore(verdict.Phase):
		return reconcile.Decision{}
	case isMarkDue(r, *obs):
		return reconcile.Decision{LookAgain: time.Second, Steps: []reconcile.Step{{
			Name: StepMarkClaim, Message: "mark claim " + obs.Claim.Name + ": its database is complete",
			Do: func(ctx context.Context) error { return k.mark(ctx, *obs) },
		}}}
	case obs.Job != nil:
		return reconcile.Decision{LookAgain: obs.Job.LookAgain(whileRunning)}
	case verdict.Reason != "":
		return reconcile.Decision{LookAgain: whilePending}
	}
	job := reconcile.Step{
		Name: StepCreateJob, Message: fmt.Sprintf("make Job %s from CronJob %s", jobName(r), obs.Source.Name),
		Do: func(ctx context.Context) error {
			return k.create(ctx, r, restoreJob(r, reconcile.OwnerOf(k, r), obs.Source))
		},
	}
	if obs.Claim != nil {
		return reconcile.Decision{LookAgain: whileRunning, Steps: []reconcile.Step{job}}
	}
	return reconcile.Decision{LookAgain: whileRunning, Steps: []reconcile.Step{{
		Name: StepCreateClaim, Message: "make claim " + claimName(r),
		Do: func(ctx context.Context) error {
			return k.create(ctx, r, claimOf(r, reconcile.OwnerOf(k, r), obs.Model, obs.Source))
		},
	}, job}}
}

// create records the start of a restore and creates an object. If an object of that name exists, the next pass judges it.
func (k *DataRestores) create(ctx context.Context, r *backupv1.DataRestore, o client.Object) error {
	if err := RecordStart(ctx, k.client, r); err != nil {
		return err
	}
	what := fmt.Sprintf("%s %s", o.GetObjectKind().GroupVersionKind().Kind, o.GetName())
	err := k.client.Create(ctx, o, client.FieldOwner(apply.FieldManager))
	switch {
	case apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%w: %s already exists", reconcile.ErrAgain, what)
	case err != nil:
		return fmt.Errorf("make %s: %w", what, err)
	}
	return nil
}

// mark annotates the observed claim with the point in time to which its database was restored.
func (k *DataRestores) mark(ctx context.Context, obs DataRestoreObservation) error {
	claim := obs.Claim.DeepCopy()
	claim.Annotations[object.AnnotationRestoredTo] = orUnknown(restoredTo(obs.Job.Result))
	err := k.client.Patch(ctx, claim, client.MergeFromWithOptions(obs.Claim, client.MergeFromWithOptimisticLock{}), client.FieldOwner(apply.FieldManager))
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return fmt.Errorf("%w: claim %s has changed", reconcile.ErrAgain, claim.Name)
	case err != nil:
		return fmt.Errorf("mark claim %s: %w", claim.Name, err)
	}
	return nil
}

// isFinalRestore reports whether a restore has succeeded or failed.
func isFinalRestore(phase backupv1.Phase) bool {
	return phase == backupv1.PhasePrepared || phase == backupv1.PhaseFailed
}
