// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// A new cluster is formed within a minute of simulated time.
func TestModelForms(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t, 5) {
		t.Run(name(seed), func(t *testing.T) {
			t.Parallel()
			r := newRun(t, seed, 3, 2, 2)
			r.settle(time.Minute)
			assert.Equal(t, r.record.Formed, true)
		})
	}
}

// In all planned operations, with the operator crashing at any command, no write is lost and no read is stale.
func TestModelPlanned(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t, 5) {
		t.Run(name(seed), func(t *testing.T) {
			t.Parallel()
			r := newRun(t, seed, 3, 2, 2)
			r.settle(time.Minute)
			for _, shards := range [][]int{{2, 2, 2, 2}, {2, 2, 2, 2, 2, 2}, {2, 2, 2}, {3, 2, 2, 2}} {
				r.wanted.Shards = shards
				r.wanted.Generation++
				r.crashes(20)
				least := r.fewestMoves()
				r.moved = 0
				r.settle(5 * time.Minute)
				assert.Equal(t, r.moved, least, "slots moved, against the fewest possible")
				r.crashes(20)
				for _, p := range r.pods {
					p.outdated = true
				}
				r.settle(10 * time.Minute)
			}
		})
	}
}

// crashes makes the operator crash after some commands, a number of times.
func (r *run) crashes(times int) { r.budget, r.deaths = r.rnd.IntN(200), times }

// fewestMoves returns the minimum number of slots that must move for even shares. It does not use code of Decide.
func (r *run) fewestMoves() int {
	owned := make([]int, 100)
	for _, p := range r.pods {
		if p.s.me().master {
			owned[p.shard] += p.s.count(p.s.id)
		}
	}
	stay := len(r.wanted.Shards)
	moved := 0
	for _, n := range owned[stay:] {
		moved += n
	}
	larger := Slots % stay
	over := 0
	for _, n := range owned[:stay] {
		if n > Slots/stay {
			over++
			moved += n - Slots/stay
		}
	}
	return moved - min(larger, over)
}

// Faults of all kinds occur one after the other, and the operator crashes in between. If volumes are lost, the reason
// names the lost slots, and the repair needs consent. All other faults heal without a user.
func TestModelFaults(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t, 8) {
		t.Run(name(seed), func(t *testing.T) {
			t.Parallel()
			r := newRun(t, seed, 3, 2, 2)
			r.planned = false
			r.settle(time.Minute)
			for range 12 {
				r.crashes(5)
				for range 1 + r.rnd.IntN(3) {
					r.fault()
					for until := r.now + time.Duration(r.rnd.IntN(8000))*time.Millisecond; r.now < until; {
						r.onePass()
					}
				}
				r.recover()
			}
		})
	}
}

// fault injects one random fault.
func (r *run) fault() {
	var names []string
	for name := range r.pods {
		names = append(names, name)
	}
	slices.Sort(names)
	p := r.pods[names[r.rnd.IntN(len(names))]]
	away := time.Duration(r.rnd.IntN(20000)) * time.Millisecond
	kind := r.rnd.IntN(11)
	switch kind {
	case 0:
		r.logf("EVENT all pods come back with new addresses")
		for _, name := range names {
			r.kill(r.pods[name], time.Duration(r.rnd.IntN(5000))*time.Millisecond)
		}
	case 1, 2:
		r.logf("EVENT %s is killed for %s", p.name, away)
		r.kill(p, away)
	case 3:
		r.logf("EVENT %s loses its volume", p.name)
		r.kill(p, away)
		r.volumes[p.name] = nil
	case 4:
		r.logf("EVENT the operator cannot reach %s for %s", p.name, away)
		p.hiddenUntil = r.now + away
	case 5:
		if p.running {
			r.logf("EVENT %s freezes", p.name)
			p.s.frozen = !p.s.frozen
		}
	case 6:
		r.wanted.Shards = [][]int{{2, 2, 2}, {2, 2, 2, 2}, {3, 2, 2, 2, 2}}[r.rnd.IntN(3)]
		r.wanted.Generation++
		r.logf("EVENT scale to %v", r.wanted.Shards)
	case 7:
		r.logf("EVENT roll")
		for _, p := range r.pods {
			p.outdated = true
		}
	case 8:
		r.logf("EVENT pod %s is deleted", p.name)
		r.remove(p)
	case 9:
		r.logf("EVENT setting")
		r.wanted.Settings = map[string]string{"maxmemory": fmt.Sprint(r.rnd.IntN(100), "mb")}
	case 10:
		q := r.pods[names[r.rnd.IntN(len(names))]]
		r.logf("EVENT %s and %s are killed for %s", p.name, q.name, away)
		r.kill(p, away)
		r.kill(q, away)
	}
}

// recover ends all faults and waits until the cluster is healthy. Lost slots need consent.
func (r *run) recover() {
	r.t.Helper()
	for _, p := range r.pods {
		p.hiddenUntil = 0
		if p.running {
			p.s.frozen = false
		}
	}
	r.logf("EVENT faults end")
	defer func() { r.wanted.Consent = nil }()
	for end := r.now + 10*time.Minute; r.now < end; {
		d := r.onePass()
		if d.Model.Settled {
			r.oracle()
			for key := range r.acked {
				r.acked[key] = r.atOwner(key)
			}
			return
		}
		// Slots are lost, or a pod restarted with data of a node that was removed while the pod was down.
		if len(d.Steps) > 0 && d.Steps[0].Action == ActionWait && strings.Contains(d.Model.Reason, "accept-data-loss") {
			r.consentTo(d)
		}
	}
	r.t.Fatalf("not settled: %s, %s, steps %v", r.last.Model.Verdict, r.last.Model.Reason, r.last.Steps)
}

// consentTo simulates a user who follows the advice in the reason, once all pods run.
func (r *run) consentTo(d Decision) {
	r.t.Helper()
	for _, p := range r.pods {
		if !p.running {
			return
		}
	}
	_, rest, _ := strings.Cut(d.Model.Reason, "accept-data-loss: \"")
	value, _, _ := strings.Cut(rest, "\"")
	if !slices.Contains(r.wanted.Consent, value) {
		r.logf("EVENT consent to %s: %s", value, d.Model.Reason)
		r.wanted.Consent = append(r.wanted.Consent, value)
	}
}

func (r *run) atOwner(key int) int {
	for _, s := range r.servers {
		if s.alive() && s.me().master && s.owns(slotOfKey(key)) {
			return s.data[key]
		}
	}
	return 0
}
