// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/live"
)

var (
	backEnds = []string{"api-manager", "auth", "ds-adapter", "es-adapter", "trd-adapter", "gateway-master", "gateway-web", "proxy"}
	services = append(backEnds[:len(backEnds):len(backEnds)], "web")
)

// One apply of the sample, as it is, brings the whole platform up: middleware first, each
// object written once, under the product's names.
func TestSample(t *testing.T) {
	e := alone(t)
	op := e.Start(func(_ *rest.Config, o *manager.Options) {
		if own {
			o.WatchNamespaces = nil // as it is deployed
		}
	})
	ds := &unstructured.Unstructured{}
	e.Must(readYAML(sampleFile, &ds.Object))
	mark := op.Mark()
	name := e.CreateReady(ds)

	status := e.DataService(name).Status
	if status.Ready != "12/12" {
		t.Errorf("READY is %s", status.Ready)
	}
	e.equal("StatefulSets", names[*appsv1.StatefulSet](e), []string{"mysql-dataservice"})
	e.equal("Deployments", names[*appsv1.Deployment](e), append([]string{"eureka", "uuc-probe"}, services...))
	e.equal("Services", names[*corev1.Service](e), append([]string{"mysql-dataservice", "eureka", "uuc"}, services...))
	e.equal("ConfigMaps", names[*corev1.ConfigMap](e),
		append([]string{"mysql-dataservice", "mysql-dataservice-data", "mysql-dataservice-init", "trd-adapter-py", "web-template"}, services...))
	e.equal("Secrets", names[*corev1.Secret](e), []string{"mysql-dataservice-credentials", "dataservice-sample-platform"})
	if web := harness.Lookup[*corev1.Service](e.Journal, "web"); web.Spec.Type != corev1.ServiceTypeNodePort || web.Spec.Ports[0].NodePort != 30180 {
		t.Errorf("web is a Service of type %s with node port %d", web.Spec.Type, web.Spec.Ports[0].NodePort)
	}
	for _, object := range e.owned(name) {
		if workload, ok := object.(*appsv1.Deployment); ok && workload.Status.ReadyReplicas != 1 {
			t.Errorf("ready, but %s has %d ready pods", harness.IDOf(object), workload.Status.ReadyReplicas)
		}
	}

	here := func(is func(harness.Sent) bool) []harness.Sent {
		return op.Since(mark, func(r harness.Sent) bool { return is(r) && (r.Namespace == e.Namespace || r.Namespace == "") })
	}
	const all = 1 + 11 + 12 + 14 + 2
	e.equal("objects written", harness.Objects(here(harness.Sent.WritesObject)), harness.IDs(e.made()))
	if n := len(here(harness.Sent.WritesObject)); n != all {
		t.Errorf("%d writes for %d objects: %v", n, all, here(harness.Sent.WritesObject))
	}
	if writes := here(harness.Sent.WritesStatus); len(writes) > 15 {
		t.Errorf("%d status writes: %v", len(writes), writes)
	}
	if reads := here(harness.Sent.Reads); len(reads) > 8 {
		t.Errorf("%d reads: %v", len(reads), reads)
	}
	t.Logf("%d object writes, %d status writes, %d reads", len(here(harness.Sent.WritesObject)),
		len(here(harness.Sent.WritesStatus)), len(here(harness.Sent.Reads)))
	e.middlewareFirst(services)
	e.arrowsMoved(name)
	e.remove(name) // its node port is one for the whole cluster
}

// Every sample comes up as it is. No other test runs meanwhile: node ports are one for the whole
// cluster.
func TestSamples(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(cluster.Root(), "config/samples/*.yaml"))
	if err != nil || len(files) < 2 {
		t.Fatalf("the samples are missing: %v", err)
	}
	for _, file := range files {
		file := filepath.Base(file)
		if file == "kustomization.yaml" {
			continue
		}
		t.Run(file, func(t *testing.T) {
			e := parallel(t)
			e.Start()
			e.prerequisites()
			ds := &unstructured.Unstructured{}
			e.Must(readYAML("config/samples/"+file, &ds.Object))
			ds.SetNamespace(e.Namespace)
			// This operator does not know the agent's image, without which nothing is restored; test/backup shows that.
			unstructured.RemoveNestedField(ds.Object, "spec", "mysql", "restoreFrom")
			e.Must(api.Apply(e.Ctx, client.ApplyConfigurationFromUnstructured(ds), client.FieldOwner("kubectl")))
			e.Ready(ds.GetName())
			e.Until("all is as planned", func() error { return e.asPlanned(ds.GetName()) })
			if !own {
				e.remove(ds.GetName()) // its node ports are those of the whole cluster
			}
		})
	}
}

// prerequisites creates what the samples say that they need.
func (e *env) prerequisites() {
	e.Helper()
	e.Must(harness.Prerequisites(e.Ctx, api, e.Namespace))
}

// asPlanned returns how what is there differs from the plan of a DataService, or nil.
func (e *env) asPlanned(name string) error {
	planner, err := live.NewPlanner(config)
	if err != nil {
		return err
	}
	space := &live.Namespace{API: api, Planner: planner, Name: e.Namespace}
	planned, err := space.Planned(e.Ctx, get(e, &dsv1.DataService{}, name))
	if err != nil {
		return err
	}
	objects, err := space.Objects(e.Ctx)
	if err != nil {
		return err
	}
	return space.Holds(e.Ctx, planned, planned, objects)
}

// made returns what the operator made: all that it manages but pods and claims.
func (e *env) made() []client.Object {
	var found []client.Object
	for _, object := range e.All() {
		switch object.(type) {
		case *corev1.Pod, *corev1.PersistentVolumeClaim:
			continue
		}
		if object.GetLabels()["app.kubernetes.io/managed-by"] == "d3os-operator" {
			found = append(found, object)
		}
	}
	return found
}

// middlewareFirst holds the order of creation against the promise: a service's Deployment
// appears after the pods of all middleware became ready.
func (e *env) middlewareFirst(services []string) {
	e.Helper()
	ready := map[string]time.Time{}
	for _, c := range e.Since(0) {
		up := false
		switch workload := c.Object.(type) {
		case *appsv1.StatefulSet:
			up = workload.Status.ReadyReplicas == 1
		case *appsv1.Deployment:
			up = workload.Status.ReadyReplicas == 1
		}
		if up && ready[c.Object.GetName()].IsZero() {
			ready[c.Object.GetName()] = c.At
		}
	}
	for _, service := range services {
		created := e.First(0, "Deployment/"+service, func(c harness.Change) bool { return c.Event == watch.Added })
		if created == nil {
			e.Errorf("%s was never created", service)
			continue
		}
		for _, middleware := range []string{"mysql-dataservice", "eureka", "uuc-probe"} {
			// The two come over different watches, which are not exactly in step.
			if at, ok := ready[middleware]; !ok || created.At.Before(at.Add(-100*time.Millisecond)) {
				e.Errorf("%s was created at %s, %s was ready at %s", service, created.At, middleware, at)
			}
		}
	}
}

// arrowsMoved expects the arrow line to have shown what was being worked on.
func (e *env) arrowsMoved(name string) {
	e.Helper()
	brackets := regexp.MustCompile(`\[[a-z-]+\]`)
	var messages []string
	bracketed := map[string]bool{}
	for _, c := range e.Since(0) {
		ds, ok := c.Object.(*dsv1.DataService)
		if !ok || ds.Name != name || ds.Status.Message == "" {
			continue
		}
		messages = append(messages, ds.Status.Message)
		if set := strings.Join(brackets.FindAllString(ds.Status.Message, -1), ""); set != "" {
			bracketed[set] = true
		}
	}
	if len(bracketed) < 2 {
		e.Errorf("the brackets did not move: %q", messages)
	}
	const end = "mysql->uuc->eureka->api-manager->auth->ds-adapter->es-adapter->trd-adapter->gateway-master->gateway-web->proxy->web"
	if last := messages[len(messages)-1]; last != end {
		e.Errorf("the message at the end is %q", last)
	}
}
