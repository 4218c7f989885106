// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/test/fields"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/live"
)

// rollBackEach is the number of steps of a random sequence between rollbacks. A rollback reverts a step that was carried out.
const rollBackEach = 3

// sequence changes properties at random. It keeps both valid and wrong values until the end, and then restores the spec.
func (w *walker) sequence(ctx context.Context, of []*property, steps int) error {
	random := rand.New(rand.NewPCG(uint64(w.seed), 0))
	spec := clone(w.spec)
	var trail []string
	var last *moment // last moment at which the DataService was ready
	for step := range steps {
		next, what := w.mutate(random, of, spec)
		trail = append(trail, what)
		c := result{kind: "random sequence", what: fmt.Sprintf("seed %d: %s", w.seed, strings.Join(trail, "; then "))}
		c.verdict, c.err = w.judge(ctx, next)
		w.report.add(c)
		if ctx.Err() != nil || c.err != nil {
			break
		}
		if c.verdict == refused {
			continue
		}
		spec = next
		now, err := w.remember(ctx)
		if err == nil && now != nil && last != nil && step%rollBackEach == rollBackEach-1 {
			c := result{kind: "random sequence rolled back", what: c.what, verdict: carriedOut}
			var back map[string]any
			if back, err = w.goBack(ctx, last); back != nil {
				spec = back
			}
			c.err = err
			w.report.add(c)
			now = nil
		}
		if err != nil {
			return errors.Join(err, w.recovered(ctx))
		}
		last = now
	}
	c := result{kind: "random sequence restored", what: fmt.Sprintf("seed %d", w.seed), verdict: carriedOut}
	c.err = w.recovered(ctx)
	if c.err == nil {
		c.err = w.quiet(ctx)
	}
	w.report.add(c)
	return c.err
}

// mutate changes one property at random, or removes it or its component.
func (w *walker) mutate(random *rand.Rand, of []*property, spec map[string]any) (map[string]any, string) {
	next := clone(spec)
	p := of[random.IntN(len(of))]
	values := p.entry.Values
	if p.leaf() == "nodePort" {
		values = []any{w.nodePort()}
	}
	switch draw := random.IntN(20); {
	case draw < 2:
		delete(next, p.component())
		return next, "without " + p.component()
	case draw < 5:
		delete(holderOf(next, p.path), p.leaf())
		return next, "without " + p.String()
	case draw < 8 && len(p.entry.Bad) > 0:
		values = p.entry.Bad
	case draw < 10 && len(p.entry.Refused) > 0:
		values = p.entry.Refused
	case draw < 11:
		values = []any{nil}
	}
	value := values[random.IntN(len(values))]
	p.set(next, value, p.entry.With)
	return next, fmt.Sprintf("%s = %s", p, text(value))
}

// judge changes the spec and expects one of the results that are allowed for any spec.
func (w *walker) judge(ctx context.Context, spec map[string]any) (verdict, error) {
	foreseen, foreseeErr := w.foresee(ctx, spec, eachOfSequence)
	generation, err := w.change(ctx, spec)
	switch {
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return refused, harness.Mentions(err.Error(), "spec")
	case err != nil:
		return failed, err
	}
	_, planErr := w.planned(ctx)
	if foreseeErr != nil && planErr == nil {
		return failed, foreseeErr
	}
	v := reported
	err = w.calm(3*len(w.before)+20, 60, func() error {
		return w.until(func() (err error) {
			if planErr != nil {
				return w.isWrong(generation, health.Refusal(planErr.Error()))
			}
			v, err = w.outcome(ctx, generation)
			return err
		})
	})
	if err == nil && v == carriedOut && !w.last(w.name).Spec.Paused {
		err = w.came(ctx, foreseen)
	}
	return v, err
}

// outcome returns the result for a spec that has a plan, or an error while the status shows no result.
func (w *walker) outcome(ctx context.Context, generation int64) (verdict, error) {
	ds, err := w.seenAt(w.name, generation)
	if err != nil {
		return failed, err
	}
	has := func(kind, reason string, words ...string) bool {
		return harness.HasCondition(ds, kind, metav1.ConditionTrue, reason, words...) == nil
	}
	switch {
	case harness.IsReady(ds, generation) == nil:
		planned, err := w.planned(ctx) // this plan contains the passwords that the operator has generated since
		if err != nil {
			return failed, err
		}
		objects, err := w.space.Objects(ctx)
		if err != nil {
			return failed, err
		}
		return carriedOut, w.asPlanned(ctx, planned)(objects)
	case ds.Spec.Paused && has(dsv1.ConditionPaused, ""):
		return carriedOut, nil
	case has(dsv1.ConditionDegraded, dsv1.ReasonInvalidSpec, "spec."):
		return reported, nil
	case has(dsv1.ConditionDegraded, dsv1.ReasonComponentFailing):
		return troubled, nil
	}
	return failed, fmt.Errorf("not ready, and no condition has a reason: phase %s: %s", ds.Status.Phase, ds.Status.Message)
}

// isWrong expects a condition that reports the spec as wrong, with these words. The condition shortens errors by
// health.Refusal, and omits the line breaks and double spaces of Kubernetes' messages.
func (w *walker) isWrong(generation int64, words ...string) error {
	return w.says(w.name, generation, dsv1.ConditionDegraded, dsv1.ReasonInvalidSpec, words...)
}

// chain is a property with the values to set, in order.
type chain struct {
	*property
	values []any
}

// batch is a set of chains of different components. tryBatch changes all of them at the same time.
type batch []chain

func (b batch) String() string {
	var names []string
	for _, c := range b {
		names = append(names, c.String())
	}
	return strings.Join(names, " + ")
}

// few returns the number of values of a property that the short form sets: 1 if the property changes
// manifests of other components, the number of all values if the property is a list of texts (push, pop and
// empty), and otherwise 2.
func few(p *property) int {
	switch {
	case p.entry.Shares:
		return 1
	case p.schema.Type == "array" && p.schema.Items.Schema.Type == "string":
		return len(p.entry.Values)
	}
	return 2
}

// batches distributes the properties of a base into batches. A batch contains at most one property of each component. A property that
// also changes objects of other components has a separate batch.
func (s *suite) batches(of []*property) []batch {
	var alone, together []batch
	next := map[string]int{} // by component: the batch of its next property
	for _, p := range of {
		c := chain{property: p, values: s.someOf(p)}
		if p.entry.Shares {
			alone = append(alone, batch{c})
			continue
		}
		i := next[p.component()]
		next[p.component()]++
		if i == len(together) {
			together = append(together, nil)
		}
		together[i] = append(together[i], c)
	}
	return append(alone, together...)
}

func (s *suite) someOf(p *property) []any {
	values := p.entry.Values
	if p.leaf() == "nodePort" {
		values = []any{s.nodePort(), s.nodePort()}
	}
	if len(p.path) == 2 && p.leaf() == "name" && !strings.HasSuffix(p.path[0], "[]") { // two components of a batch cannot get the same name
		values = slices.Clone(values)
		for i := range values {
			values[i] = fmt.Sprintf("%v-%s", values[i], p.component())
		}
	}
	if !s.full && !p.entry.All {
		values = values[:min(len(values), few(p))]
	}
	return values
}

// nodePort returns a port that no other DataService uses now: a cluster can use a port only once. The API server assigns higher ports.
func (s *suite) nodePort() int64 { return 30000 + s.ports.Add(1)%86 }

// walkBatch walks a batch. If that fails, it walks the chains one at a time to find the failing chain.
func (w *walker) walkBatch(ctx context.Context, b batch) error {
	err := w.tryBatch(ctx, b)
	if err == nil {
		w.report.varied.Add(int64(len(b)))
		for _, c := range b {
			for _, value := range c.values {
				w.report.add(result{kind: "change", what: fmt.Sprintf("%s: %s", c, text(value)), verdict: carriedOut})
			}
			w.report.add(result{kind: "change taken back", what: c.String(), verdict: carriedOut})
		}
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	back := w.recovered(ctx)
	if len(b) == 1 {
		w.report.varied.Add(1)
		w.report.add(result{kind: "change", what: b[0].String(), err: errors.Join(err, back)})
		return back
	}
	if back != nil {
		w.report.add(result{kind: "recovery", what: b.String(), err: errors.Join(err, back)})
		return back
	}
	before := w.report.failures()
	for _, c := range b {
		if err := w.walkBatch(ctx, batch{c}); err != nil {
			return err
		}
	}
	if w.report.failures() == before { // no single chain fails
		w.report.add(result{kind: "together", what: b.String(), err: err})
	}
	return nil
}

// tryBatch sets the values of each property, one after the other, and then restores the old value.
func (w *walker) tryBatch(ctx context.Context, b batch) error {
	before := w.before
	there, err := w.space.Objects(ctx)
	if err != nil {
		return err
	}
	var last *moment
	steps := 0
	for _, c := range b {
		steps = max(steps, len(c.values))
	}
	for i := range steps {
		spec := clone(w.spec)
		var moving []chain
		for _, c := range b {
			c.set(spec, c.values[min(i, len(c.values)-1)], c.entry.With)
			if i < len(c.values) {
				moving = append(moving, c)
			}
		}
		if w.full {
			if last, err = w.remember(ctx); err != nil {
				return err
			}
		}
		after, err := w.carryOut(ctx, spec)
		if err != nil {
			return fmt.Errorf("%s: %w", describe(moving, i), err)
		}
		if err := shows(moving, before, after); err != nil {
			return fmt.Errorf("%s: %w", describe(moving, i), err)
		}
		now, err := w.space.Objects(ctx)
		if err != nil {
			return err
		}
		for _, id := range fields.Compare(before, after).Changed {
			was, is := there[id], now[id]
			another := was == nil || is == nil || was.GetUID() != is.GetUID()
			if another && !slices.ContainsFunc(moving, func(c chain) bool { return c.entry.Replaces }) {
				return fmt.Errorf("%s: %s was replaced instead of updated", describe(moving, i), id)
			}
		}
		before, there = after, now
	}
	if last != nil {
		if _, err := w.goBack(ctx, last); err != nil {
			return err
		}
	}
	return w.recovered(ctx)
}

func describe(moving []chain, step int) string {
	var all []string
	for _, c := range moving {
		all = append(all, fmt.Sprintf("%s = %s", c, text(c.values[step])))
	}
	return strings.Join(all, ", ")
}

// carryOut changes the spec and expects the operator to apply the plan without unnecessary writes.
func (w *walker) carryOut(ctx context.Context, spec map[string]any) ([]*unstructured.Unstructured, error) {
	var after []*unstructured.Unstructured
	foreseen, err := w.foresee(ctx, spec, eachOf)
	if err != nil {
		return nil, err
	}
	err = w.calm(3*len(w.before)+20, 60, func() error {
		if err := w.become(ctx, spec); err != nil {
			return err
		}
		if after, err = w.planned(ctx); err != nil { // this plan contains the passwords that the operator has generated since
			return err
		}
		if err := w.eventually(ctx, w.asPlanned(ctx, after)); err != nil {
			return err
		}
		return w.came(ctx, foreseen)
	})
	return after, err
}

// asPlanned returns a function that compares objects with the plan. An object whose plan is unchanged must be unchanged.
func (w *walker) asPlanned(ctx context.Context, planned []*unstructured.Unstructured) func(live.Objects) error {
	d := fields.Compare(withoutDefault(w.before), withoutDefault(planned))
	concerned := slices.Concat(d.Added, d.Changed, d.Removed)
	asked := slices.DeleteFunc(slices.Clone(planned), func(obj *unstructured.Unstructured) bool {
		return !slices.Contains(concerned, fields.ID(obj))
	})
	return func(objects live.Objects) error {
		if err := w.was.Same(objects, func(id string) bool { return !slices.Contains(concerned, id) && !live.IsRecord(id) }); err != nil {
			return fmt.Errorf("a part that should not change: %w", err)
		}
		for _, id := range d.Changed {
			if objects[id] != nil && !w.was.Differs(objects[id]) {
				return fmt.Errorf("%s has not changed, but its plan has", id)
			}
		}
		return w.space.Holds(ctx, planned, asked, objects)
	}
}

// withoutDefault returns planned objects without a spec.replicas of 1, which live.Objects omits, too.
func withoutDefault(planned []*unstructured.Unstructured) []*unstructured.Unstructured {
	without := make([]*unstructured.Unstructured, len(planned))
	for i, o := range planned {
		without[i] = o
		if pods, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas"); pods == 1 {
			without[i] = o.DeepCopy()
			unstructured.RemoveNestedField(without[i].Object, "spec", "replicas")
		}
	}
	return without
}

// shows returns an error unless each changed property changes the plan of its component. A property that the corpus
// marks as silent must not change it.
func shows(moved []chain, before, after []*unstructured.Unstructured) error {
	d := fields.Compare(before, after)
	all := fields.ByID(slices.Concat(before, after))
	concerned := map[string]bool{}
	for _, id := range slices.Concat(d.Added, d.Removed, d.Changed) {
		concerned[labelOf(all[id])] = true
	}
	for _, c := range moved {
		name := c.component()
		if item, isList := items[c.path[0]]; isList {
			name = item
		}
		shown := concerned[name] || reaches(c.property) && !d.Empty()
		if shown == (c.entry.Silent != "") {
			return fmt.Errorf("%s: manifests changed: %t; the corpus has the reason for no change: %q", c, shown, c.entry.Silent)
		}
	}
	return nil
}

// labelOf returns the component of an object.
func labelOf(obj *unstructured.Unstructured) string {
	return obj.GetLabels()[object.LabelComponent]
}
