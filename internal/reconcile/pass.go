// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"

	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/workers"
)

// protected runs a reconciliation and converts a panic to an error. So the status of the resource reports the panic,
// and other resources are not affected.
func (r *Reconciler[T, O]) protected(ctx context.Context, resource T) (seen Seen[O], err error) {
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

// plan calls the kind's Plan. A panic is a defect of the operator. The reconciliation is retried each minute, because
// inputs other than the spec may have caused the panic.
func (r *Reconciler[T, O]) plan(ctx context.Context, resource T, owner object.Owner, obs *O) (plan *Plan, err error) {
	err = workers.Protect(func() (err error) {
		plan, err = r.kind.Plan(resource, r.inputs(ctx, owner), obs)
		return err
	})
	var panicked *workers.PanicError
	if errors.As(err, &panicked) {
		err = fmt.Errorf("the operator cannot plan this spec, and nothing is changed: %w: take the last change of the spec back, and report this", err)
		return nil, &stepError{reason: ReasonRenderFailed, err: err, stalled: true, retryAfter: r.retryRefused}
	}
	return plan, err
}

// pass runs steps 2 to 8 of Reconcile. It plans everything before it writes anything, so that an invalid resource changes nothing.
func (r *Reconciler[T, O]) pass(ctx context.Context, resource T) (Seen[O], error) {
	seen := Seen[O]{Generation: resource.GetGeneration(), Paused: r.kind.Paused(resource), Deleting: r.isDeleting(resource)}
	if seen.Deleting {
		return seen, nil
	}
	owner := OwnerOf(r.kind, resource)
	obs, err := new(O), ErrPlanAgain
	for errors.Is(err, ErrPlanAgain) {
		*obs = *new(O)
		err = r.carry(ctx, resource, owner, obs, &seen)
	}
	retry, err := r.maintain(ctx, resource, owner, obs, err)
	if err != nil {
		return seen, err
	}
	if !seen.Paused { // after the turn of a large resource, because pods may answer slowly
		if err := r.engine.growVolumes(ctx, owner, &seen.PlanSeen, r.reporter.recorderFor(resource)); err != nil {
			return seen, err
		}
	}
	if err := r.engine.explain(ctx, owner, &seen.PlanSeen, time.Now()); err != nil {
		return seen, err
	}
	pods := func(ctx context.Context, part string) ([]*corev1.Pod, error) { return r.engine.Pods(ctx, owner, part) }
	if err := r.kind.Observe(ctx, resource, seen.PlanSeen, pods, obs); err != nil { // after the turn of a large resource, because servers may answer slowly
		return seen, &stepError{reason: ReasonObserveFailed, err: err}
	}
	seen.Decision = r.kind.Decide(resource, seen.PlanSeen, obs)
	if seen.Paused {
		seen.Decision = Decision{Notes: seen.Decision.Notes, LookAgain: seen.Decision.NoteAgain}
	}
	if retry > 0 && (seen.Decision.LookAgain == 0 || retry < seen.Decision.LookAgain) {
		seen.Decision.LookAgain = retry
	}
	seen.Observed = obs
	return seen, nil
}

// maintain drops the refusal of a spec if the kind maintains the running servers: a wrong spec must not stop their
// repair. It then returns the time after which the plan is tried again (0: after the next event). maintain returns all
// other errors.
func (r *Reconciler[T, O]) maintain(ctx context.Context, resource T, owner object.Owner, obs *O, err error) (time.Duration, error) {
	kind, ok := any(r.kind).(Maintainer[T, O])
	if !ok || err == nil {
		return 0, err
	}
	var (
		mistake *SpecError
		refused *RefusedError
		failed  = classify(err, r.retryRefused)
	)
	if !failed.stalled || !errors.As(err, &mistake) && !errors.As(err, &refused) {
		return 0, err
	}
	runs, keepErr := kind.Maintain(resource, r.inputs(ctx, owner), &SpecError{Reason: failed.reason, Err: errors.New(health.Refusal(failed.Error()))}, obs)
	if keepErr != nil {
		return 0, keepErr
	}
	if !runs {
		return 0, err
	}
	return failed.retryAfter, nil
}

// carry plans a resource and applies the plan. A large resource has a turn of Heavy during both.
func (r *Reconciler[T, O]) carry(ctx context.Context, resource T, owner object.Owner, obs *O, seen *Seen[O]) error {
	leave, err := r.parts.Heavy.enter(r.kind.GVK().Kind, resource)
	if err != nil {
		return err
	}
	defer leave()
	owned, err := r.engine.Owned(ctx, owner)
	if err != nil {
		return err
	}
	plan, err := r.plan(ctx, resource, owner, obs)
	if err == nil {
		seen.Pace, err = r.pace(ctx, resource, plan)
	}
	if err != nil {
		return err
	}
	before := r.kind.Summary(resource)
	seen.PlanSeen, err = r.engine.Apply(ctx, Request{
		Owner: owner, Plan: plan, Owned: owned, Paused: seen.Paused, Hold: seen.Pace != nil,
		WasReady: before.Ready && before.Generation == seen.Generation,
	}, r.reporter.recorderFor(resource))
	if errors.Is(err, ErrPlanAgain) {
		return err
	}
	if !IsNamespaceEnding(err) {
		r.keep(ctx, resource, seen)
	}
	return err
}

func (r *Reconciler[T, O]) inputs(ctx context.Context, owner object.Owner) Inputs {
	return Inputs{
		Lookup: func(kind, name string) (*unstructured.Unstructured, error) {
			return r.engine.Lookup(ctx, owner, kind, name)
		},
		LookupAny: func(kind, name string) (*unstructured.Unstructured, error) {
			return r.engine.LookupAny(ctx, owner, kind, name)
		},
		LookupLive: func(kind, name string) (*unstructured.Unstructured, error) {
			return r.engine.LookupLive(ctx, owner, kind, name)
		},
		List:       func(kind string) ([]*unstructured.Unstructured, error) { return r.engine.List(ctx, owner, kind) },
		Pods:       func(part string) ([]*corev1.Pod, error) { return r.engine.Pods(ctx, owner, part) },
		PodsOf:     func(of object.Owner, part string) ([]*corev1.Pod, error) { return r.engine.Pods(ctx, of, part) },
		PodsLive:   func(part string) ([]*corev1.Pod, error) { return r.engine.PodsLive(ctx, owner, part) },
		Generation: func() (int64, error) { return r.engine.Generation(ctx, owner) },
	}
}
