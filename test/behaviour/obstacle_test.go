// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

func (e *env) quota(name corev1.ResourceName, n string) *corev1.ResourceQuota {
	e.Helper()
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "limit", Namespace: e.namespace},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{name: resource.MustParse(n)}},
	}
	e.must(api.Create(e.ctx, quota))
	e.until("the quota is in force", func() error {
		e.must(api.Get(e.ctx, client.ObjectKeyFromObject(quota), quota))
		return unless(len(quota.Status.Hard) == 1, "it is not")
	})
	return quota
}

// A quota that keeps pods out is named, nothing is tried over and over, and room heals it.
func TestQuotaOfPods(t *testing.T) {
	e := parallel(t)
	op := e.startOperator()
	quota := e.quota(corev1.ResourcePods, "3")
	name := e.create(small())
	e.condition(name, dsv1.ConditionDegraded, metav1.ConditionTrue, dsv1.ReasonComponentFailing, "FailedCreate", "exceeded quota", "pods=3")
	mark := op.mark()
	e.never("writes go on", func() bool { return len(op.since(mark, request.Writes)) > 5 })
	e.equal("objects written", objects(op.since(0, request.WritesObject)), ids(e.made()))
	e.must(api.Delete(e.ctx, quota))
	e.ready(name)
}

// A quota that keeps objects out is named, with the object; room heals it.
func TestQuotaOfObjects(t *testing.T) {
	e := parallel(t)
	op := e.startOperator()
	quota := e.quota("count/services", "4")
	name := e.create(small())
	e.condition(name, dsv1.ConditionReady, metav1.ConditionFalse, dsv1.ReasonApplyFailed, "Service", "exceeded quota", "count/services=4")
	e.never("writes go on", func() bool { return len(op.since(0, request.WritesStatus)) > 15 })
	e.must(api.Delete(e.ctx, quota))
	e.ready(name)
}

// A namespace that goes takes everything along; the operator does not fight it.
func TestNamespaceGoes(t *testing.T) {
	e := parallel(t)
	op := e.startOperator()
	name := e.createReady(small())
	mark := op.mark()
	e.must(api.Delete(e.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.namespace}}))
	e.until("workloads go", func() error {
		for _, object := range e.owned(name) {
			if _, ok := object.(*appsv1.Deployment); ok {
				return fmt.Errorf("%s is still there", idOf(object))
			}
		}
		return nil
	})
	e.never("more than 20 attempts to write", func() bool { return len(op.since(mark, request.WritesObject)) > 20 })
	if writes := op.since(mark, request.WritesObject); len(writes) > 20 {
		t.Errorf("%d attempts to write, the first: %v", len(writes), writes[:10])
	}
	if writes := op.since(mark, request.WritesStatus); len(writes) > 10 {
		t.Errorf("%d status writes", len(writes))
	}
}
