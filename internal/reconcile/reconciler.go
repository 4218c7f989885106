// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/metrics"
)

// reportAfter limits the time for reporting a failed reconciliation. The report has a separate time limit, because the
// context of the reconciliation may have expired.
const reportAfter = 10 * time.Second

// Reconciler makes the cluster follow the resources of one kind.
type Reconciler[T client.Object, O any] struct {
	kind     Kind[T, O]
	client   client.Client
	engine   *Engine
	runner   *Runner
	reporter *reporter[T, O]
	failures *failures
	// retryRefused is the wait before the next try after an admission webhook or policy refused an object. It is
	// needed because the policy may change without an event.
	retryRefused time.Duration
	gate         *Gate // nil for no limit
	// leaving holds the names of resources in namespaces that are being deleted. The deletion of a namespace cannot be undone, so these
	// resources are not reconciled any more.
	leaving sync.Map // types.NamespacedName -> types.UID
	parts   Parts

	controller controller.Controller
}

// Parts contains the clients and settings that reconcilers of all kinds share.
type Parts struct {
	// Client is cached with read-your-writes consistency for every kind in object.Kinds, for pods and
	// for the resources themselves.
	Client   client.Client
	Engine   *Engine
	Lease    Lease
	Recorder events.EventRecorder
	// RetryRefused is the wait before the next try after an admission webhook or policy refused an object.
	// Default: a minute.
	RetryRefused time.Duration
	// Live reads and writes objects that the cache does not contain.
	Live client.Client
	// Version is the version of the operator.
	Version string
	// MaxRollouts limits the number of resources of a kind that the operator itself changes at the same time. 0 means no limit.
	MaxRollouts int
	Heavy       *Heavy
}

// NewReconciler returns a Reconciler of one kind.
func NewReconciler[T client.Object, O any](kind Kind[T, O], series *metrics.Series, parts Parts) *Reconciler[T, O] {
	var gate *Gate
	if parts.MaxRollouts > 0 {
		gate = NewGate(parts.MaxRollouts)
	}
	return &Reconciler[T, O]{
		gate: gate, kind: kind, client: parts.Client, engine: parts.Engine, runner: NewRunner(parts.Lease), failures: newFailures(), parts: parts,
		reporter: newReporter(kind, parts.Client, parts.Recorder, series), retryRefused: cmp.Or(parts.RetryRefused, retryRefused),
	}
}

// Reconcile does one pass over one resource. The steps:
//
//  1. Read the resource. If it was deleted, drop its cached data.
//  2. Wait for a turn if the spec is large (heavy.go).
//  3. Plan: the kind renders all objects (Kind.Plan). A wrong spec ends the pass here, before the first write. If servers
//     run, the pass continues with step 7 (Maintainer).
//  4. Ask for a turn if the operator, not the user, changes running pods (pace.go, gate.go).
//  5. Apply the plan: Secrets and records, then parts in waves, then prune (engine.go, part.go, prune.go).
//  6. Keep the spec in the history if it was accepted (history.go).
//  7. Observe the running system (Kind.Observe).
//  8. Decide the next steps (Kind.Decide).
//  9. Write the status if a user would see a difference, with the next step in it (report.go).
//  10. Take the first step and the first note, while this replica holds the lease (step.go).
//  11. Return the time of the next pass; a watch event may start it earlier.
//
// Steps 2 to 8 are in pass.go. A failure of any of them is reported in the status (failed).
func (r *Reconciler[T, O]) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	resource := r.kind.New()
	if err := r.client.Get(ctx, request.NamespacedName, resource); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(request.NamespacedName)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, err
	}
	seen, err := r.protected(ctx, resource)
	if errors.Is(err, errBusy) {
		return ctrl.Result{RequeueAfter: r.parts.Heavy.again()}, nil
	}
	if IsNamespaceEnding(err) {
		r.leaving.Store(request.NamespacedName, resource.GetUID())
		seen, err = Seen[O]{Generation: resource.GetGeneration(), Paused: seen.Paused, Deleting: true}, nil
	}
	if errors.Is(err, ErrOwnerGone) {
		return ctrl.Result{}, nil // the event of the owner's deletion will follow
	}
	if err != nil {
		return r.failed(ctx, resource, seen, err)
	}
	return r.step(ctx, resource, seen)
}

// step takes the first decided step, after the status has named it. While steps of a resource fail, the status is written after the step,
// when the result is known. Otherwise the status would alternate between the running step and its failure.
func (r *Reconciler[T, O]) step(ctx context.Context, resource T, seen Seen[O]) (result ctrl.Result, err error) {
	key := client.ObjectKeyFromObject(resource)
	failing := r.failures.has(key)
	if !failing {
		if resource, result, err = r.reporter.report(ctx, resource, seen); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
	}
	err = r.runner.Run(ctx, seen.Decision.Steps)
	if noteErr := r.runner.Run(ctx, seen.Decision.Notes); err == nil {
		err = noteErr
	}
	if err != nil {
		r.failures.begin(key)
		return r.failed(ctx, resource, seen, &stepError{reason: ReasonStepFailed, err: err})
	}
	r.failures.forget(key)
	if failing {
		if _, result, err = r.reporter.report(ctx, resource, seen); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
	}
	for i := range seen.Parts {
		result = sooner(result, seen.Parts[i].LookAgain)
	}
	if seen.Pace != nil && !seen.Pace.Granted {
		result = sooner(result, askAgain)
	}
	return sooner(result, seen.Decision.LookAgain), nil
}

// sooner returns a result that requeues after the given time at the latest; 0 means no limit.
func sooner(result ctrl.Result, after time.Duration) ctrl.Result {
	if after > 0 && (result.RequeueAfter == 0 || after < result.RequeueAfter) {
		result.RequeueAfter = after
	}
	return result
}

// failed reports why a resource cannot be reconciled, and returns the time of the next try. A failure that is likely to pass by itself,
// such as a conflict with another writer, is first retried, and reported only if it lasts.
func (r *Reconciler[T, O]) failed(ctx context.Context, resource T, seen Seen[O], err error) (ctrl.Result, error) {
	failed := classify(err, r.retryRefused)
	key := client.ObjectKeyFromObject(resource)
	if failed.transient && !r.failures.lasts(key) {
		return ctrl.Result{}, err // retried with back-off
	}
	seen.Failure = &Failure{Reason: failed.reason, Message: health.Refusal(failed.Error()), Stalled: failed.stalled}
	if part := (*PartError)(nil); errors.As(err, &part) {
		seen.Failure.Part = part.Part
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportAfter)
	defer cancel()
	_, _, reportErr := r.reporter.report(ctx, resource, seen)
	switch {
	case client.IgnoreNotFound(reportErr) != nil:
		return ctrl.Result{}, errors.Join(err, reportErr)
	case reportErr != nil, failed.final:
		return ctrl.Result{}, nil
	case failed.retryAfter > 0:
		return ctrl.Result{RequeueAfter: failed.retryAfter}, nil
	default:
		return ctrl.Result{}, err
	}
}

func (r *Reconciler[T, O]) forget(key types.NamespacedName) {
	r.kind.Forget(key.Namespace, key.Name)
	if r.gate != nil {
		r.gate.Forget(key)
	}
	r.parts.Heavy.forget(r.kind.GVK().Kind, key)
	r.reporter.forget(key)
	r.failures.forget(key)
	r.leaving.Delete(key)
}

// isDeleting reports whether a resource or its namespace is being deleted. In both cases, Kubernetes deletes the resource's objects.
func (r *Reconciler[T, O]) isDeleting(resource T) bool {
	uid, leaving := r.leaving.Load(client.ObjectKeyFromObject(resource))
	return resource.GetDeletionTimestamp() != nil || leaving && uid == resource.GetUID()
}
