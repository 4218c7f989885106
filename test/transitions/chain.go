// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/test/fields"
	"d3os.com/d3os-operator/test/live"
)

// chain is one property and the values that it takes one after the other.
type chain struct {
	*property
	values []any
}

// batch is chains of different components, which are walked at once.
type batch []chain

func (b batch) String() string {
	var names []string
	for _, c := range b {
		names = append(names, c.String())
	}
	return strings.Join(names, " + ")
}

// few is how many values a property takes in the short form: one where others' manifests follow,
// all of them for a list of text, to push, pop and empty, two of what else there is.
func few(p *property) int {
	switch {
	case p.entry.Shares:
		return 1
	case p.schema.Type == "array" && p.schema.Items.Schema.Type == "string":
		return len(p.entry.Values)
	}
	return 2
}

// batches deals the properties of a base into batches: one of each component, but alone what
// changes other components' objects as well.
func (s *suite) batches(of []*property) []batch {
	var alone, together []batch
	next := map[string]int{} // by component: the batch that its next property goes into
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
	if len(p.path) == 2 && p.leaf() == "name" && !strings.HasSuffix(p.path[0], "[]") { // two components of a batch cannot have the same name
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

// nodePort returns a port that no other DataService has now: there is one for the whole
// cluster, and the API server takes those it chooses itself from further up.
func (s *suite) nodePort() int64 { return 30000 + s.ports.Add(1)%86 }

// walkBatch walks a batch, and its chains one by one if that fails, to find out which one fails.
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
	if w.report.failures() == before { // each alone is well
		w.report.add(result{kind: "together", what: b.String(), err: err})
	}
	return nil
}

// tryBatch gives each property its values one after the other, and then what it had.
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
				return fmt.Errorf("%s: %s was deleted and created anew", describe(moving, i), id)
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

// carryOut changes the spec and expects it to be carried out as planned, without a storm.
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
		if after, err = w.planned(ctx); err != nil { // with what was generated meanwhile
			return err
		}
		if err := w.eventually(ctx, w.asPlanned(ctx, after)); err != nil {
			return err
		}
		return w.came(ctx, foreseen)
	})
	return after, err
}

// asPlanned returns what tells how objects differ from the plan; what is not planned otherwise than
// before must be as before.
func (w *walker) asPlanned(ctx context.Context, planned []*unstructured.Unstructured) func(live.Objects) error {
	d := fields.Compare(w.before, planned)
	concerned := slices.Concat(d.Added, d.Changed, d.Removed)
	asked := slices.DeleteFunc(slices.Clone(planned), func(obj *unstructured.Unstructured) bool {
		return !slices.Contains(concerned, fields.ID(obj))
	})
	return func(objects live.Objects) error {
		if err := w.was.Same(objects, func(id string) bool { return !slices.Contains(concerned, id) && !live.IsRecord(id) }); err != nil {
			return fmt.Errorf("what nobody changed: %w", err)
		}
		for _, id := range d.Changed {
			if objects[id] != nil && !w.was.Differs(objects[id]) {
				return fmt.Errorf("%s has not changed", id)
			}
		}
		return w.space.Holds(ctx, planned, asked, objects)
	}
}

// shows expects each property that moved to show in its component's plan, or nowhere if it says so.
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
			return fmt.Errorf("%s: a change of the manifests: %t; the corpus says: %q", c, shown, c.entry.Silent)
		}
	}
	return nil
}

// labelOf is the component that an object belongs to.
func labelOf(obj *unstructured.Unstructured) string {
	return obj.GetLabels()[object.LabelComponent]
}
