// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"d3os.com/d3os-operator/internal/database/steps"
	"d3os.com/d3os-operator/internal/etcd/membership"
	"d3os.com/d3os-operator/internal/reconcile"
)

// The first retry of a failed step is immediate, because the step's preconditions may have changed since the
// observation. After the second failure, the step is skipped for a delay, in which other steps run. Each further
// failure doubles the delay. etcd refuses some changes for a few seconds after each change: such a refusal is retried
// several times without a delay. A restart of the operator resets the delays.
const (
	stepAgain = 2 * time.Second
	lastAgain = 30 * time.Second
	// mostRefusals is the number of consecutive refusals before the first delay.
	mostRefusals = 20
)

// failures stores the failed steps of clusters. It is safe for concurrent use.
type failures struct {
	now func() time.Time

	mu    sync.Mutex
	known map[string]*steps.Failures[string] // by cluster; the inner keys are keys of steps
}

func newFailures(now func() time.Time) *failures {
	return &failures{now: now, known: map[string]*steps.Failures[string]{}}
}

// note records the success or failure of a step.
func (f *failures) note(ctx context.Context, cluster string, step membership.Step, err error) {
	// A failure caused by the operator's own exit proves nothing about the step.
	if step.Action == membership.ActionWait || err != nil && (errors.Is(err, reconcile.ErrNotHeld) || errors.Is(ctx.Err(), context.Canceled)) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	key, failed := step.Key(), f.known[cluster]
	if err == nil {
		if failed != nil {
			failed.Forget(func(known string) bool { return known == key })
		}
		return
	}
	if failed == nil {
		failed = &steps.Failures[string]{}
		f.known[cluster] = failed
	}
	failed.Fail(key, f.now(), err.Error(), func(times int) time.Duration {
		switch isRefusal := errors.Is(err, ErrNotYet); {
		case isRefusal && times >= mostRefusals:
			return stepAgain
		case isRefusal, times == 1:
			return 0
		}
		return steps.Doubled(stepAgain, times-2, lastAgain)
	})
}

// of returns the failed steps of a cluster that are not due yet, in a fixed order.
func (f *failures) of(cluster string) (all []membership.Failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	failed := f.known[cluster]
	if failed == nil {
		return nil
	}
	for key, cause := range failed.Held(f.now()) {
		all = append(all, membership.Failure{Step: key, Cause: cause})
	}
	slices.SortFunc(all, func(a, b membership.Failure) int { return cmp.Compare(a.Step, b.Step) })
	return all
}

func (f *failures) forget(cluster string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.known, cluster)
}
