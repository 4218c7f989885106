// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build chaos

package chaos_test

import (
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"d3os.com/d3os-operator/test/chaos/fault"
	"d3os.com/d3os-operator/test/harness"
)

// disturbance is a fault that stays active during a whole scenario.
type disturbance struct {
	name   string
	rules  func() []*fault.Rule
	during func(*scene, *operator) // runs after the start of the scenario; its faults must end by themselves
	least  int                     // minimum number of requests that the fault affects
	role   bool                    // the operator has the rights of its role; otherwise those of the administrator
}

// firstOf returns a rule for the first request to each object.
func firstOf(is func(harness.Request) bool, do fault.Action) func() []*fault.Rule {
	return func() []*fault.Rule {
		var mu sync.Mutex
		seen := map[string]bool{}
		return []*fault.Rule{{Do: do, When: func(r harness.Request) bool {
			mu.Lock()
			defer mu.Unlock()
			if !is(r) || seen[r.String()] {
				return false
			}
			seen[r.String()] = true
			return true
		}}}
	}
}

// first returns a rule for the first n requests that the given function accepts.
func first(n int, is func(harness.Request) bool, do fault.Action) func() []*fault.Rule {
	return func() []*fault.Rule { return []*fault.Rule{{When: is, Times: n, Do: do}} }
}

func writesTo(resource string) func(harness.Request) bool {
	return func(r harness.Request) bool { return r.Writes() && r.Resource == resource }
}

func watches(r harness.Request) bool { return r.Verb == "watch" }
func anything(harness.Request) bool  { return true }

var (
	conflict    = fault.Refuse(http.StatusConflict, metav1.StatusReasonConflict)
	tooMany     = fault.RefuseFor(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, 1)
	broken      = fault.Refuse(http.StatusInternalServerError, metav1.StatusReasonInternalError)
	unavailable = fault.Refuse(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
	forbidden   = fault.Refuse(http.StatusForbidden, metav1.StatusReasonForbidden)
	expired     = fault.Refuse(http.StatusGone, metav1.StatusReasonExpired)
)

var disturbances = []disturbance{
	{name: "conflict", rules: firstOf(harness.Request.Writes, conflict), least: 1},
	{name: "too-many-requests", rules: first(3, harness.Request.Writes, tooMany), least: 1},
	{name: "internal-error", rules: firstOf(harness.Request.Writes, broken), least: 1},
	{name: "unavailable", rules: first(4, anything, unavailable), least: 1},
	{name: "forbidden", rules: first(5, harness.Request.Writes, forbidden), least: 1},
	{name: "reads-forbidden", rules: first(3, harness.Request.Reads, forbidden)},
	{name: "services-fail", rules: first(4, writesTo("services"), broken)},
	{name: "secrets-fail", rules: first(4, writesTo("secrets"), broken)},
	{name: "configmaps-fail", rules: first(4, writesTo("configmaps"), broken)},
	{name: "deployments-fail", rules: first(4, writesTo("deployments"), broken)},
	{name: "statefulsets-fail", rules: first(4, writesTo("statefulsets"), broken)},
	{name: "status-fails", rules: first(4, writesTo("dataservices/status"), broken), least: 1},
	{name: "watch-expires", rules: firstOf(watches, expired), during: breakAll, least: 1},
	{name: "watch-slow", rules: first(0, watches, fault.Slow(60*time.Millisecond)), during: breakAll, least: 1},
	{name: "watch-breaks", during: breakAll},
	{name: "events-late", during: hold("deployments", "statefulsets", "services", "configmaps")},
	{name: "events-unseen", during: unseen("deployments", "statefulsets", "services", "configmaps")},
	{name: "dataservice-unseen", during: unseen("dataservices"), role: true},
}

// breakAll closes all watches several times while the operator works.
func breakAll(s *scene, op *operator) {
	for range 5 {
		mark := op.Mark()
		op.Break("")
		_ = s.Within(5*time.Second, func() error { // ends when the operator has opened a watch again
			if len(op.Since(mark, func(r harness.Sent) bool { return watches(r.Request) })) > 0 {
				return nil
			}
			return errors.New("the operator has not opened the watch again")
		})
	}
}

// hold delays the watch events of resources until the operator sends no more requests, because it is done or waits for an event.
func hold(resources ...string) func(*scene, *operator) {
	return func(s *scene, op *operator) {
		op.Hold(resources...)
		s.idle(op)
		op.Release()
	}
}

// unseen delays the watch events of resources as hold does, and then makes the operator list the resources again: the operator never sees an
// object that was created and deleted in between.
func unseen(resources ...string) func(*scene, *operator) {
	return func(s *scene, op *operator) {
		op.Hold(resources...)
		s.idle(op)
		for _, resource := range resources {
			is := func(r harness.Request) bool { return watches(r) && r.Resource == resource }
			op.Rule(&fault.Rule{When: is, Times: 1, Do: expired})
			op.Break(resource)
		}
		op.Release()
	}
}

// idle waits until an operator has sent no request for a while.
func (s *scene) idle(op *operator) {
	s.Helper()
	s.Until("the operator idles", func() error {
		mark := op.Mark()
		busy := func() error {
			if len(op.Since(mark, func(r harness.Sent) bool { return r.Writes() || r.Reads() })) > 0 {
				return nil
			}
			return errors.New("it idles")
		}
		if s.Within(glance, busy) == nil {
			return errors.New("it goes on")
		}
		return nil
	})
}

// The API server answers with temporary errors, or its watches fail. The end state equals the end state of a run without faults.
func TestFaults(t *testing.T) {
	for turn, name := range []string{"create", "config", "volume", "headless", "drift"} {
		sc := scenarioOf(name)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := sc.without(t)
			for i, d := range disturbances {
				if turn > 0 && !due(i, turn-1, 4) {
					continue
				}
				t.Run(d.name, func(t *testing.T) {
					t.Parallel()
					results.count(t, name, d.name, false)
					s := newStage(t)
					if d.role {
						s.useRole()
					}
					op := s.start()
					sc.prepare(s)
					mark := op.Mark()
					var rules []*fault.Rule
					if d.rules != nil {
						rules = d.rules()
						op.Rule(rules...)
					}
					sc.act(s)
					if d.during != nil {
						d.during(s, op)
					}
					if err := s.ends(op, base.end, true); err != nil {
						s.Error(err)
					}
					if d.role {
						s.notRefused(op, mark)
					}
					hits := 0
					for _, rule := range rules {
						hits += op.Hits(rule)
					}
					if hits < d.least {
						s.Errorf("the fault affected only %d requests", hits)
					}
				})
			}
		})
	}
}

// due reports whether the i-th case is tested in this turn. The seed selects one turn; CHAOS=full tests all.
func due(i, turn, turns int) bool {
	return full || (i+int(seed%uint64(turns)))%turns == turn
}
