// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// While the database is down a service's new revision waits; what runs is healed and scaled.
func TestNewRevisionWaitsForMiddleware(t *testing.T) {
	e := parallel(t)
	op := e.Start()
	name := e.CreateReady(small())
	e.setPodReady(e.pods("mysql")[0], false)
	e.Until("mysql is not ready", func() error { return e.component(name, "mysql", dsv1.PhaseDegraded) })

	mark := op.Mark()
	e.Change(name, fields{"auth": fields{"image": "registry.example/auth:v2"}})
	e.Until("auth waits", func() error {
		if err := e.component(name, "auth", dsv1.PhasePending); err != nil {
			return err
		}
		return harness.Mentions(e.componentStatus(name, "auth").Message, "keeps running", "waits for mysql")
	})
	e.equal("written while mysql is down", harness.Objects(op.Since(mark, harness.Sent.WritesObject)), nil)

	web := harness.Lookup[*appsv1.Deployment](e.Journal, "web")
	e.Must(api.Delete(e.Ctx, web.DeepCopy()))
	e.Until("web is healed", func() error {
		now := harness.Lookup[*appsv1.Deployment](e.Journal, "web")
		return stage.Unless(now != nil && now.UID != web.UID && now.Status.ReadyReplicas == 1, "it is not back")
	})
	service := harness.Lookup[*corev1.Service](e.Journal, "auth")
	e.Must(api.Delete(e.Ctx, service.DeepCopy()))
	e.Until("a Service of the component that waits is healed", func() error {
		now := harness.Lookup[*corev1.Service](e.Journal, "auth")
		return stage.Unless(now != nil && now.UID != service.UID, "it is not back")
	})
	e.Change(name, fields{"proxy": fields{"replica": 3}})
	e.Until("proxy is scaled", func() error {
		return stage.Unless(harness.Lookup[*appsv1.Deployment](e.Journal, "proxy").Status.ReadyReplicas == 3, "it is not")
	})
	if e.runs("auth", "registry.example/auth:v2") {
		t.Error("auth runs its new revision though mysql is down")
	}

	e.setPodReady(e.pods("mysql")[0], true)
	e.Ready(name)
	e.Until("auth is updated", func() error { return stage.Unless(e.runs("auth", "registry.example/auth:v2"), "it is not") })
}

// setPodReady makes a pod ready or not, as the kubelet would.
func (e *env) setPodReady(p *corev1.Pod, ready bool) {
	e.Helper()
	status := `"False"`
	if ready {
		status = `"True"`
	}
	patch := `{"status":{"conditions":[{"type":"Ready","status":` + status + `},{"type":"ContainersReady","status":` + status + `}]}}`
	e.Must(api.Status().Patch(e.Ctx, p.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, []byte(patch))))
}

func (e *env) componentStatus(name, component string) dsv1.ComponentStatus {
	for _, c := range e.DataService(name).Status.Components {
		if c.Name == component {
			return c
		}
	}
	return dsv1.ComponentStatus{}
}

// component returns an error unless a component is in a phase.
func (e *env) component(name, component string, phase dsv1.Phase) error {
	c := e.componentStatus(name, component)
	return stage.Unless(c.Phase == phase, component+" is "+string(c.Phase)+": "+c.Message)
}

// Sequential creates one component after the other.
func TestSequentialOrder(t *testing.T) {
	e := parallel(t)
	e.Start()
	e.CreateReady(small(fields{"rollout": fields{"order": "Sequential"}}))
	e.createdAfter("uuc-probe", "mysql-dataservice")
	e.createdAfter("eureka", "uuc-probe")
	e.createdAfter("auth", "eureka")
	e.createdAfter("proxy", "auth")
	e.createdAfter("web", "proxy")
}

// createdAfter expects a Deployment to have been created after a pod of each of others was ready.
func (e *env) createdAfter(deployment string, others ...string) {
	e.Helper()
	created := e.First(0, "Deployment/"+deployment, func(c harness.Change) bool { return c.Event == watch.Added })
	if created == nil {
		e.Errorf("%s was never created", deployment)
		return
	}
	for _, other := range others {
		since := e.Since(0)
		ready := slices.IndexFunc(since, func(c harness.Change) bool {
			switch workload := c.Object.(type) {
			case *appsv1.StatefulSet:
				return workload.Name == other && workload.Status.ReadyReplicas == 1
			case *appsv1.Deployment:
				return workload.Name == other && workload.Status.ReadyReplicas == 1
			}
			return false
		})
		// The two come over different watches, which are not exactly in step.
		if ready < 0 || created.At.Before(since[ready].At.Add(-100*time.Millisecond)) {
			e.Errorf("%s was created before %s was ready", deployment, other)
		}
	}
}

// A dependency of the user's is waited for like those of the platform.
func TestDependsOn(t *testing.T) {
	e := parallel(t)
	e.Start()
	name := e.Create(small(fields{
		"auth":  fields{"dependsOn": []string{"proxy"}},
		"proxy": fields{"image": "registry.example/proxy:never-ready"},
	}))
	e.Until("auth waits for proxy", func() error {
		if e.DataService(name) == nil || e.componentStatus(name, "proxy").Phase != dsv1.PhaseCreating {
			return stage.Unless(false, "proxy is not being created")
		}
		return harness.Mentions(e.componentStatus(name, "auth").Message, "waits for proxy")
	})
	e.never("auth was created before proxy was ready", func() bool { return harness.Lookup[*appsv1.Deployment](e.Journal, "auth") != nil })
	e.ChangeReady(name, fields{"proxy": fields{"image": nil}})
}

// A spec that contradicts itself, or that the API server would refuse, is named with its path and changes nothing, also of
// other components; what ran keeps running.
func TestMistakeChangesNothing(t *testing.T) {
	e := parallel(t)
	op := e.Start()
	name := e.CreateReady(small())
	for i, c := range []struct {
		name   string
		change fields
		undo   fields
		says   []string
	}{
		{"cycle", fields{"auth": fields{"dependsOn": []string{"proxy"}}, "proxy": fields{"dependsOn": []string{"auth"}}},
			fields{"auth": fields{"dependsOn": nil}, "proxy": fields{"dependsOn": nil}},
			[]string{"spec.auth.dependsOn", "auth -> proxy -> auth"}},
		{"a value that only the API server judges",
			fields{"auth": fields{"sidecars": []any{fields{"name": "more", "image": "registry.example/more:v1", "ports": []any{fields{"containerPort": 99999}}}}}},
			fields{"auth": fields{"sidecars": nil}}, []string{"spec.auth", "spec.template.spec.containers[1].ports[0].containerPort"}},
		{"an overlay that the API server refuses", fields{"auth": fields{"podTemplate": fields{"spec": fields{"dnsPolicy": "Sometimes"}}}},
			fields{"auth": fields{"podTemplate": nil}}, []string{"spec.auth", "spec.template.spec.dnsPolicy"}},
		{"name of another's object", fields{"auth": fields{"name": "web-template"}}, fields{"auth": fields{"name": nil}},
			[]string{"spec.web.name", "ConfigMap web-template"}},
	} {
		t.Log(c.name) // one platform makes all mistakes: what is told of each is gone before the next
		image := fmt.Sprint("registry.example/web:v", i+2)
		before, mark := versions(e.made()...), op.Mark()
		harness.Merge(c.change, fields{"web": fields{"image": image}})
		e.Change(name, c.change)
		e.condition(name, dsv1.ConditionReady, metav1.ConditionFalse, dsv1.ReasonInvalidSpec, c.says...)
		e.condition(name, dsv1.ConditionStalled, metav1.ConditionTrue, dsv1.ReasonInvalidSpec, c.says...)
		if ds := e.DataService(name); ds.Status.Phase != dsv1.PhaseFailed || ds.Status.ObservedGeneration != ds.Generation {
			t.Errorf("phase %s, observed generation %d of %d", ds.Status.Phase, ds.Status.ObservedGeneration, ds.Generation)
		}
		e.never("something was written", func() bool { return len(op.Since(mark, harness.Sent.WritesObject)) > 0 })
		if n := len(op.Since(mark, harness.Sent.WritesStatus)); n > 1 {
			t.Errorf("%d status writes", n)
		}
		e.equal("objects that have changed", e.touched(before), nil)
		e.ChangeReady(name, c.undo)
		e.Until("the rest of the change is carried out", func() error { return stage.Unless(e.runs("web", image), "it is not") })
	}
}

// While paused nothing is written but the status; then all is caught up with.
func TestPaused(t *testing.T) {
	e := parallel(t)
	op := e.Start()
	name := e.CreateReady(small())
	e.Change(name, fields{"paused": true})
	e.condition(name, dsv1.ConditionPaused, metav1.ConditionTrue, dsv1.ReasonPaused)
	mark := op.Mark()
	e.Must(api.Delete(e.Ctx, harness.Lookup[*corev1.Service](e.Journal, "auth").DeepCopy()))
	e.Must(api.Delete(e.Ctx, harness.Lookup[*appsv1.Deployment](e.Journal, "proxy").DeepCopy()))
	e.Change(name, fields{"auth": fields{"image": "registry.example/auth:v2"}, "web": nil})
	e.Until("the change is seen", func() error {
		ds := e.DataService(name)
		return stage.Unless(ds.Status.ObservedGeneration == ds.Generation && ds.Status.Phase == dsv1.PhasePaused, "phase "+string(ds.Status.Phase))
	})
	e.never("something was written while paused", func() bool { return len(op.Since(mark, harness.Sent.WritesObject)) > 0 })
	if err := e.IsReady(name, 0); err == nil {
		t.Error("ready, though a Deployment is missing")
	}
	e.ChangeReady(name, fields{"paused": false})
	e.Until("auth is updated", func() error { return stage.Unless(e.runs("auth", "registry.example/auth:v2"), "it is not") })
	if harness.Lookup[*corev1.Service](e.Journal, "auth") == nil || harness.Lookup[*appsv1.Deployment](e.Journal, "proxy") == nil {
		t.Error("what was deleted is not back")
	}
	e.Until("web goes", func() error {
		return stage.Unless(harness.Lookup[*appsv1.Deployment](e.Journal, "web") == nil, "it is still there")
	})
}
