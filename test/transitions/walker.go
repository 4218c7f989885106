// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/test/fields"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/live"
)

const (
	// patience is how long anything may take; the machine may be busy.
	patience = time.Minute
	// glance is how long is looked on when nothing may happen; reactions take some 30 ms.
	glance = 300 * time.Millisecond
)

// walker is a DataService in a namespace of its own, with an operator of its own.
type walker struct {
	*suite
	space live.Namespace
	name  string
	op    *harness.Operator
	wrote *harness.Record // by all operators of the namespace
	seed  int64           // of what it does, where that is random

	spec   map[string]any               // it was created with
	before []*unstructured.Unstructured // planned then
	was    *live.Baseline               // there then

	seen    *harness.Journal // of DataServices
	changes int              // of the spec, so far
}

// walk makes a namespace with what specs refer to, and starts an operator for it.
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

// end stops the operator and takes the namespace's objects away.
func (w *walker) end(ctx context.Context) error {
	var err error
	if w.op != nil {
		err = w.op.Stop(patience)
	}
	err = errors.Join(err, w.seen.Close())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.space.Name}}
	return errors.Join(err, client.IgnoreNotFound(w.api.Delete(ctx, namespace)))
}

// last returns a DataService as last seen, or nil.
func (w *walker) last(name string) *dsv1.DataService {
	return harness.Lookup[*dsv1.DataService](w.seen, name)
}

// until waits until a condition holds; it returns what is missing when time is up.
func (w *walker) until(holds func() error) error { return w.within(patience, holds) }

func (w *walker) within(limit time.Duration, holds func() error) error {
	// Now and then for conditions that look beyond the DataServices.
	return harness.Within(limit, 100*time.Millisecond, w.seen.Next, holds)
}

// start creates the DataService and remembers what there is once it is ready.
func (w *walker) start(ctx context.Context, spec map[string]any) error {
	w.spec = clone(spec)
	generation, err := w.create(ctx, w.name, spec)
	if err != nil {
		return err
	}
	if err := w.until(func() error { return w.isReady(w.name, generation) }); err != nil {
		return fmt.Errorf("the start: %w", err)
	}
	return w.until(func() error {
		var err error
		if w.before, err = w.planned(ctx); err != nil {
			return err
		}
		objects, err := w.space.Objects(ctx)
		if err != nil {
			return err
		}
		w.was = live.NewBaseline(objects)
		return w.space.Holds(ctx, w.before, w.before, objects)
	})
}

// create creates a DataService and returns its generation.
func (w *walker) create(ctx context.Context, name string, spec map[string]any) (int64, error) {
	ds := w.resource(name, spec)
	err := w.api.Create(ctx, ds)
	return ds.GetGeneration(), err
}

func (w *walker) resource(name string, spec map[string]any) *unstructured.Unstructured {
	ds := &unstructured.Unstructured{Object: map[string]any{"spec": clone(spec)}}
	ds.SetGroupVersionKind(dsv1.GroupVersion.WithKind(dsv1.Kind))
	ds.SetName(name)
	ds.SetNamespace(w.space.Name)
	return ds
}

// change replaces the spec and returns the generation that it has then.
func (w *walker) change(ctx context.Context, spec map[string]any, options ...client.PatchOption) (int64, error) {
	patch, err := json.Marshal([]any{map[string]any{"op": "replace", "path": "/spec", "value": spec}})
	if err != nil {
		return 0, err
	}
	ds := w.resource(w.name, map[string]any{})
	err = w.api.Patch(ctx, ds, client.RawPatch(types.JSONPatchType, patch), options...)
	return ds.GetGeneration(), err
}

// planned returns the objects of the DataService as it is now.
func (w *walker) planned(ctx context.Context) ([]*unstructured.Unstructured, error) {
	ds := &dsv1.DataService{}
	if err := w.api.Get(ctx, client.ObjectKey{Namespace: w.space.Name, Name: w.name}, ds); err != nil {
		return nil, err
	}
	return w.space.Planned(ctx, ds)
}

// seenAt returns the DataService once the operator has seen a generation of it.
func (w *walker) seenAt(name string, generation int64) (*dsv1.DataService, error) {
	ds := w.last(name)
	return ds, harness.Observed(ds, generation)
}

// isReady returns why a DataService is not ready in a generation, or nil.
func (w *walker) isReady(name string, generation int64) error {
	return harness.IsReady(w.last(name), generation)
}

// says returns how a condition differs from what is asked for, or nil.
func (w *walker) says(name string, generation int64, kind, reason string, words ...string) error {
	ds, err := w.seenAt(name, generation)
	if err != nil {
		return err
	}
	return harness.HasCondition(ds, kind, metav1.ConditionTrue, reason, words...)
}

// asPlanned returns how what is there differs from the plan, or nil; what is not planned
// otherwise than before must be as before.
func (w *walker) asPlanned(ctx context.Context, planned []*unstructured.Unstructured, d fields.Difference) error {
	objects, err := w.space.Objects(ctx)
	if err != nil {
		return err
	}
	concerned := slices.Concat(d.Added, d.Changed, d.Removed)
	if err := w.was.Same(objects, func(id string) bool { return !slices.Contains(concerned, id) && !live.IsRecord(id) }); err != nil {
		return fmt.Errorf("what nobody changed: %w", err)
	}
	for _, id := range d.Changed {
		if objects[id] != nil && !w.was.Differs(objects[id]) {
			return fmt.Errorf("%s has not changed", id)
		}
	}
	asked := slices.DeleteFunc(slices.Clone(planned), func(obj *unstructured.Unstructured) bool {
		return !slices.Contains(d.Added, fields.ID(obj)) && !slices.Contains(d.Changed, fields.ID(obj))
	})
	return w.space.Holds(ctx, planned, asked, objects)
}

// recovered puts the spec back and waits until all is as at the start.
func (w *walker) recovered(ctx context.Context) error {
	foreseen, err := w.foresee(ctx, w.spec, eachOf)
	if err != nil {
		return fmt.Errorf("taking it back: %w", err)
	}
	generation, err := w.change(ctx, w.spec)
	if err != nil {
		return fmt.Errorf("taking it back: %w", err)
	}
	if err := w.until(func() error { return w.isReady(w.name, generation) }); err != nil {
		return fmt.Errorf("taken back: %w", err)
	}
	if err := w.until(func() error { return w.asBefore(ctx) }); err != nil {
		return fmt.Errorf("taken back, but not as before: %w", err)
	}
	if err := w.came(ctx, foreseen); err != nil {
		return fmt.Errorf("taken back: %w", err)
	}
	return nil
}

func (w *walker) asBefore(ctx context.Context) error {
	objects, err := w.space.Objects(ctx)
	if err != nil {
		return err
	}
	return w.was.Same(objects, func(string) bool { return true })
}

// calm runs something and bounds what the operator writes and complains about meanwhile.
func (w *walker) calm(objects, status int, do func() error) error {
	wrote, mark := w.wrote.Mark(), w.logs.mark()
	if err := do(); err != nil {
		return err
	}
	if n := len(w.wrote.Since(wrote, writesOther)); n > objects {
		return fmt.Errorf("a storm: %d writes of objects, %d expected at most", n, objects)
	}
	if n := len(w.wrote.Since(wrote, harness.Sent.WritesHistory)); n > histories {
		return fmt.Errorf("a storm: %d writes to the history, %d expected at most", n, histories)
	}
	if n := len(w.wrote.Since(wrote, harness.Sent.WritesStatus)); n > status {
		return fmt.Errorf("a storm: %d writes of the status, %d expected at most", n, status)
	}
	if lines := w.logs.since(mark, w.space.Name); len(lines) > 20 {
		return fmt.Errorf("a storm: %d errors in the log, such as %s", len(lines), shorten(lines[0], 600))
	}
	return nil
}

// histories is how often a step may write to the history: it changes the spec some times, and each time one revision is
// added and one may be dropped.
const histories = 10

// writesOther reports whether a request is to write anything but a status and the history of specs.
func writesOther(s harness.Sent) bool { return s.Writes() && !s.WritesStatus() && !s.WritesHistory() }

// quiet expects the operator to write nothing while it looks on.
func (w *walker) quiet() error {
	mark := w.wrote.Mark()
	if w.within(glance, func() error {
		if len(w.wrote.Since(mark, harness.Sent.Writes)) > 0 {
			return nil
		}
		return errors.New("nothing is written")
	}) == nil {
		return errors.New("the operator goes on writing though nothing changes")
	}
	return nil
}

// labelOf is the component that an object belongs to.
func labelOf(obj *unstructured.Unstructured) string {
	return obj.GetLabels()[object.LabelComponent]
}
