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

	"d3os.com/d3os-operator/internal/etcd/membership"
	"d3os.com/d3os-operator/internal/reconcile"
)

// A failed step is not due again for a while, so that other steps are taken. It is first retried at once, because its preconditions may just
// have changed. Then the delay doubles with each failure in a row. A step that etcd refuses for now is retried often before it is delayed,
// because etcd refuses some for a few seconds after each change. A restart of the operator resets the delays.
const (
	stepAgain = 2 * time.Second
	lastAgain = 30 * time.Second
	// mostRefusals is the number of refusals in a row before the first delay.
	mostRefusals = 20
	// mostFailures limits the recorded failures per cluster.
	mostFailures = 256
)

// failures stores the failed steps of clusters. It is safe for concurrent use.
type failures struct {
	now func() time.Time

	mu    sync.Mutex
	known map[string]map[string]failure // by cluster and key of the step
}

type failure struct {
	times int
	until time.Time
	cause string
}

// note records the success or failure of a step.
func (f *failures) note(ctx context.Context, cluster string, step membership.Step, err error) {
	// An interruption by the operator's own exit proves nothing about the step.
	if step.Action == membership.ActionWait || err != nil && (errors.Is(err, reconcile.ErrNotHeld) || errors.Is(ctx.Err(), context.Canceled)) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	key, now := step.Key(), f.now()
	if err == nil {
		delete(f.known[cluster], key)
		return
	}
	if f.known[cluster] == nil {
		f.known[cluster] = map[string]failure{}
	}
	for known, past := range f.known[cluster] {
		if now.Sub(past.until) > 5*lastAgain {
			delete(f.known[cluster], known)
		}
	}
	next := f.known[cluster][key]
	next.times, next.cause = next.times+1, err.Error()
	next.until = now
	switch {
	case errors.Is(err, ErrNotYet) && next.times >= mostRefusals:
		next.until = now.Add(stepAgain)
	case !errors.Is(err, ErrNotYet) && next.times > 1:
		next.until = now.Add(min(stepAgain<<min(next.times-2, 10), lastAgain))
	}
	if next.times > 1 || len(f.known[cluster]) < mostFailures {
		f.known[cluster][key] = next
	}
}

// of returns the failed steps of a cluster that are not due again, in a fixed order.
func (f *failures) of(cluster string) (all []membership.Failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, past := range f.known[cluster] {
		if f.now().Before(past.until) {
			all = append(all, membership.Failure{Step: key, Cause: past.cause})
		}
	}
	slices.SortFunc(all, func(a, b membership.Failure) int { return cmp.Compare(a.Step, b.Step) })
	return all
}

func (f *failures) forget(cluster string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.known, cluster)
}
