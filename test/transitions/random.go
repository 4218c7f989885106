// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
)

// rollBackEach: after so many steps of a random sequence the last one is rolled back, if it was carried out.
const rollBackEach = 3

// sequence changes properties at random, good values and wrong ones, each on top of those
// before, and takes all of them back at the end.
func (w *walker) sequence(ctx context.Context, of []*property, steps int) error {
	random := rand.New(rand.NewPCG(uint64(w.seed), 0))
	spec := clone(w.spec)
	var trail []string
	var last *moment // that was ready
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
	c := result{kind: "random sequence taken back", what: fmt.Sprintf("seed %d", w.seed), verdict: carriedOut}
	c.err = w.recovered(ctx)
	if c.err == nil {
		c.err = w.quiet()
	}
	w.report.add(c)
	return c.err
}

// mutate changes one property at random, or takes it or its component away.
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

// judge changes the spec and expects what the API server and the operator promise for whatever it is.
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
				return w.isWrong(generation, planErr.Error())
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

// outcome is what has become of a spec that has a plan, or what it lacks.
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
		planned, err := w.planned(ctx) // with what was generated meanwhile
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
	return failed, fmt.Errorf("neither ready nor a word why: phase %s: %s", ds.Status.Phase, ds.Status.Message)
}

// isWrong expects the spec to be named as wrong, in these words.
func (w *walker) isWrong(generation int64, words ...string) error {
	return w.says(w.name, generation, dsv1.ConditionDegraded, dsv1.ReasonInvalidSpec, words...)
}
