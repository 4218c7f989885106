// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controller reconciles resources of any kind. It is the place where
// the parts meet: the kind plans, the engine carries out, the kind observes
// and decides, one step is taken, the status is written. It never blocks: it
// applies what may be applied now, writes what holds back the rest into the
// status, and returns. A watch event or a timer triggers the next pass.
package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"d3os.com/d3os-operator/internal/day2"
	"d3os.com/d3os-operator/internal/engine"
	"d3os.com/d3os-operator/internal/fleet"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/metrics"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/workers"
)

// reportAfter is how long a failed pass has in which to rest and be reported: its own context may
// have run out of time, and that is what has to be said.
const reportAfter = 10 * time.Second

// Reconciler makes the cluster follow the resources of one kind.
type Reconciler[T client.Object, W any] struct {
	kind     kinds.Kind[T, W]
	client   client.Client
	engine   *engine.Engine
	runner   *day2.Runner
	reporter *reporter[T, W]
	failures *failures
	// retryRefused is how long a spec that an admission webhook or policy refused waits for its next
	// try: the policy may change without an event.
	retryRefused time.Duration
	gate         *fleet.Gate // nil for no limit
	// leaving holds the resources, by their names, whose namespace is being deleted. There is no
	// way back from that, so nothing is tried for them any more.
	leaving sync.Map // types.NamespacedName -> types.UID
	parts   Parts
	heavy   *heavy

	controller controller.Controller
}

// Parts are what reconcilers of all kinds share.
type Parts struct {
	// Client is cached with read-your-writes consistency for every kind in object.Kinds, for pods and
	// for the resources themselves.
	Client   client.Client
	Engine   *engine.Engine
	Lease    day2.Lease
	Recorder events.EventRecorder
	// RetryRefused is how long a spec that an admission webhook or policy refused waits for its next
	// try. Default: a minute.
	RetryRefused time.Duration
	// Live reads and writes what the cache does not hold.
	Live client.Client
	// Version is that of the operator.
	Version string
	// MaxRollouts bounds how many resources of a kind the operator changes on its own account at once. 0 for no limit.
	MaxRollouts int
}

// New returns a Reconciler of one kind.
func New[T client.Object, W any](kind kinds.Kind[T, W], series *metrics.Series, parts Parts) *Reconciler[T, W] {
	var gate *fleet.Gate
	if parts.MaxRollouts > 0 {
		gate = fleet.NewGate(parts.MaxRollouts)
	}
	return &Reconciler[T, W]{
		gate: gate, heavy: newHeavy(),
		kind: kind, client: parts.Client, engine: parts.Engine, runner: day2.NewRunner(parts.Lease), failures: newFailures(), parts: parts,
		reporter: newReporter(kind, parts.Client, parts.Recorder, series), retryRefused: cmp.Or(parts.RetryRefused, retryRefused),
	}
}

// Reconcile is one pass over one resource.
func (r *Reconciler[T, W]) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
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
		return ctrl.Result{RequeueAfter: r.heavy.again()}, nil
	}
	if engine.IsNamespaceEnding(err) {
		r.leaving.Store(request.NamespacedName, resource.GetUID())
		seen, err = kinds.Seen[W]{Generation: resource.GetGeneration(), Paused: seen.Paused, Deleting: true}, nil
	}
	if errors.Is(err, engine.ErrOwnerGone) {
		return ctrl.Result{}, nil // the event that it is gone is on its way
	}
	if err != nil {
		return r.failed(ctx, resource, seen, err)
	}
	return r.step(ctx, resource, seen)
}

// step takes the first step that was decided, after the status has named it. While a resource fails,
// the status is written after the step, which reports whether that is over: else it would say in turn
// that the step is being taken and that it failed.
func (r *Reconciler[T, W]) step(ctx context.Context, resource T, seen kinds.Seen[W]) (result ctrl.Result, err error) {
	key := client.ObjectKeyFromObject(resource)
	failing := r.failures.has(key)
	if !failing {
		if resource, result, err = r.reporter.report(ctx, resource, seen); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
	}
	if err := r.runner.Run(ctx, seen.Decision.Steps); err != nil {
		r.failures.begin(key)
		return r.failed(ctx, resource, seen, &stepError{reason: kinds.ReasonStepFailed, err: err})
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

// sooner returns a result that requeues after that time at the latest; 0 is no time.
func sooner(result ctrl.Result, after time.Duration) ctrl.Result {
	if after > 0 && (result.RequeueAfter == 0 || after < result.RequeueAfter) {
		result.RequeueAfter = after
	}
	return result
}

// failed reports why a resource cannot be carried out and says when to try again. What is likely to
// pass by itself, such as a conflict with another writer, is tried again first and reported when it
// lasts.
func (r *Reconciler[T, W]) failed(ctx context.Context, resource T, seen kinds.Seen[W], err error) (ctrl.Result, error) {
	failed := classify(err, r.retryRefused)
	key := client.ObjectKeyFromObject(resource)
	if failed.transient && !r.failures.lasts(key) {
		return ctrl.Result{}, err // retried with back-off
	}
	seen.Failure = &kinds.Failure{Reason: failed.reason, Message: health.Refusal(failed.Error()), Stalled: failed.stalled}
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

func (r *Reconciler[T, W]) forget(key types.NamespacedName) {
	r.kind.Forget(key.Namespace, key.Name)
	if r.gate != nil {
		r.gate.Forget(key)
	}
	r.heavy.forget(key)
	r.reporter.forget(key)
	r.failures.forget(key)
	r.leaving.Delete(key)
}

// isDeleting reports whether a resource goes, by itself or with its namespace. Owner references then
// take everything with them.
func (r *Reconciler[T, W]) isDeleting(resource T) bool {
	uid, leaving := r.leaving.Load(client.ObjectKeyFromObject(resource))
	return resource.GetDeletionTimestamp() != nil || leaving && uid == resource.GetUID()
}

// protected is a pass whose panic is an error: it is reported in the status of the resource, and other resources are not concerned.
func (r *Reconciler[T, W]) protected(ctx context.Context, resource T) (seen kinds.Seen[W], err error) {
	seen.Generation = resource.GetGeneration()
	err = workers.Protect(func() (err error) {
		seen, err = r.pass(ctx, resource)
		return err
	})
	var panicked *workers.PanicError
	if errors.As(err, &panicked) {
		ctrl.LoggerFrom(ctx).Error(err, "a pass panicked", "stack", string(panicked.Stack))
	}
	return seen, err
}

// plan calls the kind. A panic is a fault of the operator with this very spec: it is tried again each minute, as other inputs than the
// spec may have caused it.
func (r *Reconciler[T, W]) plan(ctx context.Context, resource T, owner object.Owner) (plan *engine.Plan, err error) {
	leave, err := r.heavy.enter(resource)
	if err != nil {
		return nil, err
	}
	defer leave()
	err = workers.Protect(func() (err error) {
		plan, err = r.kind.Plan(resource, r.inputs(ctx, owner))
		return err
	})
	var panicked *workers.PanicError
	if errors.As(err, &panicked) {
		err = fmt.Errorf("the operator cannot plan this spec, and nothing is changed: %w: take the last change of the spec back, and report this", err)
		return nil, &stepError{reason: kinds.ReasonRenderFailed, err: err, stalled: true, retryAfter: r.retryRefused}
	}
	return plan, err
}

// pass is the whole of a reconciliation but its report and its step. Everything is planned before
// anything is written, so that a resource that cannot be carried out changes nothing.
func (r *Reconciler[T, W]) pass(ctx context.Context, resource T) (kinds.Seen[W], error) {
	seen := kinds.Seen[W]{Generation: resource.GetGeneration(), Paused: r.kind.Paused(resource), Deleting: r.isDeleting(resource)}
	if seen.Deleting {
		return seen, nil
	}
	owner := kinds.OwnerOf(r.kind, resource)
	owned, err := r.engine.Owned(ctx, owner)
	if err != nil {
		return seen, err
	}
	plan, err := r.plan(ctx, resource, owner)
	if err != nil {
		return seen, err
	}
	if seen.Pace, err = r.pace(ctx, resource, plan); err != nil {
		return seen, err
	}
	before := r.kind.Summary(resource)
	seen.Seen, err = r.engine.Carry(ctx, engine.Order{
		Owner: owner, Plan: plan, Owned: owned, Paused: seen.Paused, Hold: seen.Pace != nil,
		WasReady: before.Ready && before.Generation == seen.Generation,
	}, r.reporter.teller(resource))
	if errors.Is(err, engine.ErrPlanAgain) {
		return r.pass(ctx, resource) // with what there is now
	}
	seen.Found = plan.Found
	if !engine.IsNamespaceEnding(err) {
		r.keep(ctx, resource, &seen)
	}
	if err != nil {
		return seen, err
	}
	pods := func(ctx context.Context, part string) ([]*corev1.Pod, error) { return r.engine.Pods(ctx, owner, part) }
	observed, err := r.kind.Observe(ctx, resource, seen.Seen, pods)
	if err != nil {
		return seen, &stepError{reason: kinds.ReasonObserveFailed, err: err}
	}
	seen.Observed = &observed
	if !seen.Paused {
		seen.Decision = r.kind.Decide(resource, seen.Seen, observed)
	}
	return seen, nil
}

func (r *Reconciler[T, W]) inputs(ctx context.Context, owner object.Owner) kinds.Inputs {
	return kinds.Inputs{
		Lookup: func(kind, name string) (*unstructured.Unstructured, error) {
			return r.engine.Lookup(ctx, owner, kind, name)
		},
		LookupLive: func(kind, name string) (*unstructured.Unstructured, error) {
			return r.engine.LookupLive(ctx, owner, kind, name)
		},
		List:       func(kind string) ([]*unstructured.Unstructured, error) { return r.engine.List(ctx, owner, kind) },
		Pods:       func(part string) ([]*corev1.Pod, error) { return r.engine.Pods(ctx, owner, part) },
		PodsLive:   func(part string) ([]*corev1.Pod, error) { return r.engine.PodsLive(ctx, owner, part) },
		Generation: func() (int64, error) { return r.engine.Generation(ctx, owner) },
	}
}
