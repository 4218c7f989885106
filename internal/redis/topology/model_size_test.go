// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// All planned changes also work for shards without replicas, and for a single pod. No write is lost, even if the
// operator crashes at any command.
func TestModelSizes(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t, 4) {
		t.Run(name(seed), func(t *testing.T) {
			t.Parallel()
			r := newRun(t, seed, 1)
			r.settle(time.Minute)
			for _, shards := range [][]int{{1, 1, 1}, {2, 2, 1}, {2, 2, 2}, {1, 1, 1}, {1, 1, 1, 1}, {1}} {
				r.wanted.Shards = shards
				r.wanted.Generation++
				r.crashes(10)
				least := r.fewestMoves()
				r.moved = 0
				r.settle(10 * time.Minute)
				assert.Equal(t, r.moved, least, "slots moved, against the fewest possible")
				r.crashes(10)
				for _, p := range r.pods {
					p.outdated = true
				}
				r.settle(10 * time.Minute)
			}
		})
	}
}

// untilParked runs passes until the cluster is parked and no pod is left.
func (r *run) untilParked() {
	r.t.Helper()
	for end := r.now + 10*time.Minute; r.now < end; {
		if d := r.onePass(); d.Model.Settled && d.Model.Phase == PhaseParked {
			assert.Equal(r.t, len(r.pods), 0)
			assert.Equal(r.t, len(r.onePass().Steps), 0)
			return
		}
	}
	r.t.Fatalf("not parked: %s, %s, steps %v", r.last.Model.Verdict, r.last.Model.Reason, r.last.Steps)
}

// A cluster that is parked in the middle of any change starts again with all its data. That also holds if the operator
// crashes at any command, or if the cluster starts with another size.
func TestModelParks(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t, 6) {
		t.Run(name(seed), func(t *testing.T) {
			t.Parallel()
			r := newRun(t, seed, 2, 2, 2)
			for _, shards := range [][]int{{2, 2, 2}, {2, 2, 2, 2}, {1, 1, 1}, {1}, {3, 2, 2}} {
				r.wanted.Shards = shards
				r.crashes(10)
				for range r.rnd.IntN(30) {
					r.onePass()
				}
				r.wanted.Parked = true
				r.crashes(10)
				for range r.rnd.IntN(10) { // the user may change the spec again before the cluster is parked
					r.onePass()
				}
				if r.rnd.IntN(4) > 0 {
					r.untilParked()
				}
				r.wanted.Parked = false
				r.crashes(10)
				r.settle(10 * time.Minute)
			}
		})
	}
}

// A server is killed while the cluster is being parked or started again. No write that was acknowledged some seconds
// before is lost.
func TestModelKilledWhileItParks(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t, 6) {
		t.Run(name(seed), func(t *testing.T) {
			t.Parallel()
			l := &ledger{run: newRun(t, seed, 2, 2, 1), kinds: []int{11}}
			l.planned = false
			l.settle(time.Minute)
			for range 6 {
				l.work(8 * time.Second)
				l.safe = l.past[0]
				l.crashes(3)
				l.wanted.Parked = true
				for range 1 + l.rnd.IntN(3) {
					l.onePass()
				}
				l.killOne()
				l.untilParked()
				l.wanted.Parked = false
				l.onePass()
				l.killOne()
				l.mend()
				for _, lost := range l.lost() {
					t.Error(lost)
				}
			}
			l.fault()
			l.mend()
			for _, lost := range l.lost() {
				t.Error(lost)
			}
		})
	}
}

// killOne kills the server of a pod, which starts again after some seconds.
func (l *ledger) killOne() {
	for range 10 {
		if p := l.role(l.rnd.IntN(3), l.rnd.IntN(3) > 0); p != nil {
			l.logf("EVENT %s is killed", p.name)
			l.kill(p, time.Duration(l.rnd.IntN(20_000))*time.Millisecond)
			return
		}
	}
}
