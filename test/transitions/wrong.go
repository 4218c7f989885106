// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
)

// mistakes expects the operator to name a property whose value is wrong, and to change nothing
// meanwhile.
func (w *walker) mistakes(ctx context.Context, c chain) error {
	for _, value := range c.values {
		spec := clone(w.spec)
		c.set(spec, value, c.entry.With)
		err := w.mistake(ctx, spec, c.named)
		w.report.add(result{kind: "wrong value", what: fmt.Sprintf("%s: %s", c, text(value)), verdict: reported, err: err})
	}
	return w.recovered(ctx)
}

// mistake expects a spec to be named as wrong and not carried out: no object is written.
func (w *walker) mistake(ctx context.Context, spec map[string]any, named func(message string) error) error {
	return w.calm(0, 4, func() error {
		generation, err := w.change(ctx, spec)
		if err != nil {
			return fmt.Errorf("refused already: %w", err)
		}
		return w.until(func() error {
			if err := w.says(w.name, generation, dsv1.ConditionDegraded, dsv1.ReasonInvalidSpec); err != nil {
				if w.isReady(w.name, generation) == nil {
					return &harness.FinalError{Err: errors.New("it is carried out")}
				}
				return err
			}
			if err := named(w.last(w.name).Status.Message); err != nil {
				return &harness.FinalError{Err: err}
			}
			return w.says(w.name, generation, dsv1.ConditionStalled, dsv1.ReasonInvalidSpec)
		})
	})
}

// where is the property's component as conditions write it.
func (p *property) where() string {
	if item, isList := items[p.path[0]]; isList {
		return fmt.Sprintf("spec.%s[%s]", p.component(), item)
	}
	if p.component() == "defaults" { // what is wrong with it shows in the pods of some component
		return "spec."
	}
	return "spec." + p.component()
}

// named expects a message to name the property, or the place of a pod where the API server found it.
func (p *property) named(message string) error {
	if err := harness.Mentions(message, p.where()); err != nil {
		return err
	}
	for _, word := range []string{p.leaf(), "spec.template.", "spec.jobTemplate.", "its pods have"} {
		if strings.Contains(message, word) {
			return nil
		}
	}
	return fmt.Errorf("it does not name %s: %s", p.leaf(), shorten(message, 600))
}
