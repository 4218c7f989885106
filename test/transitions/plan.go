// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// where says which base a property is varied on: one on which it means something.
func where(p *property) string {
	switch component := p.component(); component {
	case "mysql", "eureka":
		if slices.Contains(p.path, "thirdParty") {
			return "elsewhere"
		}
		return "middleware"
	case "uuc":
		if slices.Contains(p.path, "thirdParty") || p.leaf() == "version" {
			return "middleware"
		}
		return "elsewhere"
	case "additionalServices", "cronJobs":
		return "elsewhere"
	case "defaults", "networkPolicy", "rollout", "paused":
		return "middleware"
	}
	return "services"
}

// job is what one walker does from its start to its end.
type job struct {
	name string
	base string
	do   func(context.Context, *walker) error
	seed int64
}

// walkersAtOnce: they mostly wait.
const walkersAtOnce = 8

// transitions is the whole suite.
func transitions(ctx context.Context, s *suite) error {
	jobs := s.sequences()
	if !s.only {
		jobs = slices.Concat(s.chains(), s.wrong(), scenarios(), jobs)
	}
	if s.jobs != "" {
		jobs = slices.DeleteFunc(jobs, func(j job) bool { return !strings.Contains(j.name, s.jobs) })
	}
	if err := s.run(ctx, jobs); err != nil {
		return err
	}
	if s.only || s.jobs != "" {
		return nil
	}
	return s.report.coverage(s.all)
}

// run does jobs, several at once.
func (s *suite) run(ctx context.Context, jobs []job) error {
	var group errgroup.Group
	group.SetLimit(walkersAtOnce)
	for _, j := range jobs {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			start := time.Now()
			err := s.runJob(ctx, j)
			fmt.Fprintf(os.Stderr, "  %s: %s\n", j.name, time.Since(start).Round(time.Second))
			return err
		})
	}
	return group.Wait()
}

func (s *suite) runJob(ctx context.Context, j job) (err error) {
	w, err := s.walk(ctx)
	if err != nil {
		return err
	}
	w.seed = j.seed
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, w.end(ending))
	}()
	if j.base != "" {
		spec, err := base(j.base)
		if err != nil {
			return err
		}
		if err := w.start(ctx, spec); err != nil {
			return fmt.Errorf("base %s: %w", j.base, err)
		}
	}
	return j.do(ctx, w)
}

// byBase groups the properties that are varied one by one.
func (s *suite) byBase() map[string][]*property {
	found := map[string][]*property{}
	for _, p := range s.all {
		if p.entry.Elsewhere != "" {
			s.report.listed[p.String()] = p.entry.Elsewhere
			continue
		}
		if p.left {
			s.report.listed[p.String()] = "left to another component, which has it alike (TRANSITIONS=full varies it on each)"
			continue
		}
		found[where(p)] = append(found[where(p)], p)
	}
	return found
}

// shares is how many walkers share the batches of a base.
var shares = map[string]int{"services": 1, "middleware": 3, "elsewhere": 3}

// chains gives every property its values.
func (s *suite) chains() []job {
	var jobs []job
	of := s.byBase()
	for _, name := range slices.Sorted(maps.Keys(of)) {
		batches := s.batches(of[name])
		for share := range shares[name] {
			jobs = append(jobs, job{name: fmt.Sprintf("chains of %s %d", name, share), base: name, do: func(ctx context.Context, w *walker) error {
				for i := share; i < len(batches); i += shares[name] {
					if err := w.walkBatch(ctx, batches[i]); err != nil {
						return err
					}
				}
				return nil
			}})
		}
	}
	return jobs
}

// sorts are the components that stand for others of their sort, as the base middleware has them.
var sorts = []string{"mysql", "uuc", "eureka", "web", "additionalServices", "cronJobs", "defaults", "networkPolicy", "rollout", "paused"}

// wrong tries what the operator has to refuse. What the API server refuses is the concern of api/v1, and of the random
// sequences.
func (s *suite) wrong() []job {
	const parts = 2
	of := s.mistaken()
	var jobs []job
	for part := range parts {
		jobs = append(jobs, job{name: fmt.Sprintf("wrong values %d", part), base: "middleware", do: func(ctx context.Context, w *walker) error {
			for i := part; i < len(of); i += parts {
				if err := w.mistakes(ctx, of[i].property, of[i].values); err != nil {
					return err
				}
				if last := i+parts >= len(of); s.full || last || i/parts%5 == 4 {
					if err := w.recovered(ctx); err != nil {
						w.report.add(result{kind: "wrong value", what: of[i].String() + " taken back", err: err})
						return err
					}
				}
			}
			return nil
		}})
	}
	return jobs
}

// mistaken are the properties with the values that the operator has to name as wrong; in the short
// form one of each, by turns.
func (s *suite) mistaken() []chain {
	var found []chain
	for i, p := range s.all {
		bad := p.entry.Bad
		if len(bad) == 0 || !slices.Contains(sorts, p.component()) {
			continue
		}
		if !s.full {
			const what = "wrong values (of each property one is tried, by turns; of those left to another component none)"
			if p.left && p.component() != "additionalServices" || p.component() == "web" {
				s.report.leave(what, len(bad))
				continue
			}
			s.report.leave(what, len(bad)-1)
			bad = bad[i%len(bad):][:1]
		}
		found = append(found, chain{property: p, values: bad})
	}
	return found
}

// sequences are the random ones.
func (s *suite) sequences() []job {
	number, steps := int64(2), 12
	if s.full {
		number, steps = 16, 40
	}
	first := s.first
	if s.only {
		number = 1
	} else {
		first = time.Now().UnixNano() % 1_000_000
	}
	var jobs []job
	for seed := first; seed < first+number; seed++ {
		name := []string{"middleware", "elsewhere"}[seed%2]
		var of []*property
		for _, p := range s.all {
			if p.entry.Elsewhere == "" && (where(p) == name || slices.Contains(sorts, p.component()) && name == "middleware") {
				of = append(of, p)
			}
		}
		jobs = append(jobs, job{name: fmt.Sprintf("seed %d", seed), base: name, seed: seed, do: func(ctx context.Context, w *walker) error {
			_ = w.sequence(ctx, of, steps) // the report has it
			return ctx.Err()
		}})
	}
	return jobs
}
