// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"iter"
	"time"
)

const (
	// mostFailures limits the number of steps that Failures records.
	mostFailures = 256
	// rowEnds is the time after which a failed step is forgotten, counted from the time at which the step was due again.
	// The next failure of the step then counts as its first.
	rowEnds = 10 * time.Minute
)

// Failures stores failed steps by key, so that other steps are taken until a failed step is due again. A restart of the
// operator clears it. Failures is not safe for concurrent use. The zero value is empty.
type Failures[K comparable] struct{ failures map[K]failure }

type failure struct {
	times int
	until time.Time
	cause string
}

// Fail records a failure. delay returns the time until the step is due again, given the number of consecutive failures.
func (b *Failures[K]) Fail(key K, now time.Time, cause string, delay func(times int) time.Duration) {
	for known, f := range b.failures {
		if now.Sub(f.until) > rowEnds {
			delete(b.failures, known)
		}
	}
	f := b.failures[key]
	if f.times == 0 && len(b.failures) >= mostFailures {
		return
	}
	if b.failures == nil {
		b.failures = map[K]failure{}
	}
	f.times++
	f.until, f.cause = now.Add(delay(f.times)), cause
	b.failures[key] = f
}

// Forget deletes the failures of the steps whose key the given function accepts.
func (b *Failures[K]) Forget(is func(K) bool) {
	for key := range b.failures {
		if is(key) {
			delete(b.failures, key)
		}
	}
}

// Count returns the number of failed steps whose key the given function accepts.
func (b *Failures[K]) Count(is func(K) bool) (n int) {
	for key := range b.failures {
		if is(key) {
			n++
		}
	}
	return n
}

// Held yields the failed steps that are not due yet, with the cause of their last failure, in any order.
func (b *Failures[K]) Held(now time.Time) iter.Seq2[K, string] {
	return func(yield func(K, string) bool) {
		for key, f := range b.failures {
			if now.Before(f.until) && !yield(key, f.cause) {
				return
			}
		}
	}
}

// Doubled returns delay, doubled the given number of times, but at most longest.
func Doubled(delay time.Duration, times int, longest time.Duration) time.Duration {
	return min(delay<<min(times, 10), longest)
}
