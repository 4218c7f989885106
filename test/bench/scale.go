// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"d3os.com/d3os-operator/internal/manager"
)

// resyncMany is the period in which the operator looks at many DataServices again.
const resyncMany = 5 * time.Second

// scale counts what a resync and a restart cost while many DataServices are healthy.
type scale struct{}

func (s scale) run(ctx context.Context, b *bench) error {
	created, took, err := s.create(ctx, b)
	if err != nil {
		return err
	}
	t := b.report.tallies()
	restart := b.report.table("RUN", "CACHE SYNCED AFTER ms", "ALL LOOKED AT AFTER ms")
	var all []tally
	for i := range b.runs {
		seen, synced, looked, err := s.restart(ctx, b)
		if err != nil {
			return err
		}
		all = append(all, seen)
		restart.row(fmt.Sprint(i+1), number(milliseconds(synced)), number(milliseconds(looked)))
	}
	resync, err := s.resync(ctx, b)
	if err != nil {
		return err
	}
	t.add(fmt.Sprintf("create %d", len(b.fleet)), created, bounds{writes: exactly(b.scale * (b.objects + historyWrites))})
	t.add(fmt.Sprintf("operator restart, %d healthy", len(b.fleet)), worst(all), none)
	t.add(fmt.Sprintf("%d resyncs of %d at rest", resyncRounds, len(b.fleet)), resync, none)
	t.flush()
	b.report.note("\nAll were ready after %s s: %s objects a second.", number(took.Seconds()), number(float64(b.scale*b.objects)/took.Seconds()))
	restart.flush()
	return nil
}

// create declares all of them at once; they stay.
func (scale) create(ctx context.Context, b *bench) (seen tally, took time.Duration, err error) {
	if err := b.removeAll(ctx); err != nil {
		return seen, 0, err
	}
	o, err := b.startOperator(ctx, nil)
	if err != nil {
		return seen, 0, err
	}
	start := time.Now()
	if err = b.grow(ctx, b.scale); err == nil {
		took = time.Since(start)
		seen, err = o.tally(ctx)
	}
	return seen, took, errors.Join(err, o.stop())
}

func (scale) restart(ctx context.Context, b *bench) (seen tally, synced, looked time.Duration, err error) {
	start := time.Now()
	o, err := b.startOperator(ctx, nil)
	if err != nil {
		return seen, 0, 0, err
	}
	err = b.journal.awaitLooks(ctx, len(b.fleet))
	looked = time.Since(start)
	if err == nil {
		seen, err = o.tally(ctx)
	}
	if err = errors.Join(err, o.stop()); err != nil {
		return seen, 0, 0, err
	}
	return seen, o.synced, looked, nil
}

func (scale) resync(ctx context.Context, b *bench) (tally, error) {
	o, err := b.startOperator(ctx, func(options *manager.Options) { options.ResyncPeriod = resyncMany })
	if err != nil {
		return tally{}, err
	}
	var seen tally
	if err = b.journal.awaitLooks(ctx, len(b.fleet)); err == nil {
		seen, err = o.count(ctx, func() error { return o.awaitResyncs(ctx) })
	}
	if err = errors.Join(err, o.stop()); err != nil {
		return seen, err
	}
	return seen, nil
}
