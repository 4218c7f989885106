// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// A component that changes its name or its kind answers under what its callers use until they, too,
// use the new one.
func TestReplacedComponentServesUntilAllUseTheNewOne(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		change  fields
		goes    []string // the old objects
		settled []string // workloads that are to be settled before
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
						t.Errorf("%s went before %s was settled: %v", goes, workload, last)
					}
				}
			}
		})
	}
}

// settledBefore returns of each workload whether it was settled when an object went: a Deployment, with another generation than
// here and all its pods of it available; a StatefulSet, with all its pods ready.
func (e *env) settledBefore(goes string, mark int, generations map[string]int64) map[string]bool {
	last := map[string]bool{}
	for _, c := range e.Since(mark) {
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

// A component whose Service has a node port can be renamed: one of the two Services must go first.
func TestRenamedComponentKeepsItsNodePort(t *testing.T) {
	harness.Long(t)
	e := parallel(t)
	e.Start()
	name := e.CreateReady(small(fields{"web": fields{"nodePort": 31947}}))
	e.ChangeReady(name, fields{"web": fields{"name": "front"}})
	e.Until("the old one goes", func() error {
		return stage.Unless(e.Object("Service/web") == nil && e.Object("Deployment/web") == nil, "it is still there")
	})
	if port := harness.Lookup[*corev1.Service](e.Journal, "front").Spec.Ports[0].NodePort; port != 31947 {
		t.Errorf("node port %d", port)
	}
}

// A node port moves to another component in one edit of the spec, also to one that is rolled out earlier, and two are exchanged.
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
		{"three in a row", ports(31958, 31957, 0)},
		{"round", ports(31957, 31956, 31958)},
		{"round again", ports(31956, 31958, 31957)},
		{"two exchanged", ports(31956, 31957, 31958)},
		{"to an earlier component, in order", sequential(ports(31958, 31957, 0))},
		{"two exchanged, in order", ports(31957, 31958, 0)},
		{"a component of any node port gives its own up", with("eureka", fields{"serviceType": "NodePort"}, ports(0, 31957, 0))},
		{"a component that goes gives it up", fields{"eureka": fields{"nodePort": 31957}, "auth": nil}},
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
