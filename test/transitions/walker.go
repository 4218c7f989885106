// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/fields"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/live"
)

// patience limits each wait. A wait exceeds it only in a hang.
const patience = 3 * time.Minute

// walker changes a DataService in a separate namespace with a separate operator.
type walker struct {
	*suite
	space live.Namespace
	name  string
	op    *harness.Operator
	wrote *harness.Record // writes of all operators of the namespace
	seed  int64           // seed of the walker's random choices

	spec   map[string]any               // spec at the creation
	before []*unstructured.Unstructured // planned objects at the creation
	was    *live.Baseline               // objects of the namespace at the creation

	seen    *harness.Journal // watches DataServices
	changes int              // number of changes of the spec so far
}

// walk creates a namespace with the objects that specs refer to, and starts an operator for it.
func (s *suite) walk(ctx context.Context) (*walker, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "transitions-"}}
	if err := s.api.Create(ctx, namespace); err != nil {
		return nil, fmt.Errorf("create a namespace: %w", err)
	}
	w := &walker{suite: s, name: "platform", wrote: &harness.Record{}}
	w.space = live.Namespace{API: s.api, Planner: s.planner, Name: namespace.Name}
	objects, err := fields.Objects()
	if err != nil {
		return nil, err
	}
	for _, obj := range objects {
		if obj.GetKind() != "PriorityClass" {
			obj.SetNamespace(namespace.Name)
		}
		if err := s.api.Create(ctx, obj); err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, err
		}
	}
	if w.seen, err = harness.NewJournal(ctx, s.api, namespace.Name, &dsv1.DataServiceList{}); err != nil {
		return nil, err
	}
	return w, w.operate(ctx)
}

// operate starts an operator for the namespace and waits until it is active.
func (w *walker) operate(ctx context.Context) (err error) {
	config, options := rest.CopyConfig(w.config), harness.ManagerOptions(w.space.Name)
	config.Wrap(w.wrote.Before)
	if w.op, err = harness.Start(ctx, config, options); err != nil {
		return err
	}
	return w.op.Active(patience)
}

// end stops the operator and deletes the namespace's objects.
func (w *walker) end(ctx context.Context) error {
	var err error
	if w.op != nil {
		err = w.op.Stop(patience)
	}
	err = errors.Join(err, w.seen.Close())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.space.Name}}
	return errors.Join(err, client.IgnoreNotFound(w.api.Delete(ctx, namespace)))
}

// last returns the last seen version of a DataService, or nil.
func (w *walker) last(name string) *dsv1.DataService {
	return harness.Lookup[*dsv1.DataService](w.seen, name)
}

// until waits until holds returns nil. When the time is up, it returns the last error of holds.
func (w *walker) until(holds func() error) error {
	// The interval is for conditions about objects that the journal does not watch.
	return harness.Within(patience, 100*time.Millisecond, w.seen.Next, holds)
}

// eventually waits until holds accepts the operators' objects in the namespace.
func (w *walker) eventually(ctx context.Context, holds func(objects live.Objects) error) error {
	return w.until(func() error {
		objects, err := w.space.Objects(ctx)
		if err != nil {
			return err
		}
		return holds(objects)
	})
}

// start creates the DataService, waits until it is ready, and stores its objects.
func (w *walker) start(ctx context.Context, spec map[string]any) error {
	w.spec = clone(spec)
	if err := w.createReady(ctx, w.name, spec); err != nil {
		return fmt.Errorf("the start: %w", err)
	}
	return w.eventually(ctx, func(objects live.Objects) (err error) {
		if w.before, err = w.planned(ctx); err != nil {
			return err
		}
		w.was = live.NewBaseline(objects)
		return w.space.Holds(ctx, w.before, w.before, objects)
	})
}

// createReady creates a DataService and waits until it is ready.
func (w *walker) createReady(ctx context.Context, name string, spec map[string]any) error {
	ds := w.resource(name, spec)
	if err := w.api.Create(ctx, ds); err != nil {
		return err
	}
	return w.until(func() error { return w.isReady(name, ds.GetGeneration()) })
}

func (w *walker) resource(name string, spec map[string]any) *unstructured.Unstructured {
	ds := &unstructured.Unstructured{Object: map[string]any{"spec": clone(spec)}}
	ds.SetGroupVersionKind(dsv1.GroupVersion.WithKind(dsv1.Kind))
	ds.SetName(name)
	ds.SetNamespace(w.space.Name)
	return ds
}

// change replaces the spec and returns the new generation.
func (w *walker) change(ctx context.Context, spec map[string]any) (int64, error) {
	patch, err := json.Marshal([]any{map[string]any{"op": "replace", "path": "/spec", "value": spec}})
	if err != nil {
		return 0, err
	}
	ds := w.resource(w.name, map[string]any{})
	err = w.api.Patch(ctx, ds, client.RawPatch(types.JSONPatchType, patch))
	return ds.GetGeneration(), err
}

// become replaces the spec and waits until the DataService is ready with the new spec.
func (w *walker) become(ctx context.Context, spec map[string]any) error {
	generation, err := w.change(ctx, spec)
	if err != nil {
		return fmt.Errorf("the change is refused: %w", err)
	}
	return w.until(func() error { return w.isReady(w.name, generation) })
}

// now reads the DataService from the API server, without a cache.
func (w *walker) now(ctx context.Context) (*dsv1.DataService, error) {
	ds := &dsv1.DataService{}
	return ds, w.api.Get(ctx, client.ObjectKey{Namespace: w.space.Name, Name: w.name}, ds)
}

// planned returns the plan for the present DataService.
func (w *walker) planned(ctx context.Context) ([]*unstructured.Unstructured, error) {
	ds, err := w.now(ctx)
	if err != nil {
		return nil, err
	}
	return w.space.Planned(ctx, ds)
}

// seenAt returns the DataService, and an error if the operator has not observed a generation of it.
func (w *walker) seenAt(name string, generation int64) (*dsv1.DataService, error) {
	ds := w.last(name)
	return ds, harness.Observed(ds, generation)
}

// isReady returns the reason why a DataService is not ready in a generation, or nil.
func (w *walker) isReady(name string, generation int64) error {
	return harness.IsReady(w.last(name), generation)
}

// says compares a condition with the expected one. It returns the difference, or nil.
func (w *walker) says(name string, generation int64, kind, reason string, words ...string) error {
	ds, err := w.seenAt(name, generation)
	if err != nil {
		return err
	}
	return harness.HasCondition(ds, kind, metav1.ConditionTrue, reason, words...)
}

// recovered restores the spec and waits until all objects are as at the start.
func (w *walker) recovered(ctx context.Context) error {
	foreseen, err := w.foresee(ctx, w.spec, eachOf)
	if err == nil {
		err = w.become(ctx, w.spec)
	}
	if err == nil {
		err = w.eventually(ctx, w.asBefore)
	}
	if err == nil {
		err = w.came(ctx, foreseen)
	}
	if err != nil {
		return fmt.Errorf("restore the spec: %w", err)
	}
	return nil
}

// asBefore returns the differences of objects from those at the start, or nil.
func (w *walker) asBefore(objects live.Objects) error {
	return w.was.Same(objects, func(string) bool { return true })
}

// calm runs a function, and fails if the operator exceeds a number of writes or log lines during the call.
func (w *walker) calm(objects, status int, do func() error) error {
	wrote, mark := w.wrote.Mark(), len(w.logs.String())
	if err := do(); err != nil {
		return err
	}
	atMost := func(what string, is func(harness.Sent) bool, most int) error {
		if n := len(w.wrote.Since(wrote, is)); n > most {
			return fmt.Errorf("too many writes: %d of %s, at most %d are expected", n, what, most)
		}
		return nil
	}
	err := errors.Join(
		atMost("objects", writesOther, objects),
		atMost("the history", harness.Sent.WritesHistory, histories),
		atMost("the status", harness.Sent.WritesStatus, status),
	)
	if err != nil {
		return err
	}
	complaints := 0
	for line := range strings.Lines(w.logs.String()[mark:]) {
		if !strings.Contains(line, w.space.Name) {
			continue
		}
		if complaints++; complaints > 20 {
			return fmt.Errorf("more than 20 errors in the log, such as %s", shorten(line, 600))
		}
	}
	return nil
}

// histories bounds the writes to the history in one step. A step changes the spec a few times. Each change adds one revision and may delete
// one revision.
const histories = 10

// writesOther reports whether a request writes anything except a status and the history of specs.
func writesOther(s harness.Sent) bool { return s.Writes() && !s.WritesStatus() && !s.WritesHistory() }

// quiet changes the message of the status, and expects the operator to write only the status. The operator compares all objects before it
// corrects the message, so any other write is a defect.
func (w *walker) quiet(ctx context.Context) error {
	const foreign = "another writer's message"
	ds, err := w.now(ctx)
	if err != nil {
		return err
	}
	right, mark := ds.Status.Message, w.wrote.Mark()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"message":"`+foreign+`"}}`))
	if err := w.api.Status().Patch(ctx, ds, patch); err != nil {
		return err
	}
	if err := w.until(func() error {
		if ds, err = w.now(ctx); err == nil && ds.Status.Message != right {
			err = fmt.Errorf("the message is still %q", ds.Status.Message)
		}
		return err
	}); err != nil {
		return err
	}
	if wrote := w.wrote.Since(mark, writesOther); len(wrote) > 0 {
		return fmt.Errorf("the operator writes although nothing changes: %v", wrote)
	}
	if wrote := w.wrote.Since(mark, harness.Sent.WritesStatus); len(wrote) != 1 {
		return fmt.Errorf("the status was written %d times, want 1: %v", len(wrote), wrote)
	}
	return nil
}
