// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
)

// second returns another DataService, whose objects have a prefix.
func second(prefix string) *unstructured.Unstructured {
	names := fields{}
	for _, component := range []string{"mysql", "uuc", "eureka", "auth", "proxy", "web"} {
		names[component] = fields{"name": prefix + component}
	}
	ds := small(names)
	ds.SetName("second")
	return ds
}

// Two DataServices live in one namespace when their components have names of their own.
func TestTwoInOneNamespace(t *testing.T) {
	e := parallel(t)
	e.Start()
	first := e.CreateReady(small())
	before := versions(e.owned(first))
	other := e.CreateReady(second("b-"))
	if a, b := len(e.owned(first)), len(e.owned(other)); a != b {
		t.Errorf("the first has %d objects, the second %d", a, b)
	}
	web := harness.Lookup[*corev1.ConfigMap](e.Journal, "b-web-template").Data["default.conf.template"]
	if err := harness.Mentions(web, "b-proxy."+e.Namespace+".svc"); err != nil {
		t.Error(err)
	}
	if a, b := secretOf(harness.Lookup[*appsv1.Deployment](e.Journal, "auth"), "JWT_SECRET"), secretOf(harness.Lookup[*appsv1.Deployment](e.Journal, "b-auth"), "JWT_SECRET"); a == b {
		t.Errorf("both use Secret %s", a)
	}
	e.remove(other)
	e.Ready(first)
	for id, version := range versions(e.owned(first)) {
		if before[id] != version {
			t.Errorf("%s has changed", id)
		}
	}
}

// A DataService whose objects would have the names of another's gets none of them, and says so.
func TestSameNamesConflict(t *testing.T) {
	e := parallel(t)
	op := e.Start()
	first := e.CreateReady(small())
	before, mark := versions(e.made()), op.Mark()
	other := small()
	other.SetName("second")
	name := e.Create(other)
	e.condition(name, dsv1.ConditionReady, metav1.ConditionFalse, dsv1.ReasonObjectConflict, "Secret mysql-dataservice-credentials")
	e.condition(name, dsv1.ConditionStalled, metav1.ConditionTrue, dsv1.ReasonObjectConflict)
	e.never("the first was touched", func() bool {
		after := versions(e.made())
		for id, version := range before {
			if after[id] != version {
				t.Logf("%s has changed", id)
				return true
			}
		}
		return false
	})
	e.Ready(first)
	if n := len(op.Since(mark, harness.Sent.WritesObject)); n > 60 {
		t.Errorf("%d attempts to write", n)
	}
	e.Must(api.Delete(e.Ctx, e.DataService(name).DeepCopy()))
	e.Until("the second goes", func() error { return unless(e.DataService(name) == nil, "it is still there") })
	e.Ready(first)
}

// An object of somebody else's is left alone and named; when it goes, its place is taken.
func TestForeignObject(t *testing.T) {
	t.Parallel()
	for _, object := range []client.Object{
		&corev1.ConfigMap{Data: map[string]string{"mine": "yes"}},
		&corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}}},
		&appsv1.Deployment{Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](0),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"mine": "yes"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"mine": "yes"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "mine", Image: "mine"}}},
			},
		}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "mysql-dataservice-credentials"}, StringData: map[string]string{"password": "mine"}},
	} {
		t.Run(harness.KindOf(object), func(t *testing.T) {
			e := parallel(t)
			e.Start()
			if object.GetName() == "" {
				object.SetName("auth")
			}
			object.SetNamespace(e.Namespace)
			e.Must(api.Create(e.Ctx, object))
			before := declared(object)
			name := e.Create(small())
			e.condition(name, dsv1.ConditionReady, metav1.ConditionFalse, dsv1.ReasonObjectConflict, harness.KindOf(object)+" "+object.GetName())
			e.condition(name, dsv1.ConditionDegraded, metav1.ConditionTrue, dsv1.ReasonObjectConflict)
			e.never("it was touched", func() bool { return declared(e.Object(harness.IDOf(object))) != before })
			e.Must(api.Delete(e.Ctx, object))
			e.Ready(name)
			if now := e.Object(harness.IDOf(object)); now.GetUID() == object.GetUID() || !metav1.IsControlledBy(now, e.DataService(name)) && harness.KindOf(object) != "Secret" {
				t.Errorf("%s is not the operator's: %v", harness.IDOf(object), now.GetOwnerReferences())
			}
		})
	}
}
