// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"slices"
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

// A DataService whose objects would have the names of another's gets none of them, and says so. Two live in one
// namespace when their components have names of their own.
func TestTwoInOneNamespace(t *testing.T) {
	e := parallel(t)
	op := e.Start()
	first := e.CreateReady(small())
	before, mark := versions(e.owned(first)...), op.Mark()
	other := small()
	other.SetName("second")
	name := e.Create(other)
	e.condition(name, dsv1.ConditionReady, metav1.ConditionFalse, dsv1.ReasonObjectConflict, "Secret "+credentials)
	e.condition(name, dsv1.ConditionStalled, metav1.ConditionTrue, dsv1.ReasonObjectConflict)
	e.never("the first was touched", func() bool { return len(e.touched(before)) > 0 })
	if n := len(op.Since(mark, harness.Sent.WritesObject)); n > 60 {
		t.Errorf("%d attempts to write", n)
	}
	e.remove(name)

	name = e.CreateReady(second("b-"))
	if a, b := len(e.owned(first)), len(e.owned(name)); a != b {
		t.Errorf("the first has %d objects, the second %d", a, b)
	}
	web := harness.Lookup[*corev1.ConfigMap](e.Journal, "b-web-template").Data["default.conf.template"]
	if err := harness.Mentions(web, "b-proxy."+e.Namespace+".svc"); err != nil {
		t.Error(err)
	}
	if a, b := e.signedWith("auth"), e.signedWith("b-auth"); a == b {
		t.Errorf("both use Secret %s", a)
	}
	e.remove(name)
	e.Ready(first)
	e.equal("what has changed of the first", e.touched(before), nil)
}

// signedWith returns the Secret that a Deployment has its JWT_SECRET from.
func (e *env) signedWith(deployment string) string {
	env := harness.Lookup[*appsv1.Deployment](e.Journal, deployment).Spec.Template.Spec.Containers[0].Env
	i := slices.IndexFunc(env, func(v corev1.EnvVar) bool { return v.Name == "JWT_SECRET" })
	return env[i].ValueFrom.SecretKeyRef.Name
}

// An object of somebody else's is left alone and named; when it goes, its place is taken.
func TestForeignObject(t *testing.T) {
	t.Parallel()
	for _, object := range []client.Object{
		idle(metav1.ObjectMeta{Name: "auth"}),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: credentials}, StringData: map[string]string{"password": "mine"}},
	} {
		t.Run(harness.KindOf(object), func(t *testing.T) {
			e := parallel(t)
			e.Start()
			object.SetNamespace(e.Namespace)
			e.Must(api.Create(e.Ctx, object))
			id, before := harness.IDOf(object), versions(object)
			name := e.Create(small())
			e.condition(name, dsv1.ConditionReady, metav1.ConditionFalse, dsv1.ReasonObjectConflict, harness.KindOf(object)+" "+object.GetName())
			e.condition(name, dsv1.ConditionDegraded, metav1.ConditionTrue, dsv1.ReasonObjectConflict)
			e.never("it was touched", func() bool { return len(e.touched(before)) > 0 })
			e.Must(api.Delete(e.Ctx, object))
			e.Ready(name)
			now := e.Object(id)
			outlives := id == "Secret/"+credentials // and has no owner for that
			if now.GetUID() == object.GetUID() || metav1.IsControlledBy(now, e.DataService(name)) == outlives {
				t.Errorf("%s is not the operator's: %v", id, now.GetOwnerReferences())
			}
		})
	}
}

// idle is a Deployment of somebody else's, without pods.
func idle(meta metav1.ObjectMeta) *appsv1.Deployment {
	labels := map[string]string{"mine": "yes"}
	return &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To[int32](0),
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "mine", Image: "mine"}}},
		},
	}}
}
