// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
)

const (
	// patience is how long anything may take that has no promise of its own; the machine may be busy.
	patience = 40 * time.Second
	// glance is how long a test looks on when nothing may happen; reactions take some 30 ms.
	glance = 400 * time.Millisecond

	sampleFile = harness.SampleFile
	sampleName = "dataservice-sample"
)

// env is a namespace and what a test does and sees in it.
type env struct {
	*testing.T
	*journal
	ctx       context.Context
	namespace string
}

// parallel gives a test a namespace while other tests run.
func parallel(t *testing.T) *env {
	t.Parallel()
	return alone(t)
}

// alone gives a test a namespace, and the machine for itself as far as this process goes.
func alone(t *testing.T) *env {
	t.Helper()
	ctx := t.Context()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "behaviour-"}}
	if err := api.Create(ctx, namespace); err != nil {
		t.Fatalf("create a namespace: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(excerpt(namespace.Name))
		}
		if own { // it goes with the cluster; addresses alone are scarce
			if err := api.DeleteAllOf(context.Background(), &corev1.Service{}, client.InNamespace(namespace.Name)); err != nil {
				t.Errorf("delete the Services: %v", err)
			}
			return
		}
		if err := api.Delete(context.Background(), namespace); client.IgnoreNotFound(err) != nil {
			t.Errorf("delete the namespace: %v", err)
		}
	})
	return &env{T: t, journal: newJournal(context.WithoutCancel(ctx), t, namespace.Name), ctx: context.WithoutCancel(ctx), namespace: namespace.Name}
}

// excerpt is the end of the log about a namespace.
func excerpt(namespace string) string {
	var lines []string
	for line := range strings.Lines(logs.String()) {
		if strings.Contains(line, namespace) && !strings.Contains(line, "Event occurred") {
			lines = append(lines, line)
		}
	}
	return "the operators' log:\n" + strings.Join(lines[max(0, len(lines)-15):], "")
}

// until waits until a condition holds; it returns what is missing, or nil.
func (e *env) until(what string, holds func() error) {
	e.Helper()
	if err := e.within(patience, holds); err != nil {
		e.Fatalf("%s: %v", what, err)
	}
}

// within waits until a condition holds and returns what is still missing when time is up.
func (e *env) within(limit time.Duration, holds func() error) error {
	// Now and then for conditions that look beyond the journal.
	return harness.Within(limit, 50*time.Millisecond, e.next, holds)
}

// never fails the test when a condition comes to hold while it looks on.
func (e *env) never(what string, happens func() bool) {
	e.Helper()
	if e.within(glance, func() error {
		if happens() {
			return nil
		}
		return errors.New("has not happened")
	}) == nil {
		e.Fatal(what)
	}
}

// must fails the test on an error.
func (e *env) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// remove deletes a DataService and waits until nothing that it controlled is left.
func (e *env) remove(name string) {
	e.Helper()
	ds := e.dataService(name)
	e.must(api.Delete(e.ctx, ds.DeepCopy()))
	e.until("everything owned goes", func() error {
		if e.dataService(name) != nil {
			return errors.New("the DataService is still there")
		}
		for _, object := range e.all() {
			if controlledBy(object, ds) {
				return fmt.Errorf("%s is still there", idOf(object))
			}
		}
		return nil
	})
}

// fields are parts of a resource, as in a patch.
type fields = harness.Fields

// sample returns the sample with changes, see harness.Sample.
func sample(changes ...fields) *unstructured.Unstructured { return harness.Sample(changes...) }

// small returns a DataService with the middleware, auth, proxy and web.
func small(changes ...fields) *unstructured.Unstructured { return harness.Small(changes...) }

// merge applies a JSON merge patch.
func merge(to, from fields) { harness.Merge(to, from) }

// create creates a DataService and returns its name.
func (e *env) create(ds *unstructured.Unstructured) string {
	e.Helper()
	ds = ds.DeepCopy()
	ds.SetNamespace(e.namespace)
	e.must(api.Create(e.ctx, ds))
	return ds.GetName()
}

// createReady creates a DataService and waits until it is ready.
func (e *env) createReady(ds *unstructured.Unstructured) string {
	e.Helper()
	name := e.create(ds)
	e.ready(name)
	return name
}

// change patches the spec of a DataService (JSON merge patch) and returns its new generation.
func (e *env) change(name string, spec fields) int64 {
	e.Helper()
	patch, err := json.Marshal(fields{"spec": spec})
	e.must(err)
	ds := &dsv1.DataService{ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: name}}
	e.must(api.Patch(e.ctx, ds, client.RawPatch(types.MergePatchType, patch)))
	return ds.Generation
}

// changeReady patches the spec of a DataService and waits until that is carried out.
func (e *env) changeReady(name string, spec fields) {
	e.Helper()
	generation := e.change(name, spec)
	e.until("ready after the change", func() error { return e.isReady(name, generation) })
}

// ready waits until a DataService is ready in its latest generation.
func (e *env) ready(name string) {
	e.Helper()
	ds := &dsv1.DataService{}
	e.must(api.Get(e.ctx, client.ObjectKey{Namespace: e.namespace, Name: name}, ds))
	e.until("ready", func() error { return e.isReady(name, ds.Generation) })
}

// isReady returns why a DataService is not ready in a generation, or nil. It does not take the
// status's word for it: workloads must be there as well.
func (e *env) isReady(name string, generation int64) error {
	ds := e.dataService(name)
	if ds == nil || ds.Status.ObservedGeneration < generation || ds.Generation < generation {
		return fmt.Errorf("%s has not observed generation %d", name, generation)
	}
	if err := hasCondition(ds, dsv1.ConditionReady, metav1.ConditionTrue, dsv1.ReasonAllReady); err != nil {
		return err
	}
	if ds.Status.Phase != dsv1.PhaseRunning {
		return fmt.Errorf("ready, but the phase is %s", ds.Status.Phase)
	}
	return nil
}

func (e *env) dataService(name string) *dsv1.DataService {
	return lookup[*dsv1.DataService](e.journal, name)
}

// hasCondition returns how a condition differs from what is asked for, or nil.
func hasCondition(ds *dsv1.DataService, kind string, status metav1.ConditionStatus, reason string) error {
	if ds == nil {
		return errors.New("the DataService is not there")
	}
	c := meta.FindStatusCondition(ds.Status.Conditions, kind)
	if c == nil {
		return fmt.Errorf("no condition %s; phase %q, message %q", kind, ds.Status.Phase, ds.Status.Message)
	}
	if c.Status != status || reason != "" && c.Reason != reason {
		return fmt.Errorf("condition %s is %s %s: %s; phase %q", kind, c.Status, c.Reason, c.Message, ds.Status.Phase)
	}
	return nil
}

// mentions returns what a text lacks, or nil.
func mentions(text string, parts ...string) error {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return fmt.Errorf("%q does not mention %q", text, part)
		}
	}
	return nil
}

// condition waits until a DataService has a condition whose message names all parts.
func (e *env) condition(name, kind string, status metav1.ConditionStatus, reason string, parts ...string) {
	e.Helper()
	e.until("condition "+kind, func() error {
		ds := e.dataService(name)
		if err := hasCondition(ds, kind, status, reason); err != nil {
			return err
		}
		return mentions(meta.FindStatusCondition(ds.Status.Conditions, kind).Message, parts...)
	})
}

// owned returns what a DataService controls.
func (e *env) owned(name string) []client.Object {
	ds := e.dataService(name)
	if ds == nil {
		return nil
	}
	return slices.DeleteFunc(e.all(), func(object client.Object) bool { return !controlledBy(object, ds) })
}

// names returns the names of the objects of a kind that the operator made, sorted.
func names[T client.Object](e *env) []string {
	var found []string
	for _, object := range every[T](e.journal) {
		if object.GetLabels()["app.kubernetes.io/managed-by"] == "d3os-operator" {
			found = append(found, object.GetName())
		}
	}
	return found
}

// equal fails the test unless two sorted lists are the same.
func (e *env) equal(what string, got, want []string) {
	e.Helper()
	if diff := difference(got, want); diff != "" {
		e.Errorf("%s: %s", what, diff)
	}
}

// difference says how two lists differ, whatever their order.
func difference(got, want []string) string { return harness.Difference(got, want) }

// unless returns an error unless something holds.
func unless(holds bool, otherwise string) error {
	if holds {
		return nil
	}
	return errors.New(otherwise)
}

// saying returns a text as an error; none for none.
func saying(text string) error { return unless(text == "", text) }

// get reads an object of the test's namespace, past the journal.
func get[T client.Object](e *env, object T, name string) T {
	e.Helper()
	e.must(api.Get(e.ctx, client.ObjectKey{Namespace: e.namespace, Name: name}, object))
	return object
}
