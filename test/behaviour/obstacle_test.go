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
	"d3os.com/d3os-operator/test/harness"
)

func (e *env) quota(name corev1.ResourceName, n string) *corev1.ResourceQuota {
	e.Helper()
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "limit", Namespace: e.Namespace},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{name: resource.MustParse(n)}},
	}
	e.Must(api.Create(e.Ctx, quota))
	e.Until("the quota is in force", func() error {
		e.Must(api.Get(e.Ctx, client.ObjectKeyFromObject(quota), quota))
		return unless(len(quota.Status.Hard) == 1, "it is not")
	})
	return quota
}

// A quota that keeps pods out is named, nothing is tried over and over, and room heals it.
func TestQuotaOfPods(t *testing.T) {
	e := parallel(t)
	op := e.Start()
	quota := e.quota(corev1.ResourcePods, "3")
	name := e.Create(small())
	e.condition(name, dsv1.ConditionDegraded, metav1.ConditionTrue, dsv1.ReasonComponentFailing, "FailedCreate", "exceeded quota", "pods=3")
	mark := op.Mark()
	e.never("writes go on", func() bool { return len(op.Since(mark, harness.Sent.Writes)) > 5 })
	e.equal("objects written", harness.Objects(op.Since(0, harness.Sent.WritesObject)), harness.IDs(e.made()))
	e.Must(api.Delete(e.Ctx, quota))
	e.Ready(name)
}

// A quota that keeps objects out is named, with the object; room heals it.
func TestQuotaOfObjects(t *testing.T) {
	e := parallel(t)
	op := e.Start()
	quota := e.quota("count/services", "4")
	name := e.Create(small())
	e.condition(name, dsv1.ConditionReady, metav1.ConditionFalse, dsv1.ReasonApplyFailed, "Service", "exceeded quota", "count/services=4")
	e.never("writes go on", func() bool { return len(op.Since(0, harness.Sent.WritesStatus)) > 15 })
	e.Must(api.Delete(e.Ctx, quota))
	e.Ready(name)
}

// A namespace that goes takes everything along; the operator does not fight it.
func TestNamespaceGoes(t *testing.T) {
	e := parallel(t)
	op := e.Start()
	name := e.CreateReady(small())
	mark := op.Mark()
	e.Must(api.Delete(e.Ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.Namespace}}))
	e.Until("workloads go", func() error {
		for _, object := range e.owned(name) {
			if _, ok := object.(*appsv1.Deployment); ok {
				return fmt.Errorf("%s is still there", harness.IDOf(object))
			}
		}
		return nil
	})
	e.never("more than 20 attempts to write", func() bool { return len(op.Since(mark, harness.Sent.WritesObject)) > 20 })
	if writes := op.Since(mark, harness.Sent.WritesObject); len(writes) > 20 {
		t.Errorf("%d attempts to write, the first: %v", len(writes), writes[:10])
	}
	if writes := op.Since(mark, harness.Sent.WritesStatus); len(writes) > 10 {
		t.Errorf("%d status writes", len(writes))
	}
}
