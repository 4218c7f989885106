// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/live"
)

var backEnds = []string{"api-manager", "auth", "ds-adapter", "es-adapter", "trd-adapter", "gateway-master", "gateway-web", "proxy"}

// One apply of the unchanged sample creates the whole platform: middleware first, and each object with one write. The names of the objects
// are in the golden files of internal/platform/plan.
func TestSample(t *testing.T) {
	e := alone(t)
	op := e.Start(func(_ *rest.Config, o *manager.Options) { o.WatchNamespaces = nil }) // watches all namespaces, like a deployed operator
	mark := op.Mark()
	name := e.CreateReady(harness.Read(harness.SampleFile))

	if ready := e.DataService(name).Status.Ready; ready != "12/12" {
		t.Errorf("READY is %s", ready)
	}
	for _, object := range e.owned(name) {
		if workload, ok := object.(*appsv1.Deployment); ok && workload.Status.ReadyReplicas != 1 {
			t.Errorf("ready, but %s has %d ready pods", harness.IDOf(object), workload.Status.ReadyReplicas)
		}
	}
	here := func(is func(harness.Sent) bool) []harness.Sent {
		return op.Since(mark, func(r harness.Sent) bool { return is(r) && (r.Namespace == e.Namespace || r.Namespace == "") })
	}
	made := harness.IDs(e.made())
	e.equal("objects written", harness.Objects(here(harness.Sent.WritesObject)), made)
	if writes := here(harness.Sent.WritesObject); len(writes) != len(made) {
		t.Errorf("%d writes for %d objects: %v", len(writes), len(made), writes)
	}
	// At most, the status shows each component as waiting, starting and ready, at different times.
	if writes := here(harness.Sent.WritesStatus); len(writes) > 3+2*12 {
		t.Errorf("%d status writes: %v", len(writes), writes)
	}
	if reads := readsOfOthers(here(harness.Sent.Reads), here(harness.Sent.WritesObject)); len(reads) > 8 {
		t.Errorf("%d reads: %v", len(reads), reads)
	}
	for _, service := range append([]string{"web"}, backEnds...) {
		e.createdAfter(service, "mysql-dataservice", "eureka", "uuc-probe")
	}
	e.eventOfEach()
	e.arrowsMoved(name)
	mark = op.Mark()
	e.remove(name) // frees the sample's node port, which only one Service of the cluster can use
	if writes := here(harness.Sent.WritesObject); len(writes) > 0 {
		t.Errorf("writes of objects for a deletion: %v", writes)
	}
}

// Every sample becomes ready unchanged. make test tests only the smallest sample and the sample with every field. TestSample tests the
// sample of the platform, and test/schema shows that the API server accepts all samples. No other test runs at the same time, because node
// ports are unique in the cluster.
func TestSamples(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(cluster.Root(), "config/samples/*.yaml"))
	if err != nil || len(files) < 2 {
		t.Fatalf("the samples are missing: %v", err)
	}
	for _, file := range files {
		info, err := os.Lstat(file)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Base(file)
		if file == "kustomization.yaml" || info.Mode()&os.ModeSymlink != 0 { // a link is another name of a sample
			continue
		}
		t.Run(file, func(t *testing.T) {
			if file != "minimal.yaml" && file != "everything.yaml" {
				harness.Long(t)
			}
			e := parallel(t)
			e.Start()
			e.Must(harness.Prerequisites(e.Ctx, api, e.Namespace))
			// This operator has no image of the agent. Without the agent no restore and no cron job with seconds runs; test/backup and
			// TestCronWithSeconds cover that.
			ds := harness.Read("config/samples/" + file)
			unstructured.RemoveNestedField(ds.Object, "spec", "mysql", "restoreFrom")
			if jobs, _, err := unstructured.NestedSlice(ds.Object, "spec", "cronJobs"); jobs != nil {
				e.Must(err)
				jobs = slices.DeleteFunc(jobs, func(job any) bool { return len(strings.Fields(job.(fields)["schedule"].(string))) == 6 })
				e.Must(unstructured.SetNestedSlice(ds.Object, jobs, "spec", "cronJobs"))
			}
			ds.SetNamespace(e.Namespace)
			e.Must(api.Apply(e.Ctx, client.ApplyConfigurationFromUnstructured(ds), client.FieldOwner("kubectl")))
			e.Ready(ds.GetName())
			e.Until("all is as planned", func() error { return e.asPlanned(ds.GetName()) })
		})
	}
}

// asPlanned returns the differences between the live objects and the plan of a DataService, or nil.
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

// eventOfEach waits for an event about each workload, which `kubectl describe` shows for a new platform.
func (e *env) eventOfEach() {
	e.Helper()
	e.Until("events", func() error {
		var seen, want []string
		for _, event := range harness.Every[*eventsv1.Event](e.Journal) {
			if event.Reason == "ComponentCreated" && event.Related != nil {
				seen = append(seen, event.Related.Kind+"/"+event.Related.Name)
			}
		}
		for _, id := range harness.IDs(e.made()) {
			if strings.HasPrefix(id, "Deployment/") || strings.HasPrefix(id, "StatefulSet/") {
				want = append(want, id)
			}
		}
		return saying(harness.Difference(seen, want))
	})
}

// arrowsMoved expects that the brackets in status.message have marked different components, and that the last message has no brackets.
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
