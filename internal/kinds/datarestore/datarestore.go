// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package datarestore is the kind DataRestore: a backup that is restored to a volume of its own, beside the database that runs.
// The resource whose data it is declares a CronJob that restores; a DataRestore makes a claim, and one Job of that CronJob's
// template with that claim in the place of the database's. It never touches the database: who switches to the restored one is
// a person, who names it in the spec of the DataService.
package datarestore

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

// The operator makes Jobs and claims and reads them. It deletes neither: the Job goes with its DataRestore by its owner reference,
// and so does the claim of a rehearsal. Every other claim is a person's to delete.
// +kubebuilder:rbac:groups=d3os-product.com.d3os,resources=datarestores,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=d3os-product.com.d3os,resources=datarestores/status,verbs=patch
// +kubebuilder:rbac:groups=d3os-product.com.d3os,resources=datarestores/finalizers,verbs=update
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create

const (
	// whileRunning is how often a Job that is at work is looked at, though most of its events come by themselves.
	whileRunning = 10 * time.Second
	// whilePending is how often what keeps a restore from being begun is looked at.
	whilePending = 10 * time.Second
	// StepCreateClaim makes the volume of the restore.
	StepCreateClaim = "CreateClaim"
	// StepCreateJob makes the Job that restores to it.
	StepCreateJob = "CreateJob"
	// StepMarkClaim writes on the claim that the database on it is whole: the claim outlives the DataRestore.
	StepMarkClaim = "MarkClaim"
)

// Kind is the kind DataRestore.
type Kind struct {
	client client.Client
	live   client.Reader
	jobs   agentjob.Reader
}

var (
	_ kinds.Kind[*backupv1.DataRestore, World] = &Kind{}
	_ kinds.Watcher                            = &Kind{}
)

// New returns the kind. The client is the operator's cached one; live reads from the API server.
func New(c client.Client, live client.Reader) *Kind {
	return &Kind{client: c, live: live, jobs: agentjob.Reader{Client: c, Live: live}}
}

// GVK is DataRestore of the API's version.
func (*Kind) GVK() schema.GroupVersionKind {
	return backupv1.GroupVersion.WithKind(backupv1.KindDataRestore)
}

// New returns an empty DataRestore.
func (*Kind) New() *backupv1.DataRestore { return &backupv1.DataRestore{} }

// Paused is never true: a DataRestore that should not be made is not created.
func (*Kind) Paused(*backupv1.DataRestore) bool { return false }

// Forget has nothing to do: nothing is remembered.
func (*Kind) Forget(string, string) {}

// Plan has no objects: claim and Job are made once, and never made again or put right.
func (*Kind) Plan(*backupv1.DataRestore, kinds.Inputs) (*engine.Plan, error) {
	return &engine.Plan{}, nil
}

// Watch makes events of Jobs those of their DataRestore. What it waits for otherwise, the timer looks at.
func (k *Kind) Watch(b *builder.Builder) {
	b.Watches(object.Empty(object.JobKind), handler.EnqueueRequestsFromMapFunc(func(_ context.Context, job client.Object) []reconcile.Request {
		found := object.OwnerOf(k.GVK().GroupKind(), job)
		if found.Name == "" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: found}}
	}))
}

// Decide makes the claim and then the Job, each where there is none yet, and looks again while that is at work.
func (k *Kind) Decide(r *backupv1.DataRestore, _ engine.Seen, w World) kinds.Decision {
	if isFinal(r.Status.Phase) {
		return kinds.Decision{}
	}
	verdict := judge(r, w)
	switch {
	case isFinal(verdict.Phase):
		return kinds.Decision{}
	case isMarkDue(r, w):
		return kinds.Decision{LookAgain: time.Second, Steps: []day2.Step{{
			Name: StepMarkClaim, Message: "write on claim " + w.Claim.Name + " that its database is whole",
			Do: func(ctx context.Context) error { return k.mark(ctx, w) },
		}}}
	case w.Job != nil:
		return kinds.Decision{LookAgain: whileRunning}
	case verdict.Reason != "":
		return kinds.Decision{LookAgain: whilePending}
	}
	job := day2.Step{
		Name: StepCreateJob, Message: fmt.Sprintf("make Job %s from CronJob %s", jobName(r), w.Source.Name),
		Do: func(ctx context.Context) error {
			return k.create(ctx, r, jobOf(r, kinds.OwnerOf(k, r), w.Source))
		},
	}
	if w.Claim != nil {
		return kinds.Decision{LookAgain: whileRunning, Steps: []day2.Step{job}}
	}
	return kinds.Decision{LookAgain: whileRunning, Steps: []day2.Step{{
		Name: StepCreateClaim, Message: "make claim " + claimName(r),
		Do: func(ctx context.Context) error {
			return k.create(ctx, r, claimOf(r, kinds.OwnerOf(k, r), w.Model, w.Source))
		},
	}, job}}
}

// create records the start of a restore and creates an object. The next pass judges an object that exists already.
func (k *Kind) create(ctx context.Context, r *backupv1.DataRestore, o client.Object) error {
	if err := agentjob.RecordStart(ctx, k.client, r); err != nil {
		return err
	}
	what := fmt.Sprintf("%s %s", o.GetObjectKind().GroupVersionKind().Kind, o.GetName())
	err := k.client.Create(ctx, o, client.FieldOwner(apply.FieldManager))
	switch {
	case apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%w: %s is there already", day2.ErrAgain, what)
	case err != nil:
		return fmt.Errorf("make %s: %w", what, err)
	}
	return nil
}

// mark writes on the claim of a restore to which moment it has the database. The claim is the one that was observed.
func (k *Kind) mark(ctx context.Context, w World) error {
	claim := w.Claim.DeepCopy()
	claim.Annotations[object.AnnotationRestoredTo] = orUnknown(restoredTo(w.Job.Result))
	err := k.client.Patch(ctx, claim, client.MergeFromWithOptions(w.Claim, client.MergeFromWithOptimisticLock{}), client.FieldOwner(apply.FieldManager))
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return fmt.Errorf("%w: claim %s has changed", day2.ErrAgain, claim.Name)
	case err != nil:
		return fmt.Errorf("mark claim %s: %w", claim.Name, err)
	}
	return nil
}

// isFinal reports whether a database is restored, or will not be.
func isFinal(phase backupv1.Phase) bool {
	return phase == backupv1.PhasePrepared || phase == backupv1.PhaseFailed
}
