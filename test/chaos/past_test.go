// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build chaos

package chaos_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"d3os.com/d3os-operator/test/chaos/fault"
	"d3os.com/d3os-operator/test/harness"
)

// A fresh operator that is shown the past, as by an API server whose cache lags, does no harm
// with it, and does what is due when the present comes. So with a DataService that was deleted
// and created again.
func TestPast(t *testing.T) {
	everything := []string{"dataservices", "secrets", "configmaps", "persistentvolumeclaims", "services",
		"deployments", "statefulsets", "horizontalpodautoscalers", "pods"}
	for i, name := range []string{"create", "image", "removed", "volume", "headless", "third-party", "users", "delete", "recreate"} {
		sc := scenarioOf(name)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := sc.without(t)
			for turn, past := range []struct {
				of    string
				stale []string
			}{
				{"all", everything},
				{"dataservices", everything[:1]},
				{"objects", everything[1:]},
				{"secrets", everything[1:2]},
				{"workloads", []string{"deployments", "statefulsets"}},
			} {
				if turn > 0 && !due(i, turn-1, 4) {
					continue
				}
				t.Run(past.of, func(t *testing.T) {
					t.Parallel()
					results.count(t, name, "past of "+past.of, false)
					sc.past(t, base, past.stale)
				})
			}
		})
	}
}

func (sc *scenario) past(t *testing.T, base *baseline, stale []string) {
	s := newStage(t)
	op := s.start()
	sc.prepare(s)
	list := &corev1.ConfigMapList{}
	s.Must(api.List(s.Ctx, list))
	sc.act(s)
	s.Until("it is carried out", func() error { return sc.ended(s) })
	op.Crash()
	s.stop(op)

	is := func(r harness.Request) bool {
		for _, resource := range stale {
			if r.Resource == resource && (r.Verb == "list" || r.Verb == "watch") {
				return true
			}
		}
		return false
	}
	next := fault.New()
	next.Hold(stale...)
	rule := &fault.Rule{When: is, Do: fault.Past(list.ResourceVersion)}
	next.Rule(rule)
	op = s.run(next)
	s.Until("it has read the past", func() error {
		for _, resource := range stale {
			if op.Watching(resource) == 0 {
				return fmt.Errorf("%s are not watched yet", resource)
			}
		}
		return nil
	})
	// For a DataService that is gone it does not idle: what it creates has no owner and is collected, again and again.
	if !sc.gone || !slices.Contains(stale, "dataservices") {
		s.idle(op)
	}
	op.Clear()
	op.Release()
	// What the spec said in the past is carried out first, and what is created for a DataService
	// that is gone goes again.
	history := !slices.Contains(stale, "dataservices") && !sc.gone
	if err := s.ends(op, without(base.end, history), history); err != nil {
		s.Error(err)
	}
}

// without leaves the history out of a state unless it is asked for.
func without(state map[string]any, history bool) map[string]any {
	kept := map[string]any{}
	for id, object := range state {
		if history || !strings.HasPrefix(id, "Lives/") {
			kept[id] = object
		}
	}
	return kept
}
