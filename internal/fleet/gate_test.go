// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/types"

	"d3os.com/d3os-operator/internal/fleet"
)

func key(name string) types.NamespacedName { return types.NamespacedName{Namespace: "a", Name: name} }

// members reads resources: "b" rests, "b*" has a turn, "b!" is Degraded, "b-" is paused; signs add up.
func members(text string) (all []fleet.Member) {
	for word := range strings.FieldsSeq(text) {
		all = append(all, fleet.Member{
			NamespacedName: key(strings.TrimRight(word, "*!-")), HasTurn: strings.Contains(word, "*"), Degraded: strings.Contains(word, "!"), Away: strings.Contains(word, "-"),
		})
	}
	return all
}

func ask(t *testing.T, gate *fleet.Gate, name, all string) *fleet.Wait {
	t.Helper()
	wait, err := gate.Ask(key(name), func() ([]fleet.Member, error) { return members(all), nil })
	assert.NilError(t, err)
	return wait
}

func TestAsk(t *testing.T) {
	t.Parallel()
	for all, want := range map[string]string{
		"me":               "",
		"me b c d":         "",
		"me b* c":          "",
		"me b* c*":         "WaitsForOthers [a/b a/c]",
		"me b* c*-":        "", // a person cares for it
		"me b*! c":         "Stopped [a/b]",
		"me b! c!":         "", // they were not changed
		"me b*!-":          "",
		"me* b* c*":        "WaitsForOthers [a/b a/c]",
		"me b* c* d* e* f": "WaitsForOthers [a/b a/c a/d a/e]",
	} {
		t.Run(all, func(t *testing.T) {
			t.Parallel()
			got := ""
			if wait := ask(t, fleet.NewGate(2), "me", all); wait != nil {
				got = fmt.Sprint(wait.Reason, " ", wait.Others)
			}
			assert.Equal(t, got, want)
		})
	}
}

// What was given counts before a status shows it, and no longer than the resource exists.
func TestTurnsAreRemembered(t *testing.T) {
	t.Parallel()
	gate := fleet.NewGate(2)
	assert.Assert(t, ask(t, gate, "b", "b c d e") == nil)
	assert.Assert(t, ask(t, gate, "b", "b c d e") == nil, "asking again costs no other turn")
	assert.Assert(t, ask(t, gate, "c", "b c d e") == nil)
	assert.DeepEqual(t, ask(t, gate, "d", "b c d e").Others, []string{"a/b", "a/c"})
	assert.DeepEqual(t, ask(t, gate, "e", "b* c d e").Others, []string{"a/b", "a/c"})
	assert.Equal(t, len(gate.Next()), 2)
	assert.Equal(t, gate.Next()[0], key("d"))
	assert.Assert(t, ask(t, gate, "d", "b c* d e") == nil, "the turn of b is over")
	assert.Assert(t, ask(t, gate, "e", "b c e") == nil, "c is done, d is gone")
	gate.Forget(key("e"))
	assert.Equal(t, len(gate.Next()), 0)
}

// Many workers that forget what a status shows, and ask by what was known a moment before, never give a turn too many.
func TestWorkersGiveNoTurnTooMany(t *testing.T) {
	t.Parallel()
	const limit, resources, workers = 2, 400, 8
	gate := fleet.NewGate(limit)
	var mu sync.Mutex
	shown := map[types.NamespacedName]bool{} // who has a turn, by its status
	most := 0
	look := func() (all []fleet.Member, err error) {
		mu.Lock()
		defer mu.Unlock()
		for n := range resources {
			all = append(all, fleet.Member{NamespacedName: key(fmt.Sprint(n)), HasTurn: shown[key(fmt.Sprint(n))]})
		}
		return all, nil
	}
	show := func(k types.NamespacedName, hasTurn bool) {
		mu.Lock()
		defer mu.Unlock()
		if delete(shown, k); hasTurn {
			shown[k] = true
		}
		most = max(most, len(shown))
	}
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for n := w; n < resources; n += workers {
				k := key(fmt.Sprint(n))
				for {
					wait, err := gate.Ask(k, look)
					if err != nil {
						t.Error(err)
					}
					if wait == nil {
						break
					}
					runtime.Gosched()
				}
				show(k, true)
				gate.Forget(k) // its next pass sees the status
				runtime.Gosched()
				show(k, false)
			}
		})
	}
	group.Wait()
	assert.Equal(t, most, limit)
}

func TestMessage(t *testing.T) {
	t.Parallel()
	wait := &fleet.Wait{Reason: fleet.ReasonWaitsForOthers, Others: []string{"a/b", "a/c", "a/d", "a/e"}}
	assert.Assert(t, strings.HasSuffix(wait.Message(4), "(--max-rollouts=4); being changed when it was looked at: a/b, a/c, a/d and 1 more"))
	wait = &fleet.Wait{Reason: fleet.ReasonStopped, Others: []string{"a/b"}}
	assert.Assert(t, strings.Contains(wait.Message(4), "has stopped: a/b is Degraded"))
}
