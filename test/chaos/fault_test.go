// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build chaos

package chaos_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"d3os.com/d3os-operator/test/chaos/fault"
	"d3os.com/d3os-operator/test/harness"
)

// disturbance is a fault that lasts while a scenario is carried out.
type disturbance struct {
	name   string
	rules  func() []*fault.Rule
	during func(*scene, *operator) // runs when the scenario has begun; what it leaves must end by itself
	least  int                     // how many requests must have met it
}

// firstOf lets something happen to the first request of each name.
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

// the first n requests of a sort.
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
	{name: "dataservice-unseen", during: unseen("dataservices")},
}

// breakAll closes all watches several times while the operator works.
func breakAll(s *scene, op *operator) {
	for range 5 {
		mark := op.Mark()
		op.Break("")
		_ = s.Within(5*time.Second, func() error { // the faster it is through the better
			if len(op.Since(mark, func(r harness.Sent) bool { return watches(r.Request) })) > 0 {
				return nil
			}
			return errors.New("it does not watch again")
		})
	}
}

// hold keeps events back until the operator does no more, or waits for them.
func hold(resources ...string) func(*scene, *operator) {
	return func(s *scene, op *operator) {
		op.Hold(resources...)
		s.idle(op)
		op.Release()
	}
}

// unseen keeps events back, and then has the operator list anew: what came and went meanwhile it
// never sees.
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

// idle waits until an operator sends nothing for a while.
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

// Whatever the API server answers for a while, and whatever becomes of watches, all ends as it
// does without.
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
					op := s.start()
					sc.prepare(s)
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
					hits := 0
					for _, rule := range rules {
						hits += op.Hits(rule)
					}
					if hits < d.least {
						s.Errorf("only %d requests met the fault", hits)
					}
				})
			}
		})
	}
}

// due tells whether the i-th case is tried in this of several turns: in one of them that the seed
// chooses, or in all with CHAOS=full.
func due(i, turn, turns int) bool {
	return full || (i+int(seed%uint64(turns)))%turns == turn
}

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

// The rights of the operator's account are taken away in the middle and given back: a condition
// does not say so (it may not even write that), but all ends as it should.
func TestRightsWithdrawn(t *testing.T) {
	for _, name := range []string{"create", "config"} {
		sc := scenarioOf(name)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := sc.without(t)
			results.count(t, name, "rights-withdrawn", false)
			s := newStage(t)
			binding := s.account()
			s.Must(api.Create(s.Ctx, binding.DeepCopy()))
			t.Cleanup(func() { _ = api.Delete(s.Ctx, binding.DeepCopy()) })
			op := s.start()
			sc.prepare(s)
			s.Until("the operator watches", func() error {
				if op.Watching("deployments") == 0 {
					return errors.New("it does not")
				}
				return nil
			})
			s.Must(api.Delete(s.Ctx, binding.DeepCopy()))
			sc.act(s)
			s.Until("it is refused", func() error {
				if len(op.Since(0, func(r harness.Sent) bool { return r.Code == http.StatusForbidden })) < 3 {
					return errors.New("it is not")
				}
				return nil
			})
			s.Must(api.Create(s.Ctx, binding.DeepCopy()))
			if err := s.ends(op, base.end, true); err != nil {
				s.Error(err)
			}
		})
	}
}

// account makes the stage's operators use an account, and returns what gives it the operator's role.
func (s *scene) account() *rbacv1.ClusterRoleBinding {
	s.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "operator", Namespace: s.Namespace}}
	s.Must(api.Create(s.Ctx, account))
	role := &rbacv1.ClusterRole{}
	s.Must(harness.ReadYAML("config/rbac/role.yaml", role))
	role.Name = s.Namespace
	s.Must(api.Create(s.Ctx, role))
	s.Cleanup(func() { s.Must(api.Delete(s.Ctx, role)) })
	token := &authenticationv1.TokenRequest{}
	s.Must(api.SubResource("token").Create(s.Ctx, account, token))
	s.token = token.Status.Token
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: s.Namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: s.Namespace},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "operator", Namespace: s.Namespace}},
	}
}
