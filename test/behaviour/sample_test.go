// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
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
)

var (
	backEnds = []string{"api-manager", "auth", "ds-adapter", "es-adapter", "trd-adapter", "gateway-master", "gateway-web", "proxy"}
	services = append(backEnds[:len(backEnds):len(backEnds)], "web")
)

// One apply of the sample, as it is, brings the whole platform up: middleware first, each
// object written once, under the product's names.
func TestSample(t *testing.T) {
	e := alone(t)
	op := e.startOperator(func(_ *rest.Config, o *manager.Options) {
		if own {
			o.WatchNamespaces = nil // as it is deployed
		}
	})
	ds := &unstructured.Unstructured{}
	e.must(readYAML(sampleFile, &ds.Object))
	mark := op.mark()
	name := e.createReady(ds)

	status := e.dataService(name).Status
	if status.Ready != "12/12" {
		t.Errorf("READY is %s", status.Ready)
	}
	e.equal("StatefulSets", names[*appsv1.StatefulSet](e), []string{"mysql-dataservice"})
	e.equal("Deployments", names[*appsv1.Deployment](e), append([]string{"eureka", "uuc-probe"}, services...))
	e.equal("Services", names[*corev1.Service](e), append([]string{"mysql-dataservice", "eureka", "uuc"}, services...))
	e.equal("ConfigMaps", names[*corev1.ConfigMap](e),
		append([]string{"mysql-dataservice", "mysql-dataservice-init", "trd-adapter-py", "web-template"}, services...))
	e.equal("Secrets", names[*corev1.Secret](e), []string{"mysql-dataservice-credentials", "dataservice-sample-platform"})
	if web := lookup[*corev1.Service](e.journal, "web"); web.Spec.Type != corev1.ServiceTypeNodePort || web.Spec.Ports[0].NodePort != 30180 {
		t.Errorf("web is a Service of type %s with node port %d", web.Spec.Type, web.Spec.Ports[0].NodePort)
	}
	for _, object := range e.owned(name) {
		if workload, ok := object.(*appsv1.Deployment); ok && workload.Status.ReadyReplicas != 1 {
			t.Errorf("ready, but %s has %d ready pods", idOf(object), workload.Status.ReadyReplicas)
		}
	}

	here := func(is func(request) bool) []request {
		return op.since(mark, func(r request) bool { return is(r) && (r.Namespace == e.namespace || r.Namespace == "") })
	}
	const all = 1 + 11 + 12 + 13 + 2
	e.equal("objects written", objects(here(request.WritesObject)), ids(e.made()))
	if n := len(here(request.WritesObject)); n != all {
		t.Errorf("%d writes for %d objects: %v", n, all, here(request.WritesObject))
	}
	if writes := here(request.WritesStatus); len(writes) > 15 {
		t.Errorf("%d status writes: %v", len(writes), writes)
	}
	if reads := here(request.Reads); len(reads) > 8 {
		t.Errorf("%d reads: %v", len(reads), reads)
	}
	t.Logf("%d object writes, %d status writes, %d reads", len(here(request.WritesObject)),
		len(here(request.WritesStatus)), len(here(request.Reads)))
	e.middlewareFirst(services)
	e.arrowsMoved(name)
	e.remove(name) // its node port is one for the whole cluster
}

// made returns what the operator made: all that it manages but pods and claims.
func (e *env) made() []client.Object {
	var found []client.Object
	for _, object := range e.all() {
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
	for _, c := range e.since(0) {
		up := false
		switch workload := c.object.(type) {
		case *appsv1.StatefulSet:
			up = workload.Status.ReadyReplicas == 1
		case *appsv1.Deployment:
			up = workload.Status.ReadyReplicas == 1
		}
		if up && ready[c.object.GetName()].IsZero() {
			ready[c.object.GetName()] = c.at
		}
	}
	for _, service := range services {
		created := e.first(0, "Deployment/"+service, func(c change) bool { return c.event == watch.Added })
		if created == nil {
			e.Errorf("%s was never created", service)
			continue
		}
		for _, middleware := range []string{"mysql-dataservice", "eureka", "uuc-probe"} {
			// The two come over different watches, which are not exactly in step.
			if at, ok := ready[middleware]; !ok || created.at.Before(at.Add(-100*time.Millisecond)) {
				e.Errorf("%s was created at %s, %s was ready at %s", service, created.at, middleware, at)
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
	for _, c := range e.since(0) {
		ds, ok := c.object.(*dsv1.DataService)
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
