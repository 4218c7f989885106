// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
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

// scalers set the number of pods of a Deployment as these programs do. The keys are the field managers of their writes.
var scalers = map[string]func(e *env, deployment *appsv1.Deployment, pods int32) error{
	"keda": func(e *env, deployment *appsv1.Deployment, pods int32) error {
		scale := &autoscalingv1.Scale{
			ObjectMeta: metav1.ObjectMeta{Namespace: deployment.Namespace, Name: deployment.Name}, Spec: autoscalingv1.ScaleSpec{Replicas: pods},
		}
		return api.SubResource("scale").Update(e.Ctx, deployment, client.WithSubResourceBody(scale), client.FieldOwner("keda"))
	},
	"kubectl": func(e *env, deployment *appsv1.Deployment, pods int32) error {
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, pods))
		return api.SubResource("scale").Patch(e.Ctx, deployment, patch, client.FieldOwner("kubectl"))
	},
}

// An autoscaler and kubectl scale may set the number of pods of a service without `replica`. The operator never writes that number. With `replica`,
// the operator corrects the number twice. It then leaves the number, and the status names the Deployment, the field and the other writer. The
// controller of HorizontalPodAutoscalers is that of Kubernetes: it sets the number every 15 seconds.
func TestOtherWritersOfTheNumberOfPods(t *testing.T) {
	const hpa = "kube-controller-manager"
	harness.Long(t)
	e := parallel(t)
	op := e.Start()
	rows := []struct {
		name, writer string
		replica      int
		numbers      []int32 // of pods, in the order of the writes
	}{
		{"any-hpa", hpa, 0, []int32{1, 3}},
		{"exact-hpa", hpa, 2, []int32{2, 3, 2, 3, 2, 3}},
		{"any-keda", "keda", 0, []int32{1, 3, 4, 5, 0, 6, 7}},
		{"exact-keda", "keda", 2, []int32{2, 3, 2, 4, 2, 5, 0, 6, 7}},
		{"any-kubectl", "kubectl", 0, []int32{1, 3, 4, 5, 0, 6, 7}},
		{"exact-kubectl", "kubectl", 2, []int32{2, 3, 2, 4, 2, 5, 0, 6, 7}},
	}
	for _, row := range rows {
		e.Create(oneService(row.name, row.replica))
	}
	for _, row := range rows {
		e.Ready(row.name)
		if row.writer == hpa {
			e.Must(api.Create(e.Ctx, autoscalerOf(e.Namespace, row.name)))
		}
	}
	for round, pods := range []int32{3, 4, 5, 0, 6, 7} {
		for _, row := range rows {
			if scale := scalers[row.writer]; scale != nil {
				e.Must(scale(e, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: row.name}}, pods))
			}
		}
		for _, row := range rows {
			writes := 2 + round
			if row.replica > 0 {
				writes += min(round+1, 2) // corrections
			}
			if row.writer != hpa {
				e.Until(fmt.Sprintf("%s has reacted to %d pods", row.name, pods), func() error { return e.hasNumbers(row.name, row.numbers[:writes]) })
			}
		}
	}
	for _, row := range rows {
		e.Until(row.name+" has the last number", func() error {
			named := e.namesWriter(row.name, row.writer)
			if row.replica == 0 {
				named = stage.Unless(named != nil, "the status reports a conflict")
			}
			return errors.Join(e.hasNumbers(row.name, row.numbers), named)
		})
		e.passes(row.name)
		e.Must(e.hasNumbers(row.name, row.numbers))
		written := op.Since(0, func(r harness.Sent) bool {
			return r.WritesObject() && r.Resource == "deployments" && r.Name == row.name && r.Code < http.StatusMultipleChoices
		})
		if want := 1 + min(row.replica, 2); len(written) != want { // the creation, and two corrections
			t.Errorf("the operator wrote Deployment %s %d times, not %d times", row.name, len(written), want)
		}
	}
}

// oneService returns a DataService with one service of the same name. replica 0 means that the spec does not set the number of pods.
func oneService(name string, replica int) *unstructured.Unstructured {
	service := fields{"name": name, "image": "registry.example/work:v1", "port": int64(80)}
	if replica > 0 {
		service["replica"] = int64(replica)
	}
	return &unstructured.Unstructured{Object: fields{
		"apiVersion": dsv1.GroupVersion.String(), "kind": dsv1.Kind, "metadata": fields{"name": name}, "spec": fields{"additionalServices": []any{service}},
	}}
}

// autoscalerOf returns a HorizontalPodAutoscaler that sets three pods. It needs no metrics, because Kubernetes always applies its minimum.
func autoscalerOf(namespace, deployment string) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: deployment},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: deployment},
			MinReplicas:    ptr.To[int32](3), MaxReplicas: 3,
		},
	}
}

// hasNumbers returns an error unless a Deployment has had these numbers of pods, and the status has the last number. Each number is a write
// of the spec, also if it equals the number before.
func (e *env) hasNumbers(name string, want []int32) error {
	var numbers []int32
	generation := int64(0)
	for _, c := range e.Since(0) {
		if d, is := c.Object.(*appsv1.Deployment); is && d.Name == name && d.Generation > generation {
			generation, numbers = d.Generation, append(numbers, *d.Spec.Replicas)
		}
	}
	c := e.componentStatus(name, name)
	return stage.Unless(slices.Equal(numbers, want) && c.Ready == want[len(want)-1], fmt.Sprintf("%s had %v pods, not %v; the status: %+v", name, numbers, want, c))
}

// namesWriter returns an error unless the status reports that another writer keeps changing the number of pods of a service's Deployment.
func (e *env) namesWriter(name, writer string) error {
	c := e.componentStatus(name, name)
	want := dsv1.Culprit{Kind: "Deployment", Name: name, Reason: dsv1.ReasonContested}
	return errors.Join(
		stage.Unless(c.Culprit != nil && *c.Culprit == want, fmt.Sprintf("the culprit is %+v", c.Culprit)),
		harness.Mentions(c.Message, "Deployment "+name, "keeps changing the number of pods (field manager "+writer+")", "sets it to 2", "remove `spec.additionalServices["+name+"].replica`"),
		harness.Mentions(e.DataService(name).Status.Message, "Deployment "+name, "keeps changing the number of pods"),
	)
}
