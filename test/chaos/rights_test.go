// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build chaos

package chaos_test

import (
	"errors"
	"net/http"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"d3os.com/d3os-operator/test/harness"
)

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
