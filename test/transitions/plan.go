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

// where returns the base whose components use a property.
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
	case "defaults", "networkPolicy", "rollout", "paused", "hibernate":
		return "middleware"
	}
	return "services"
}

// job is the task of one walker.
type job struct {
	name string
	base string
	do   func(context.Context, *walker) error
	seed int64
}

// walkersAtOnce is the number of parallel walkers. Most of the time they wait.
const walkersAtOnce = 8

// transitions runs the whole suite.
func transitions(ctx context.Context, s *suite) error {
	jobs := s.sequences()
	if s.only == 0 {
		jobs = slices.Concat(s.chains(), s.wrong(), scenarios(), jobs)
	}
	if err := s.run(ctx, jobs); err != nil || s.only != 0 || s.jobs != "" {
		return err
	}
	return s.coverage()
}

// run runs jobs, several in parallel.
func (s *suite) run(ctx context.Context, jobs []job) error {
	var group errgroup.Group
	group.SetLimit(walkersAtOnce)
	for _, j := range jobs {
		if !strings.Contains(j.name, s.jobs) {
			continue
		}
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

// alone reports whether this suite must change the property itself, because no other suite and no similar property
// covers it.
func (p *property) alone() bool { return p.entry.Elsewhere == "" && !p.left }

// coverage fails if a property was not varied, and its entry in the corpus does not exclude the property.
func (s *suite) coverage() error {
	alone, left := 0, 0
	for _, p := range s.all {
		if p.alone() {
			alone++
		}
		if p.left && p.entry.Elsewhere == "" {
			left++
		}
	}
	varied := int(s.report.varied.Load())
	fmt.Printf("of %d properties, %d were varied one by one, %d are tested in another component, %d in scenarios and other suites\n",
		len(s.all), varied, left, len(s.all)-alone-left)
	if varied != alone {
		return fmt.Errorf("%d properties should have been varied, %d were", alone, varied)
	}
	return nil
}

// shares is the number of walkers of each base.
var shares = map[string]int{"services": 1, "middleware": 3, "elsewhere": 3}

// chains returns the jobs that give every property its values.
func (s *suite) chains() []job {
	of := map[string][]*property{} // by base
	for _, p := range s.all {
		if p.alone() {
			of[where(p)] = append(of[where(p)], p)
		}
	}
	var jobs []job
	for _, name := range slices.Sorted(maps.Keys(of)) {
		jobs = append(jobs, share("chains of "+name, name, shares[name], s.batches(of[name]), (*walker).walkBatch)...)
	}
	return jobs
}

// share distributes the items of a base among several walkers.
func share[T any](name, base string, walkers int, items []T, do func(*walker, context.Context, T) error) []job {
	var jobs []job
	for first := range walkers {
		each := func(ctx context.Context, w *walker) error {
			for i := first; i < len(items); i += walkers {
				if err := do(w, ctx, items[i]); err != nil {
					return err
				}
			}
			return nil
		}
		jobs = append(jobs, job{name: fmt.Sprintf("%s %d", name, first), base: base, do: each})
	}
	return jobs
}

// sorts are the components of the base middleware: one of each type.
var sorts = []string{"mysql", "uuc", "eureka", "web", "additionalServices", "cronJobs", "defaults", "networkPolicy", "rollout", "paused", "hibernate"}

// wrong returns the jobs that set wrong values, which the operator must report. The short form sets only one value of
// each property. test/schema and the random sequences test refusals by the API server.
func (s *suite) wrong() []job {
	var found []chain
	for i, p := range s.all {
		bad := p.entry.Bad
		if len(bad) == 0 || !slices.Contains(sorts, p.component()) {
			continue
		}
		if !s.full {
			if p.left && p.component() != "additionalServices" || p.component() == "web" {
				continue
			}
			bad = bad[i%len(bad):][:1]
		}
		found = append(found, chain{property: p, values: bad})
	}
	return share("wrong values", "middleware", 2, found, (*walker).mistakes)
}

// sequences returns the jobs for random sequences. The seeds count up from s.first. -seed selects one sequence.
func (s *suite) sequences() []job {
	first, number, steps := s.first, int64(2), 12
	replay := "-seed N"
	if s.full {
		number, steps = 16, 40
		replay += " -full"
	}
	if s.only != 0 {
		first, number = s.only, 1
	}
	fmt.Printf("random sequences: seeds %d to %d; make suite-transitions ARGS='%s' replays one\n", first, first+number-1, replay)
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
			_ = w.sequence(ctx, of, steps) // the report contains the result
			return ctx.Err()
		}})
	}
	return jobs
}
