// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// second returns another DataService. The names of its components begin with prefix.
func second(prefix string) *unstructured.Unstructured {
	names := fields{}
	for _, component := range []string{"mysql", "uuc", "eureka", "auth", "proxy", "web"} {
		names[component] = fields{"name": prefix + component}
	}
	ds := small(names)
	ds.SetName("second")
	return ds
}

// If a DataService needs names of objects that another DataService already uses, the operator leaves the existing objects unchanged, and the
// status reports the conflict. Two DataServices fit in one namespace if their components have different names.
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
	e.passes(name)
	e.equal("touched of the first", e.touched(before), nil)
	if n := len(op.Since(mark, harness.Sent.WritesObject)); n > 600 { // a loop without a pause sends thousands
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

// signedWith returns the Secret with the JWT_SECRET of a Deployment.
func (e *env) signedWith(deployment string) string {
	env := harness.Lookup[*appsv1.Deployment](e.Journal, deployment).Spec.Template.Spec.Containers[0].Env
	i := slices.IndexFunc(env, func(v corev1.EnvVar) bool { return v.Name == "JWT_SECRET" })
	return env[i].ValueFrom.SecretKeyRef.Name
}

// The operator does not change an object of another owner, and the status names the object. After the object's deletion, the operator
// creates the planned object.
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
			e.passes(name)
			e.equal("touched", e.touched(before), nil)
			e.Must(api.Delete(e.Ctx, object))
			e.Ready(name)
			now := e.Object(id)
			outlives := id == "Secret/"+credentials // the Secret must outlive the DataService, so it has no owner
			if now.GetUID() == object.GetUID() || metav1.IsControlledBy(now, e.DataService(name)) == outlives {
				t.Errorf("%s is not the operator's: %v", id, now.GetOwnerReferences())
			}
		})
	}
}

// idle returns a Deployment of another owner, without pods.
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

// original creates the objects that the original operator makes for a DataService, and waits until they run.
func (e *env) original(ds *dsv1.DataService) []client.Object {
	e.Helper()
	var made []client.Object
	for _, c := range harness.OriginalComponents {
		for _, object := range c.Objects(ds) {
			e.Must(api.Create(e.Ctx, object))
			made = append(made, object)
		}
	}
	e.Until("the original's pods run", func() error { return harness.OriginalsRun(e.Journal) })
	return made
}

// contents returns the version of every object of the namespace except the DataService and events.
func (e *env) contents() map[string]string {
	found := map[string]string{}
	for _, object := range e.All() {
		switch object.(type) {
		case *dsv1.DataService:
		default:
			if id := harness.IDOf(object); !strings.HasPrefix(id, "Event/") && id != "ConfigMap/kube-root-ca.crt" {
				found[id] = string(object.GetUID()) + "/" + object.GetResourceVersion()
			}
		}
	}
	return found
}

// Objects of the original operator have the DataService as their controller. The operator leaves them unchanged and writes no object,
// and the status reports the conflict. Once the test has deleted them, the platform starts.
func TestTheOriginalsObjectsAreLeftAlone(t *testing.T) {
	e := parallel(t)
	name := e.Create(sample())
	e.Until("the DataService is seen", func() error { return stage.Unless(e.DataService(name) != nil, "it is not") })
	made := e.original(e.DataService(name))
	before := e.contents()

	op := e.Start()
	for _, condition := range []struct {
		kind   string
		status metav1.ConditionStatus
	}{{dsv1.ConditionReady, metav1.ConditionFalse}, {dsv1.ConditionDegraded, metav1.ConditionTrue}, {dsv1.ConditionStalled, metav1.ConditionTrue}} {
		e.condition(name, condition.kind, condition.status, dsv1.ReasonNotAdopted, " mysql-dataservice", "nothing is written", "delete")
	}
	e.passes(name)
	e.equal("written", asText(op.Since(0, harness.Sent.WritesObject)), nil)
	e.equal("objects that are not as they were", changed(before, e.contents()), nil)

	for _, object := range made {
		e.Must(api.Delete(e.Ctx, object, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	}
	e.Ready(name)
}

// changed returns the differences of two states.
func changed(before, after map[string]string) []string {
	var found []string
	for id, version := range after {
		if before[id] != version {
			found = append(found, id)
		}
	}
	for id := range before {
		if _, there := after[id]; !there {
			found = append(found, id+" is gone")
		}
	}
	return found
}
