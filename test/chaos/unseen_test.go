// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build chaos

package chaos_test

import (
	"errors"
	"net/http"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"d3os.com/d3os-operator/test/chaos/fault"
	"d3os.com/d3os-operator/test/harness"
)

// A DataService that goes while the operator does not see it, after the operator wrote its status:
// the cache never shows that write, so the API server is asked, which the operator's role allows.
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
	s.Until("the operator asks for the DataService", func() error {
		if len(op.Since(mark, func(r harness.Sent) bool { return r.Verb == "get" && r.Resource == "dataservices" && r.Code != 0 })) == 0 {
			return errors.New("it does not")
		}
		return nil
	})
	s.Until("everything goes", s.isGone)
	s.notRefused(op, mark)
}

// useRole gives the stage's operators the operator's role, and no more, for the whole case.
func (s *scene) useRole() {
	s.Helper()
	binding := s.account()
	s.Must(api.Create(s.Ctx, binding))
	s.Cleanup(func() { s.Must(api.Delete(s.Ctx, binding)) })
	s.Until("the API server knows the role", func() error { // it learns of it by a watch
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

// notRefused fails the case when a request of the operator's after a mark was beyond its rights.
func (s *scene) notRefused(op *operator, mark int) {
	s.Helper()
	for _, r := range op.Since(mark, func(r harness.Sent) bool { return r.Code == http.StatusForbidden }) {
		s.Errorf("refused: %v", r)
	}
}
