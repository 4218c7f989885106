// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build chaos

package chaos_test

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"d3os.com/d3os-operator/test/chaos/fault"
)

// seed selects the tested writes. The variable SEED sets it. CHAOS=full tests all writes.
var seed = func() uint64 {
	given := os.Getenv("SEED")
	if given == "" {
		return 1
	}
	n, err := strconv.ParseUint(given, 10, 64)
	if err != nil {
		panic("SEED: " + err.Error())
	}
	return n
}()

// The number of tested writes of a scenario, for a mode with a crash and for another mode. All writes are tested
// with CHAOS=full, and in modes with a crash for the scenarios in everyWrite.
const (
	chosenCrashes = 2
	chosenAnswers = 1
)

// points returns the writes at which a fault is injected. Repeated writes do not occur in every run: points returns them only with
// CHAOS=full, or for scenarios that test them.
func (sc *scenario) points(base *baseline, m mode) []fault.Point {
	all := fault.Points(base.writes)
	if full {
		return all
	}
	all = slices.DeleteFunc(all, func(p fault.Point) bool { return p.Nth > 1 && (p.Status() || !sc.repeats) })
	n := chosenAnswers
	switch {
	case m.crash && slices.Contains(everyWrite, sc.name):
		n = len(all)
	case m.crash:
		n = chosenCrashes
	}
	// The operator writes components at the same time, so the order of the writes differs between runs.
	slices.SortFunc(all, func(a, b fault.Point) int { return strings.Compare(a.String(), b.String()) })
	random := rand.New(rand.NewPCG(seed, uint64(len(m.name))))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(n, len(all))]
}

// mode is the fault at a write.
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

// The operator crashes at every write: before the request is sent, after the write, or after the write with its answer
// lost. The next operator reaches the end state of a run without a crash. An operator that only loses an answer reaches
// this state without a restart.
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

// disturb runs the scenario with a fault at one of its writes.
func (sc *scenario) disturb(t *testing.T, base *baseline, m mode, p fault.Point) {
	missed := results.count(t, sc.name, m.name, m.crash)
	s := newStage(t)
	op := s.start()
	sc.prepare(s)
	rule := p.Rule(m.do)
	op.Rule(rule)
	sc.act(s)
	s.Until("the write happens, or the scenario ends", func() error {
		if op.Hits(rule) > 0 {
			return nil
		}
		return sc.ended(s)
	})
	op.Clear() // otherwise the rule could match the same write later, when no further operator starts
	switch {
	case op.Hits(rule) == 0 && (p.Status() || p.Nth > 1):
		missed() // runs differ in the number of status writes and of repeated writes
	case op.Hits(rule) == 0:
		s.Fatalf("a run without faults makes the write %s, this run did not", p)
	case m.crash:
		<-op.Crashed()
		op = s.start()
	}
	if err := s.ends(op, base.end, true); err != nil {
		s.Errorf("%v\nthe last operator wrote: %v", err, op.Since(0, writes))
	}
}

// down runs the scenario while no operator runs. The operator that starts next finds the end result of the changes.
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
		s.Errorf("the operator wrote although everything was deleted: %v", made)
	}
}
