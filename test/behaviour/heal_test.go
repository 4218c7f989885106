// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// prompt is how soon a deleted or edited object is back.
const prompt = time.Second

// reactions is how long the operator took.
type reactions struct {
	n       int
	slowest time.Duration
	late    []string
}

func (r *reactions) add(what string, took time.Duration) {
	r.n++
	r.slowest = max(r.slowest, took)
	if took > prompt {
		r.late = append(r.late, fmt.Sprintf("%s took %s", what, took))
	}
}

// check allows for a machine that stumbles: an operator that is slow is so more than once in ten times.
func (r *reactions) check(t *testing.T) {
	t.Helper()
	t.Logf("%d reactions, the slowest after %s; late: %q", r.n, r.slowest, r.late)
	if len(r.late) > r.n/10 {
		t.Errorf("%d of %d reactions took more than %s", len(r.late), r.n, prompt)
	}
}

// Every object that is deleted comes back within a second, with what was in it, and nothing
// else is written.
func TestDeletedObjectsComeBack(t *testing.T) {
	e := alone(t)
	op := e.startOperator()
	name := e.createReady(sample())
	var healed reactions
	for _, object := range e.made() {
		id := idOf(object)
		mark, requests := e.mark(), op.mark()
		e.must(api.Delete(e.ctx, object.DeepCopyObject().(client.Object)))
		var back *change
		e.until(id+" is back", func() error {
			if back = e.first(mark, id, func(c change) bool { return c.event == watch.Added }); back == nil {
				return errors.New("it is missing")
			}
			return nil
		})
		if back.object.GetUID() == object.GetUID() {
			t.Errorf("%s was not deleted", id)
		}
		gone := e.first(mark, id, func(c change) bool { return c.event == watch.Deleted })
		healed.add(id, back.at.Sub(gone.at))
		if was, is := declared(object), declared(back.object); was != is {
			t.Errorf("%s came back different:\n%s\n%s", id, was, is)
		}
		e.ready(name)
		e.equal("written after "+id+" was deleted", objects(op.since(requests, request.WritesObject)), []string{id})
	}
	healed.check(t)
}

// edit is a change that somebody makes to an object.
type edit struct {
	name   string
	object client.Object
	of     string // name of the object
	change func(client.Object)
}

func onDeployment(name, of string, change func(*appsv1.Deployment)) edit {
	return edit{name, &appsv1.Deployment{}, of, func(o client.Object) { change(o.(*appsv1.Deployment)) }}
}

func onStatefulSet(name string, change func(*appsv1.StatefulSet)) edit {
	return edit{name, &appsv1.StatefulSet{}, "mysql-dataservice", func(o client.Object) { change(o.(*appsv1.StatefulSet)) }}
}

func onService(name, of string, change func(*corev1.Service)) edit {
	return edit{name, &corev1.Service{}, of, func(o client.Object) { change(o.(*corev1.Service)) }}
}

func onConfigMap(name, of string, change func(*corev1.ConfigMap)) edit {
	return edit{name, &corev1.ConfigMap{}, of, func(o client.Object) { change(o.(*corev1.ConfigMap)) }}
}

func onSecret(name, of string, change func(*corev1.Secret)) edit {
	return edit{name, &corev1.Secret{}, of, func(o client.Object) { change(o.(*corev1.Secret)) }}
}

var edits = []edit{
	onDeployment("replicas", "api-manager", func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](3) }),
	onDeployment("no replicas", "auth", func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](0) }),
	onDeployment("image", "ds-adapter", func(d *appsv1.Deployment) { pod(d).Containers[0].Image = "registry.example/other:v1" }),
	onDeployment("value of a variable", "api-manager", func(d *appsv1.Deployment) { variable(d, "writer").Value = "other" }),
	onDeployment("source of a variable", "auth", func(d *appsv1.Deployment) {
		*variable(d, "JWT_SECRET") = corev1.EnvVar{Name: "JWT_SECRET", Value: "known"}
	}),
	onDeployment("added variable", "es-adapter", func(d *appsv1.Deployment) {
		pod(d).Containers[0].Env = append(pod(d).Containers[0].Env, corev1.EnvVar{Name: "JAVA_TOOL_OPTIONS", Value: "-agentlib:x"})
	}),
	onDeployment("removed variable", "trd-adapter", func(d *appsv1.Deployment) { pod(d).Containers[0].Env = pod(d).Containers[0].Env[1:] }),
	onDeployment("resources", "gateway-master", func(d *appsv1.Deployment) { pod(d).Containers[0].Resources = corev1.ResourceRequirements{} }),
	onDeployment("probe", "gateway-web", func(d *appsv1.Deployment) { pod(d).Containers[0].ReadinessProbe = nil }),
	onDeployment("security context", "proxy", func(d *appsv1.Deployment) {
		pod(d).Containers[0].SecurityContext.AllowPrivilegeEscalation = ptr.To(true)
	}),
	onDeployment("volume", "web", func(d *appsv1.Deployment) { pod(d).Volumes[0].ConfigMap.Name = "auth" }),
	onDeployment("strategy", "eureka", func(d *appsv1.Deployment) {
		d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	}),
	onDeployment("labels", "ds-adapter", func(d *appsv1.Deployment) { delete(d.Labels, "app.kubernetes.io/instance") }),
	onDeployment("managed-by label", "es-adapter", func(d *appsv1.Deployment) { delete(d.Labels, "app.kubernetes.io/managed-by") }),
	onDeployment("owner", "trd-adapter", func(d *appsv1.Deployment) { d.OwnerReferences = nil }),
	onDeployment("digest", "gateway-web", func(d *appsv1.Deployment) { delete(d.Annotations, "d3os-product.com.d3os/digest") }),
	onDeployment("checksum of the pods", "web", func(d *appsv1.Deployment) { d.Spec.Template.Annotations["checksum/config"] = "0" }),

	onStatefulSet("replicas", func(s *appsv1.StatefulSet) { s.Spec.Replicas = ptr.To[int32](0) }),
	onStatefulSet("image", func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Image = "registry.example/other:v1" }),
	onStatefulSet("added variable", func(s *appsv1.StatefulSet) {
		c := &s.Spec.Template.Spec.Containers[0]
		c.Env = append(c.Env, corev1.EnvVar{Name: "MYSQL_ALLOW_EMPTY_PASSWORD", Value: "yes"})
	}),
	onStatefulSet("retention of claims", func(s *appsv1.StatefulSet) {
		s.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	}),
	onStatefulSet("owner", func(s *appsv1.StatefulSet) { s.OwnerReferences = nil }),
	onStatefulSet("managed-by label", func(s *appsv1.StatefulSet) { delete(s.Labels, "app.kubernetes.io/managed-by") }),

	onService("port", "auth", func(s *corev1.Service) { s.Spec.Ports[0].Port = 1234 }),
	onService("port of a node port", "web", func(s *corev1.Service) { s.Spec.Ports[0].Port = 1234 }),
	onService("target port", "proxy", func(s *corev1.Service) { s.Spec.Ports[0].TargetPort.IntVal = 1234 }),
	onService("added port", "eureka", func(s *corev1.Service) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "debug", Port: 5005})
	}),
	onService("selector", "web", func(s *corev1.Service) { s.Spec.Selector["app.kubernetes.io/name"] = "auth" }),
	onService("added selector", "mysql-dataservice", func(s *corev1.Service) { s.Spec.Selector["no"] = "pod" }),
	onService("type", "gateway-web", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer }),
	onService("external name", "uuc", func(s *corev1.Service) { s.Spec.ExternalName = "example.org" }),
	onService("labels", "ds-adapter", func(s *corev1.Service) { delete(s.Labels, "app.kubernetes.io/name") }),
	onService("managed-by label", "es-adapter", func(s *corev1.Service) { delete(s.Labels, "app.kubernetes.io/managed-by") }),
	onService("owner", "trd-adapter", func(s *corev1.Service) { s.OwnerReferences = nil }),

	onConfigMap("value", "auth", func(c *corev1.ConfigMap) { c.Data["application.properties"] = "appName=other" }),
	onConfigMap("removed key", "trd-adapter-py", func(c *corev1.ConfigMap) { c.Data = nil }),
	onConfigMap("added key", "mysql-dataservice-init", func(c *corev1.ConfigMap) { c.Data["99-more.sql"] = "drop database sdh_auth" }),
	onConfigMap("added binary key", "mysql-dataservice", func(c *corev1.ConfigMap) { c.BinaryData = map[string][]byte{"more.cnf": {1}} }),
	onConfigMap("labels", "web", func(c *corev1.ConfigMap) { delete(c.Labels, "app.kubernetes.io/instance") }),
	onConfigMap("managed-by label", "web-template", func(c *corev1.ConfigMap) { delete(c.Labels, "app.kubernetes.io/managed-by") }),
	onConfigMap("owner", "proxy", func(c *corev1.ConfigMap) { c.OwnerReferences = nil }),

	onSecret("added key", "dataservice-sample-platform", func(s *corev1.Secret) { s.Data["more"] = []byte("x") }),
	onSecret("removed key", "mysql-dataservice-credentials", func(s *corev1.Secret) { delete(s.Data, "password") }),
	onSecret("managed-by label", "dataservice-sample-platform", func(s *corev1.Secret) { delete(s.Labels, "app.kubernetes.io/managed-by") }),
	onSecret("owner", "dataservice-sample-platform", func(s *corev1.Secret) { s.OwnerReferences = nil }),
}

// Every edit of what the DataService declares is undone within a second, and nothing else is
// written.
func TestEditedObjectsArePutBack(t *testing.T) {
	e := alone(t)
	op := e.startOperator()
	name := e.createReady(sample())
	var healed reactions
	for _, edit := range edits {
		id := kindOf(edit.object) + "/" + edit.of
		what := id + ": " + edit.name
		mark, requests := e.mark(), op.mark()
		var live client.Object
		var before string
		e.must(retry.RetryOnConflict(retry.DefaultRetry, func() error { // its status changes at times
			live = get(e, edit.object, edit.of)
			before = declared(live)
			edit.change(live)
			return api.Update(e.ctx, live, client.FieldOwner("somebody-else"))
		}))
		if declared(live) == before {
			t.Fatalf("%s changes nothing", what)
		}
		edited := live.GetResourceVersion()
		var seen, back *change
		if err := e.within(5*time.Second, func() error {
			seen = e.first(mark, id, func(c change) bool { return c.object.GetResourceVersion() == edited })
			if seen == nil {
				return errors.New("the edit was not seen")
			}
			back = e.first(mark, id, func(c change) bool {
				return !c.at.Before(seen.at) && c.object.GetResourceVersion() != edited && declared(c.object) == before
			})
			if back == nil {
				return fmt.Errorf("it is not as before, and the DataService says %q:\n%s\n%s",
					e.dataService(name).Status.Message, before, declared(e.object(id)))
			}
			return nil
		}); err != nil {
			t.Errorf("%s: %v", what, err)
			e.must(api.Delete(e.ctx, live)) // so that the next edits have a fair start
			e.ready(name)
			continue
		}
		healed.add(what, back.at.Sub(seen.at))
		e.ready(name)
		e.equal("written after the edit "+what, objects(op.since(requests, request.WritesObject)), []string{id})
	}
	healed.check(t)
}

func pod(d *appsv1.Deployment) *corev1.PodSpec { return &d.Spec.Template.Spec }

func variable(d *appsv1.Deployment, name string) *corev1.EnvVar {
	env := pod(d).Containers[0].Env
	return &env[slices.IndexFunc(env, func(v corev1.EnvVar) bool { return v.Name == name })]
}

// declared is an object without its identity and what controllers add.
func declared(object client.Object) string {
	if object == nil {
		return "(missing)"
	}
	object = object.DeepCopyObject().(client.Object)
	annotations := object.GetAnnotations()
	delete(annotations, "deployment.kubernetes.io/revision")
	parts := fields{"labels": object.GetLabels(), "owners": owners(object)}
	if len(annotations) > 0 {
		parts["annotations"] = annotations
	}
	switch o := object.(type) {
	case *appsv1.Deployment:
		parts["spec"] = o.Spec
	case *appsv1.StatefulSet:
		parts["spec"] = o.Spec
	case *appsv1.DaemonSet:
		parts["spec"] = o.Spec
	case *corev1.Service:
		o.Spec.ClusterIP, o.Spec.ClusterIPs = "", nil
		parts["spec"] = o.Spec
	case *corev1.ConfigMap:
		parts["data"], parts["binary"] = o.Data, o.BinaryData
	case *corev1.Secret:
		parts["data"] = o.Data
	}
	text, err := json.Marshal(parts)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func owners(object metav1.Object) []string {
	var found []string
	for _, ref := range object.GetOwnerReferences() {
		found = append(found, fmt.Sprintf("%s %s %s %v", ref.Kind, ref.Name, ref.UID, ptr.Deref(ref.Controller, false)))
	}
	return found
}
