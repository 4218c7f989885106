// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
)

// originals are what the original operator made of a database and a service, as it labelled and owned them: workloads, Services
// and ConfigMaps.
func originals(ds *dsv1.DataService) []client.Object {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Name: name, Namespace: ds.Namespace, Labels: map[string]string{"dataservice": ds.Name, "app": name},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(ds, dsv1.GroupVersion.WithKind(dsv1.Kind))},
		}
	}
	service := func(name string, port int32) *corev1.Service {
		ports := []corev1.ServicePort{{Name: "http", Port: port}}
		return &corev1.Service{ObjectMeta: meta(name), Spec: corev1.ServiceSpec{Ports: ports}}
	}
	auth := idle(meta("auth"))
	return []client.Object{
		&appsv1.StatefulSet{ObjectMeta: meta("mysql-dataservice"), Spec: appsv1.StatefulSetSpec{
			Replicas: auth.Spec.Replicas, Selector: auth.Spec.Selector, Template: auth.Spec.Template,
		}},
		&corev1.ConfigMap{ObjectMeta: meta("mysql-dataservice-init")}, service("mysql-dataservice", 3306),
		auth, &corev1.ConfigMap{ObjectMeta: meta("auth")}, service("auth", 9081),
	}
}

// What the original operator made for a DataService names it as its controller. It is left exactly
// as it is, nothing is put beside it, and the status says so. Once it is gone, ours comes up.
func TestTheOriginalsObjectsAreLeftAlone(t *testing.T) {
	e := parallel(t)
	name := e.Create(small())
	e.Until("the DataService is seen", func() error { return unless(e.DataService(name) != nil, "it is not") })
	made := originals(e.DataService(name))
	for _, object := range made {
		e.Must(api.Create(e.Ctx, object))
	}
	before := versions(made...)

	op := e.Start()
	for kind, status := range map[string]metav1.ConditionStatus{
		dsv1.ConditionReady: metav1.ConditionFalse, dsv1.ConditionDegraded: metav1.ConditionTrue,
		dsv1.ConditionStalled: metav1.ConditionTrue,
	} {
		e.condition(name, kind, status, dsv1.ReasonNotAdopted, " mysql-dataservice", "nothing is written", "delete")
	}
	e.never("something is written", func() bool { return len(op.Since(0, harness.Sent.WritesObject)) > 0 })
	e.equal("objects that are not as they were", e.touched(before), nil)

	for _, object := range made {
		e.Must(api.Delete(e.Ctx, object, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	}
	e.Ready(name)
}
