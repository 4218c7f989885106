// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// While the database is down, a service's new revision waits. The operator still repairs and scales running revisions.
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

// setPodReady sets the condition Ready of a pod, as the kubelet would.
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

// createdAfter expects that a Deployment was created after a pod of each other workload was ready, in the order of the API server's writes.
func (e *env) createdAfter(deployment string, others ...string) {
	e.Helper()
	changes := e.InOrder(0)
	created := slices.IndexFunc(changes, func(c harness.Change) bool { return c.ID == "Deployment/"+deployment && c.Event == watch.Added })
	if created < 0 {
		e.Errorf("%s was never created", deployment)
		return
	}
	for _, other := range others {
		ready := slices.IndexFunc(changes, func(c harness.Change) bool {
			switch workload := c.Object.(type) {
			case *appsv1.StatefulSet:
				return workload.Name == other && workload.Status.ReadyReplicas == 1
			case *appsv1.Deployment:
				return workload.Name == other && workload.Status.ReadyReplicas == 1
			}
			return false
		})
		if ready < 0 || created < ready {
			e.Errorf("%s was created before %s was ready", deployment, other)
		}
	}
}

// A component that changes its name or its kind answers at its old address until all its callers use
// the new address.
func TestReplacedComponentServesUntilAllUseTheNewOne(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		change  fields
		goes    []string // the old objects
		settled []string // workloads that must be settled first
	}{
		"name": {fields{"eureka": fields{"name": "registry"}}, []string{"Deployment/eureka", "Service/eureka"}, []string{"registry", "auth", "proxy"}},
		"kind": {fields{"eureka": fields{"kind": "StatefulSet"}}, []string{"Deployment/eureka"}, []string{"eureka as StatefulSet"}},
	} {
		t.Run(what, func(t *testing.T) {
			e := parallel(t)
			e.Start()
			name := e.CreateReady(small())
			generations := map[string]int64{}
			for _, d := range harness.Every[*appsv1.Deployment](e.Journal) {
				generations[d.Name] = d.Generation
			}
			mark := e.Mark()
			e.ChangeReady(name, test.change)
			for _, goes := range test.goes {
				e.Until("the old object goes", func() error { return stage.Unless(e.Object(goes) == nil, goes+" is still there") })
				last := e.settledBefore(goes, mark, generations)
				for _, workload := range test.settled {
					if !last[workload] {
						t.Errorf("%s was deleted before %s was settled: %v", goes, workload, last)
					}
				}
			}
		})
	}
}

// settledBefore reports for each workload whether it was settled when an object was deleted, in the order of the API server's writes. A
// Deployment is settled if it has a new generation and all pods of that generation are available. A StatefulSet is settled if all pods are
// ready.
func (e *env) settledBefore(goes string, mark int, generations map[string]int64) map[string]bool {
	last := map[string]bool{}
	for _, c := range e.InOrder(mark) {
		if c.ID == goes && (c.Event == watch.Deleted || c.Object.GetDeletionTimestamp() != nil) {
			break
		}
		switch o := c.Object.(type) {
		case *appsv1.Deployment:
			last[o.Name] = o.Generation != generations[o.Name] && o.Status.ObservedGeneration == o.Generation &&
				o.Status.UpdatedReplicas == *o.Spec.Replicas && o.Status.AvailableReplicas == *o.Spec.Replicas && o.Status.Replicas == *o.Spec.Replicas
		case *appsv1.StatefulSet:
			last[o.Name+" as StatefulSet"] = o.Status.ReadyReplicas == *o.Spec.Replicas
		}
	}
	return last
}

// One edit of the spec can move a node port to another component, even to one that is rolled out earlier, and can exchange two node
// ports.
func TestNodePortsMoveBetweenComponents(t *testing.T) {
	harness.Long(t)
	e := parallel(t)
	e.Start()
	ports := func(eureka, auth, web int) fields {
		return fields{"eureka": fields{"nodePort": eureka}, "auth": fields{"nodePort": auth}, "web": fields{"nodePort": web}}
	}
	name := e.CreateReady(small(ports(0, 0, 31957)))
	with := func(component string, more, all fields) fields {
		harness.Merge(all[component].(fields), more)
		return all
	}
	sequential := func(all fields) fields { all["rollout"] = fields{"order": "Sequential"}; return all }
	for _, c := range []struct {
		what   string
		change fields
	}{
		{"to an earlier component", ports(31957, 0, 0)},
		{"to a later component, and the earlier one gets a new port", ports(31958, 31957, 0)},
		{"along a chain of three components", ports(31957, 31956, 31958)},
		{"in a cycle of three components", ports(31956, 31958, 31957)},
		{"two components exchange their ports", ports(31956, 31957, 31958)},
		{"to an earlier component, with a sequential rollout", sequential(ports(31958, 31957, 0))},
		{"two components exchange their ports, with a sequential rollout", ports(31957, 31958, 0)},
		{"from a component that keeps any node port", with("eureka", fields{"serviceType": "NodePort"}, ports(0, 31957, 0))},
		{"from a component that is removed", fields{"eureka": fields{"nodePort": 31957}, "auth": nil}},
	} {
		e.ChangeReady(name, c.change)
		for component, want := range c.change {
			spec, _ := want.(fields)
			if port, _ := spec["nodePort"].(int); port != 0 {
				service := harness.Lookup[*corev1.Service](e.Journal, component)
				if service.Spec.Ports[0].NodePort != int32(port) || len(service.Spec.Ports) != 1 {
					t.Errorf("%s: ports of %s: %v, not %d", c.what, component, service.Spec.Ports, port)
				}
			}
		}
	}
}
