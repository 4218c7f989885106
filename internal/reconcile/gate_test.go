// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/types"

	"d3os.com/d3os-operator/internal/reconcile"
)

func key(name string) types.NamespacedName { return types.NamespacedName{Namespace: "a", Name: name} }

// members parses a list of resources: "b" has no turn, "b*" has a turn, "b!" is Degraded, "b-" is paused. A name may have several of these
// signs.
func members(text string) (all []reconcile.Member) {
	for word := range strings.FieldsSeq(text) {
		all = append(all, reconcile.Member{
			NamespacedName: key(strings.TrimRight(word, "*!-")), HasTurn: strings.Contains(word, "*"), Degraded: strings.Contains(word, "!"), Away: strings.Contains(word, "-"),
		})
	}
	return all
}

func ask(t *testing.T, gate *reconcile.Gate, name, all string) *reconcile.Wait {
	t.Helper()
	wait, err := gate.Ask(key(name), func() ([]reconcile.Member, error) { return members(all), nil })
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
		"me b* c*-":        "", // c is paused, so its turn does not count
		"me b*! c":         "Stopped [a/b]",
		"me b! c!":         "", // b and c have no turn, so the operator has not changed them
		"me b*!-":          "",
		"me* b* c*":        "WaitsForOthers [a/b a/c]",
		"me b* c* d* e* f": "WaitsForOthers [a/b a/c a/d a/e]",
	} {
		t.Run(all, func(t *testing.T) {
			t.Parallel()
			got := ""
			if wait := ask(t, reconcile.NewGate(2), "me", all); wait != nil {
				got = fmt.Sprint(wait.Reason, " ", wait.Others)
			}
			assert.Equal(t, got, want)
		})
	}
}

// A granted turn counts even before a status shows it. The turn ends when the resource is deleted.
func TestTurnsAreRemembered(t *testing.T) {
	t.Parallel()
	gate := reconcile.NewGate(2)
	assert.Assert(t, ask(t, gate, "b", "b c d e") == nil)
	assert.Assert(t, ask(t, gate, "b", "b c d e") == nil, "a repeated request takes no second turn")
	assert.Assert(t, ask(t, gate, "c", "b c d e") == nil)
	assert.DeepEqual(t, ask(t, gate, "d", "b c d e").Others, []string{"a/b", "a/c"})
	assert.DeepEqual(t, ask(t, gate, "e", "b* c d e").Others, []string{"a/b", "a/c"})
	assert.Equal(t, len(gate.Next()), 2)
	assert.Equal(t, gate.Next()[0], key("d"))
	assert.Assert(t, ask(t, gate, "d", "b c* d e") == nil, "the turn of b is over")
	assert.Assert(t, ask(t, gate, "e", "b c e") == nil, "the turn of c is over, and d was deleted")
	gate.Forget(key("e"))
	assert.Equal(t, len(gate.Next()), 0)
}

// Many workers never exceed the limit of turns, although each worker calls Forget as soon as a status shows its turn.
func TestWorkersGiveNoTurnTooMany(t *testing.T) {
	t.Parallel()
	const limit, resources, workers = 2, 400, 8
	gate := reconcile.NewGate(limit)
	var mu sync.Mutex
	shown := map[types.NamespacedName]bool{} // resources with a turn in their status
	most := 0
	look := func() (all []reconcile.Member, err error) {
		mu.Lock()
		defer mu.Unlock()
		for n := range resources {
			all = append(all, reconcile.Member{NamespacedName: key(fmt.Sprint(n)), HasTurn: shown[key(fmt.Sprint(n))]})
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
				gate.Forget(k) // the next reconciliation of k reads the status
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
	wait := &reconcile.Wait{Reason: reconcile.ReasonWaitsForOthers, Others: []string{"a/b", "a/c", "a/d", "a/e"}}
	assert.Assert(t, strings.HasSuffix(wait.Message(4), "(--max-rollouts=4); being changed at the last check: a/b, a/c, a/d and 1 more"))
	wait = &reconcile.Wait{Reason: reconcile.ReasonStopped, Others: []string{"a/b"}}
	assert.Assert(t, strings.Contains(wait.Message(4), "has stopped: a/b has been Degraded"))
}

type lease bool

func (l lease) Held() bool { return bool(l) }

// Run takes one step per call, and no step without the lease.
func TestRun(t *testing.T) {
	t.Parallel()
	var taken []string
	step := func(name string, err error) reconcile.Step {
		return reconcile.Step{Name: name, Message: "of a test", Do: func(context.Context) error {
			taken = append(taken, name)
			return err
		}}
	}
	assert.NilError(t, reconcile.NewRunner(lease(true)).Run(t.Context(), nil))
	assert.NilError(t, reconcile.NewRunner(lease(true)).Run(t.Context(), []reconcile.Step{step("one", nil), step("two", nil)}))
	assert.DeepEqual(t, taken, []string{"one"})

	err := reconcile.NewRunner(lease(false)).Run(t.Context(), []reconcile.Step{step("three", nil)})
	assert.ErrorIs(t, err, reconcile.ErrNotHeld)
	assert.DeepEqual(t, taken, []string{"one"})

	cause := errors.New("no route")
	err = reconcile.NewRunner(lease(true)).Run(t.Context(), []reconcile.Step{step("four", cause)})
	assert.ErrorIs(t, err, cause)
	assert.ErrorContains(t, err, "step four (of a test)")
}

// If the lease is lost during a long step, Held returns ErrNotHeld to the step. Outside of a step, it always returns
// ErrNotHeld.
func TestHeld(t *testing.T) {
	t.Parallel()
	assert.ErrorIs(t, reconcile.Held(t.Context()), reconcile.ErrNotHeld)
	held := fickle(true)
	effects := 0
	err := reconcile.NewRunner(&held).Run(t.Context(), []reconcile.Step{{Name: "long", Do: func(ctx context.Context) error {
		for range 3 {
			if err := reconcile.Held(ctx); err != nil {
				return err
			}
			effects++
			held = fickle(effects < 2)
		}
		return nil
	}}})
	assert.ErrorIs(t, err, reconcile.ErrNotHeld)
	assert.Equal(t, effects, 2)
}

type fickle bool

func (f *fickle) Held() bool { return bool(*f) }
