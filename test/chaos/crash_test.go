// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build chaos

package chaos_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"d3os.com/d3os-operator/test/chaos/fault"
	"d3os.com/d3os-operator/test/harness"
)

// seed chooses what is tried unless CHAOS=full (CHAOS_SEED).
var seed = func() uint64 {
	if given, err := strconv.ParseUint(os.Getenv("CHAOS_SEED"), 10, 64); err == nil {
		return given
	}
	return uint64(time.Now().UnixNano()) % 1_000_000
}()

// How many writes of a scenario are tried in each mode unless CHAOS=full, or all are (everyWrite).
const (
	chosenCrashes = 2
	chosenAnswers = 1
)

// point is one write of a scenario.
type point struct {
	verb, resource, object string
	nth                    int // of that verb and object
}

func (p point) String() string {
	name := p.verb + "-" + p.resource + "-" + p.object
	if p.status() {
		name = "status"
	}
	return fmt.Sprintf("%s-%d", name, p.nth)
}

func (p point) status() bool { return p.resource == "dataservices/status" }

func (p point) is(r harness.Request) bool {
	return r.Verb == p.verb && r.Resource == p.resource && r.Name == p.object
}

// rule lets something happen to that write.
func (p point) rule(do fault.Action) *fault.Rule {
	return &fault.Rule{When: p.is, Skip: p.nth - 1, Times: 1, Do: do}
}

// points returns every write of a run.
func points(requests []harness.Sent) []point {
	var found []point
	seen := map[point]int{}
	for _, r := range requests {
		p := point{verb: r.Verb, resource: r.Resource, object: r.Name}
		seen[p]++
		p.nth = seen[p]
		found = append(found, p)
	}
	return found
}

// points returns the writes at which the scenario is disturbed. Repeated ones, which not every run
// has, are left to CHAOS=full where they are not the point of it.
func (sc *scenario) points(base *baseline, m mode) []point {
	all := points(base.writes)
	if full {
		return all
	}
	all = slices.DeleteFunc(all, func(p point) bool { return p.nth > 1 && (p.status() || !sc.repeats) })
	n := chosenAnswers
	switch {
	case m.crash && slices.Contains(everyWrite, sc.name):
		n = len(all)
	case m.crash:
		n = chosenCrashes
	}
	random := rand.New(rand.NewPCG(seed, uint64(len(m.name))))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(n, len(all))]
}

// mode is what happens at a write.
type mode struct {
	name  string
	do    fault.Action
	crash bool
}

var modes = []mode{
	{"before", fault.CrashBefore, true},
	{"after", fault.CrashAfter, true},
	{"lost", fault.CrashLost, true},
	{"answer-lost", fault.Lose, false},
	{"timed-out", fault.TimeOut, false},
}

// The operator crashes at every write: before it is sent, after it took effect, and with its
// answer lost. Another takes over, and all ends as it does without a crash. So it does when only
// the answer is lost and the operator lives on.
func TestCrash(t *testing.T) {
	for _, sc := range scenarios {
		if sc.full && !full {
			continue
		}
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			base := sc.without(t)
			for _, m := range modes {
				t.Run(m.name, func(t *testing.T) {
					t.Parallel()
					for _, p := range sc.points(base, m) {
						t.Run(p.String(), func(t *testing.T) {
							t.Parallel()
							sc.disturb(t, base, m, p)
						})
					}
				})
			}
			t.Run("down", func(t *testing.T) {
				t.Parallel()
				sc.down(t, base)
			})
		})
	}
}

// disturb runs the scenario and lets something happen at one of its writes.
func (sc *scenario) disturb(t *testing.T, base *baseline, m mode, p point) {
	missed := results.count(t, sc.name, m.name, m.crash)
	s := newStage(t)
	op := s.start()
	sc.prepare(s)
	rule := p.rule(m.do)
	op.Rule(rule)
	sc.act(s)
	s.Until("the write, or the end", func() error {
		if op.Hits(rule) > 0 {
			return nil
		}
		return sc.ended(s)
	})
	op.Clear() // or it could meet the write later, with nobody to take over
	switch {
	case op.Hits(rule) == 0 && (p.status() || p.nth > 1):
		missed() // the status is written, and a refused write repeated, as often as the moment asks for
	case op.Hits(rule) == 0:
		s.Fatalf("the write %s, which a run without faults has, did not happen", p)
	case m.crash:
		<-op.Crashed()
		op = s.start()
	}
	if err := s.ends(op, base.end, true); err != nil {
		s.Errorf("%v\nthe last operator wrote: %v", err, op.Since(0, writes))
	}
}

// down runs the scenario while no operator runs; the next one finds it done.
func (sc *scenario) down(t *testing.T, base *baseline) {
	results.count(t, sc.name, "down", true)
	s := newStage(t)
	op := s.start()
	sc.prepare(s)
	op.Crash()
	sc.act(s)
	op = s.start()
	if err := s.ends(op, base.end, true); err != nil {
		s.Error(err)
	}
	if made := op.Since(0, objects); len(made) > 0 && sc.gone {
		s.Errorf("written although all is deleted: %v", made)
	}
}
