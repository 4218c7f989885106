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
	"k8s.io/apimachinery/pkg/types"

	"d3os.com/d3os-operator/test/fields"
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
	var all []batch
	byComponent := map[string][]chain{}
	var components []string
	for _, p := range of {
		c := chain{property: p, values: s.someOf(p)}
		if p.entry.Shares {
			all = append(all, batch{c})
			continue
		}
		if byComponent[p.component()] == nil {
			components = append(components, p.component())
		}
		byComponent[p.component()] = append(byComponent[p.component()], c)
	}
	for i := 0; ; i++ {
		var b batch
		for _, name := range components {
			if i < len(byComponent[name]) {
				b = append(b, byComponent[name][i])
			}
		}
		if b == nil {
			return all
		}
		all = append(all, b)
	}
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
		tried := min(len(values), few(p))
		s.report.leave("values of properties that are varied", len(values)-tried)
		values = values[:tried]
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
		for _, c := range b {
			w.report.wasVaried(c.property)
			for i, value := range c.values {
				w.report.add(result{kind: c.kindOf(w.spec, i), what: fmt.Sprintf("%s: %s", c, text(value)), verdict: carriedOut})
			}
			w.report.add(result{kind: c.last(w.spec), what: c.String(), verdict: carriedOut})
		}
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	back := w.recovered(ctx)
	if len(b) == 1 {
		w.report.wasVaried(b[0].property)
		w.report.add(result{kind: b[0].kindOf(w.spec, 0), what: b[0].String(), err: errors.Join(err, back)})
		return back
	}
	if back != nil {
		w.report.add(result{kind: "recovery", what: b.String(), err: errors.Join(err, back)})
		return back
	}
	failed := w.report.failures()
	for _, c := range b {
		if err := w.walkBatch(ctx, batch{c}); err != nil {
			return err
		}
	}
	if w.report.failures() == failed { // each alone is well
		w.report.add(result{kind: "together", what: b.String(), err: err})
	}
	return nil
}

// tryBatch gives each property its values one after the other, and then what it had.
func (w *walker) tryBatch(ctx context.Context, b batch) error {
	before := w.before
	lives, err := w.lives(ctx)
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
			c.set(spec, plain(c.values[min(i, len(c.values)-1)]), c.entry.With)
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
		now, err := w.lives(ctx)
		if err != nil {
			return err
		}
		for _, id := range fields.Compare(before, after).Changed {
			if now[id] != lives[id] && !slices.ContainsFunc(moving, func(c chain) bool { return c.entry.Replaces }) {
				return fmt.Errorf("%s: %s was deleted and created anew", describe(moving, i), id)
			}
		}
		before, lives = after, now
	}
	if last != nil {
		if _, err := w.goBack(ctx, last); err != nil {
			return err
		}
	}
	return w.recovered(ctx)
}

// lives returns which object has each name now.
func (w *walker) lives(ctx context.Context) (map[string]types.UID, error) {
	objects, err := w.space.Objects(ctx)
	if err != nil {
		return nil, err
	}
	found := map[string]types.UID{}
	for id, obj := range objects {
		found[id] = obj.GetUID()
	}
	return found, nil
}

// carryOut changes the spec and expects it to be carried out as planned, without a storm.
func (w *walker) carryOut(ctx context.Context, spec map[string]any) ([]*unstructured.Unstructured, error) {
	var after []*unstructured.Unstructured
	foreseen, err := w.foresee(ctx, spec, eachOf)
	if err != nil {
		return nil, err
	}
	return after, w.calm(3*len(w.before)+20, 60, func() error {
		generation, err := w.change(ctx, spec)
		if err != nil {
			return fmt.Errorf("the change is refused: %w", err)
		}
		if _, err = w.planned(ctx); err != nil {
			return fmt.Errorf("there is no plan: %w", err)
		}
		if err := w.until(func() error { return w.isReady(w.name, generation) }); err != nil {
			return err
		}
		if after, err = w.planned(ctx); err != nil { // with what was generated meanwhile
			return err
		}
		if err := w.until(func() error { return w.asPlanned(ctx, after, fields.Compare(w.before, after)) }); err != nil {
			return err
		}
		return w.came(ctx, foreseen)
	})
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
