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
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"d3os.com/d3os-operator/test/chaos/fault"
	"d3os.com/d3os-operator/test/harness"
)

// The operator writes a status while its watches are held. Then the DataService is deleted. The cache never shows the status write, so the
// operator reads the DataService from the API server, as its role permits.
func TestADeletionIsUnseen(t *testing.T) {
	t.Parallel()
	results.count(t, "delete", "dataservice-unseen", false)
	s := newStage(t)
	s.useRole()
	op := s.start()
	s.create(compact())
	s.Until("ready", s.isReady)

	mark := op.Mark()
	op.Hold("dataservices")
	s.Must(api.Delete(s.Ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "hello"}}))
	s.Until("the status is written", func() error {
		if len(op.Since(mark, func(r harness.Sent) bool { return r.WritesStatus() && r.Code == http.StatusOK })) == 0 {
			return errors.New("it is not")
		}
		return nil
	})
	remove(s)
	op.Rule(&fault.Rule{When: func(r harness.Request) bool { return watches(r) && r.Resource == "dataservices" }, Times: 1, Do: expired})
	op.Break("dataservices")
	op.Release()
	s.Until("the operator reads the DataService", func() error {
		if len(op.Since(mark, func(r harness.Sent) bool { return r.Verb == "get" && r.Resource == "dataservices" && r.Code != 0 })) == 0 {
			return errors.New("it does not")
		}
		return nil
	})
	s.Until("everything goes", s.isGone)
	s.notRefused(op, mark)
}

// useRole gives the scene's operators only the rights of the operator's role, for the whole case.
func (s *scene) useRole() {
	s.Helper()
	binding := s.account()
	s.Must(api.Create(s.Ctx, binding))
	s.Cleanup(func() { s.Must(api.Delete(s.Ctx, binding)) })
	s.Until("the API server knows the role", func() error { // the API server learns of the role by a watch
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:" + s.Namespace + ":operator",
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: s.Namespace, Verb: "patch", Group: "apps", Resource: "deployments"},
		}}
		if err := api.Create(s.Ctx, review); err != nil || review.Status.Allowed {
			return err
		}
		return errors.New("it does not")
	})
}

// notRefused fails the case if the API server refused a request of the operator after a mark because of missing rights.
func (s *scene) notRefused(op *operator, mark int) {
	s.Helper()
	for _, r := range op.Since(mark, func(r harness.Sent) bool { return r.Code == http.StatusForbidden }) {
		s.Errorf("refused: %v", r)
	}
}

// The test removes the rights of the operator's account during the work, and restores them. No condition reports the missing rights,
// because the operator may not write conditions either. The end state equals that of a run without faults.
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

// account makes the scene's operators use an account, and returns the binding between the account and the operator's role.
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

// A new operator first reads old lists, as from an API server with a stale cache. After it has read the
// current lists, it reaches the end state of a run without faults. Some scenarios delete the DataService, or delete it and create it again.
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
	s.Until("the scenario is carried out", func() error { return sc.ended(s) })
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
	s.Until("the operator has read the old lists", func() error {
		for _, resource := range stale {
			if op.Watching(resource) == 0 {
				return fmt.Errorf("%s are not watched yet", resource)
			}
		}
		return nil
	})
	// For a deleted DataService the operator never becomes idle: it creates objects without an existing owner, and the garbage collector
	// deletes them again and again.
	if !sc.gone || !slices.Contains(stale, "dataservices") {
		s.idle(op)
	}
	op.Clear()
	op.Release()
	// An operator that has read an old DataService carries out the old spec first. For a deleted DataService, it
	// creates objects that are deleted again. In both cases the history differs from that of the baseline.
	history := !slices.Contains(stale, "dataservices") && !sc.gone
	if err := s.ends(op, without(base.end, history), history); err != nil {
		s.Error(err)
	}
}

// without removes the history from a state unless history is true.
func without(state map[string]any, history bool) map[string]any {
	kept := map[string]any{}
	for id, object := range state {
		if history || !strings.HasPrefix(id, "Lives/") {
			kept[id] = object
		}
	}
	return kept
}
