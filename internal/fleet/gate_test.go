// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"fmt"
	"strings"
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
			if wait := fleet.NewGate(2).Ask(key("me"), members(all)); wait != nil {
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
	assert.Assert(t, gate.Ask(key("b"), members("b c d e")) == nil)
	assert.Assert(t, gate.Ask(key("b"), members("b c d e")) == nil, "asking again costs no other turn")
	assert.Assert(t, gate.Ask(key("c"), members("b c d e")) == nil)
	assert.DeepEqual(t, gate.Ask(key("d"), members("b c d e")).Others, []string{"a/b", "a/c"})
	assert.DeepEqual(t, gate.Ask(key("e"), members("b* c d e")).Others, []string{"a/b", "a/c"})
	assert.Equal(t, len(gate.Next()), 2)
	assert.Equal(t, gate.Next()[0], key("d"))
	assert.Assert(t, gate.Ask(key("d"), members("b c* d e")) == nil, "the turn of b is over")
	assert.Assert(t, gate.Ask(key("e"), members("b c e")) == nil, "c is done, d is gone")
	gate.Forget(key("e"))
	assert.Equal(t, len(gate.Next()), 0)
}

func TestMessage(t *testing.T) {
	t.Parallel()
	wait := &fleet.Wait{Reason: fleet.ReasonWaitsForOthers, Others: []string{"a/b", "a/c", "a/d", "a/e"}}
	assert.Assert(t, strings.HasSuffix(wait.Message(4), "(--max-rollouts=4); being changed when it was looked at: a/b, a/c, a/d and 1 more"))
	wait = &fleet.Wait{Reason: fleet.ReasonStopped, Others: []string{"a/b"}}
	assert.Assert(t, strings.Contains(wait.Message(4), "has stopped: a/b is Degraded"))
}
