// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// originalComponent is what the original operator made of one component: a workload, a Service and
// ConfigMaps.
type originalComponent struct {
	name    string
	port    int32
	configs []string
}

// originalComponents are the components of the sample. The twelfth, uuc, is a third party's: it had
// no object at all.
var originalComponents = []originalComponent{
	{"mysql-dataservice", 3306, []string{"mysql-dataservice", "mysql-dataservice-init"}},
	{"eureka", 8761, nil},
	{"api-manager", 9085, []string{"api-manager"}},
	{"auth", 9081, []string{"auth"}},
	{"ds-adapter", 9086, []string{"ds-adapter"}},
	{"es-adapter", 9087, []string{"es-adapter"}},
	{"trd-adapter", 9088, []string{"trd-adapter", "trd-adapter-py"}},
	{"gateway-master", 9184, []string{"gateway-master"}},
	{"gateway-web", 9084, []string{"gateway-web"}},
	{"proxy", 9094, []string{"proxy"}},
	{"web", 80, []string{"web", "web-template"}},
}

// objects returns the component's objects, as the original operator labelled and owned them.
func (c originalComponent) objects(ds *dsv1.DataService) []client.Object {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Name: name, Namespace: ds.Namespace, Labels: map[string]string{"dataservice": ds.Name, "app": c.name},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(ds, dsv1.GroupVersion.WithKind(dsv1.Kind))},
		}
	}
	var made []client.Object
	for _, name := range c.configs {
		made = append(made, &corev1.ConfigMap{ObjectMeta: meta(name), Data: map[string]string{"application.yml": "server: {}\n"}})
	}
	app := map[string]string{"app": c.name}
	made = append(made, &corev1.Service{ObjectMeta: meta(c.name), Spec: corev1.ServiceSpec{
		Selector: app, Ports: []corev1.ServicePort{{Name: "http", Port: c.port}},
	}})
	pods := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: app},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: c.name, Image: "registry.example/" + c.name, Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: c.port}},
		}}},
	}
	selector := &metav1.LabelSelector{MatchLabels: app}
	if c.name == "mysql-dataservice" {
		return append(made, &appsv1.StatefulSet{ObjectMeta: meta(c.name), Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](1), Selector: selector, Template: pods}})
	}
	return append(made, &appsv1.Deployment{ObjectMeta: meta(c.name), Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](1), Selector: selector, Template: pods}})
}

// original brings up what the original operator made for a DataService, and waits until it runs.
func (e *env) original(ds *dsv1.DataService) []client.Object {
	e.Helper()
	var made []client.Object
	for _, c := range originalComponents {
		for _, object := range c.objects(ds) {
			e.Must(api.Create(e.Ctx, object))
			made = append(made, object)
		}
	}
	e.Until("the original's pods run", func() error {
		for _, c := range originalComponents {
			ready := int32(0)
			if set := harness.Lookup[*appsv1.StatefulSet](e.Journal, c.name); set != nil {
				ready = set.Status.AvailableReplicas
			} else if deployment := harness.Lookup[*appsv1.Deployment](e.Journal, c.name); deployment != nil {
				ready = deployment.Status.AvailableReplicas
			}
			if ready != 1 {
				return fmt.Errorf("%s has no pod that is available", c.name)
			}
		}
		return nil
	})
	return made
}

// contents returns the version of every object of the namespace but the DataService and events.
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

// What the original operator made for a DataService names it as its controller. It is left exactly
// as it is, nothing is put beside it, and the status says so. Once it is gone, ours comes up.
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
	e.never("something is written", func() bool { return len(op.Since(0, harness.Sent.WritesObject)) > 0 })
	e.equal("objects that are not as they were", changed(before, e.contents()), nil)

	for _, object := range made {
		e.Must(api.Delete(e.Ctx, object, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	}
	e.Ready(name)
}

// changed returns what two states differ in.
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
