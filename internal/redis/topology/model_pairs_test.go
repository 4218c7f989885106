// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// The test combines each kind of fault with each kind, also with itself. The second fault occurs before the first is
// repaired. Writes that were acknowledged before the first fault survive. Either the cluster serves them at the end, or
// it waits, names the consent that it needs, and keeps the data that the volumes had after the second fault. The short
// form (make test) runs a tenth of the pairs.
func TestModelPairs(t *testing.T) {
	t.Parallel()
	for first := range faultKinds {
		for second := range faultKinds {
			i := first*len(faultKinds) + second
			if testing.Short() && i%10 != 3 {
				continue
			}
			t.Run(faultKinds[first]+", "+faultKinds[second], func(t *testing.T) {
				t.Parallel()
				for _, seed := range pairSeeds(t, i) {
					for _, lost := range pair(t, seed, "", first, second) {
						t.Errorf("seed %d: %s", seed, lost)
					}
				}
			})
		}
	}
}

// pairSeeds returns the seeds of a pair: one, or a tenth of REDIS_MODEL_RUNS.
func pairSeeds(t *testing.T, pair int) []uint64 {
	t.Helper()
	all := seeds(t, 1)
	all = all[:max(1, len(all)/10)]
	for i := range all {
		all[i] += uint64(pair) * 1000
	}
	return all
}

// pair runs two faults, and returns the lost writes that were acknowledged before the first fault.
func pair(t *testing.T, seed uint64, without string, first, second int) []string {
	t.Helper()
	l := &ledger{run: newRun(t, seed, 3, 2, 2)}
	l.wanted.Shards, l.planned, l.without = []int{2, 2, 2}, false, without
	l.settle(time.Minute)
	l.pastRecord = l.record
	l.crashes(3)
	l.work(8 * time.Second)
	shard := l.rnd.IntN(3)
	l.inject(shard, func() int { return first })
	safe := l.safe
	l.work(time.Duration(l.rnd.IntN(20)) * time.Second)
	if l.rnd.IntN(3) == 0 {
		shard = l.rnd.IntN(3)
	}
	for end := l.now + 3*time.Minute; !l.isProvable(second, shard) || !l.inject(shard, func() int { return second }); {
		if l.work(time.Second); l.now > end {
			break
		}
	}
	l.safe = safe
	left := l.held()
	for end := l.now + 10*time.Minute; l.now < end; {
		if d := l.onePass(); d.Model.Settled {
			return l.lost()
		}
	}
	switch m := l.last.Model; {
	case without != "":
	case m.Verdict == Complete && m.Redundant || !strings.Contains(m.Reason, "accept-data-loss"):
		t.Fatalf("not settled: %s, %s, steps %v", m.Verdict, m.Reason, l.last.Steps)
	}
	now := l.held()
	var gone []string
	for _, key := range slices.Sorted(maps.Keys(l.safe)) {
		if want := min(l.safe[key], left[key]); now[key] < want && l.deleted[key] < want {
			gone = append(gone, fmt.Sprintf("key %d: no volume has write %d any more", key, want))
		}
	}
	return gone
}

// isProvable reports whether the second fault can be detected, or be survived. A restart of a master without its data is
// detected only if the operator has recorded the start of that master, which takes a pass or two. Before that, nothing
// shows that a replica has data that the master has lost. If a master loses its volume, only the writes that a replica
// has copied survive, so the replica must have had its link for two seconds.
func (l *ledger) isProvable(kind, shard int) bool {
	m, r := l.role(shard, true), l.role(shard, false)
	switch {
	case m == nil || r == nil:
		return true // inject returns false then
	case kind == 5:
		h := l.record.Histories[shard]
		return h.Node == m.s.id && h.Run == m.s.run
	case kind == 6:
		return r.s.linked && r.s.synced && l.now > r.s.syncUntil+2*time.Second
	}
	return true
}

// held returns the last write of each key that any volume still has.
func (l *ledger) held() map[int]int {
	best := map[int]int{}
	for _, v := range l.volumes {
		if v != nil {
			for key, value := range v.data {
				best[key] = max(best[key], value)
			}
		}
	}
	return best
}

// Some proofs prevent a loss only after two faults, or after several kinds of faults. If such a proof is disabled, a
// pair of faults loses data.
func TestModelPairsNeedProofs(t *testing.T) {
	if testing.Short() {
		t.Skip("it tests the model alone: make verify runs it, and go test without -short")
	}
	t.Parallel()
	for _, c := range proofs {
		if !slices.Contains([]string{"user", "admission", "continuation", "file"}, c.proof) {
			continue
		}
		t.Run(c.proof, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(40) {
				for first := range faultKinds {
					if len(c.kinds) > 0 && !slices.Contains(c.kinds, first) {
						continue
					}
					for second := range faultKinds {
						if lost := pair(t, seed, c.proof, first, second); len(lost) > 0 {
							t.Logf("%s. %s, %s, seed %d: %s", c.what, faultKinds[first], faultKinds[second], seed, lost[0])
							return
						}
					}
				}
			}
			t.Errorf("no pair of faults loses data without this proof: %s", c.what)
		})
	}
}
