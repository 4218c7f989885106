// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Step is one change of a running system or of an object. It is idempotent: to take it twice, or again after an
// interruption, does no harm.
type Step struct {
	// Name names the step in logs and statuses, such as "MoveSlots".
	Name string
	// Message describes the effect, such as "move slots 0-99 from platform-0-0 to platform-3-0".
	Message string
	// Do takes the step. Directly before it changes the target, Do checks that the target has not changed since the
	// decision. Do does not wait: the next reconciliation reads the result. A step with several changes calls Held
	// before each change.
	Do func(ctx context.Context) error
}

// Pods lists the pods of a part of a resource, as the cache shows them.
type Pods func(ctx context.Context, part string) ([]*corev1.Pod, error)

// Lease reports whether this replica may act.
type Lease interface {
	// Held reports whether no other replica may act now.
	Held() bool
}

// ErrNotHeld reports that a step was not taken because another replica may lead.
var ErrNotHeld = errors.New("not taken: this replica does not hold the lease, and another replica may lead")

// ErrAgain reports that a step failed for a reason that is likely to end: its target has changed since the decision, or
// a server did not answer. The next reconciliation decides again. If the failure lasts, the status reports it.
var ErrAgain = errors.New("to be tried again")

// Runner takes steps.
type Runner struct{ lease Lease }

// NewRunner returns a Runner that acts while the lease is held.
func NewRunner(lease Lease) *Runner { return &Runner{lease: lease} }

// Run takes the first of the steps, if there is one. ctx is the context of the reconciliation.
func (r *Runner) Run(ctx context.Context, steps []Step) error {
	if len(steps) == 0 {
		return nil
	}
	step := steps[0]
	ctx = WithLease(ctx, r.lease)
	err := Held(ctx)
	if err == nil {
		err = step.Do(ctx)
	}
	if err != nil {
		return fmt.Errorf("step %s (%s): %w", step.Name, step.Message, err)
	}
	return nil
}

type leaseKey struct{}

// WithLease returns a context with a lease. Code that runs a step calls Held with this context before each change.
func WithLease(ctx context.Context, lease Lease) context.Context {
	return context.WithValue(ctx, leaseKey{}, lease)
}

// Held returns ErrNotHeld if this replica may not act any more, or if the context has no lease.
func Held(ctx context.Context) error {
	if lease, ok := ctx.Value(leaseKey{}).(Lease); !ok || !lease.Held() {
		return ErrNotHeld
	}
	return nil
}
