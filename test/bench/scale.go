// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

// scale counts what a resync and a restart cost while many DataServices are healthy, and what memory and CPU the
// operator takes for them.
type scale struct{}

func (s scale) run(ctx context.Context, b *bench) error {
	events, used := b.report.tallies(), b.report.usages("DATASERVICES")
	restarts := b.report.table("RUN", "CACHE SYNCED AFTER ms", "ALL LOOKED AT AFTER ms")
	var took time.Duration
	err := b.counted(ctx, func(ctx context.Context, o *operator) (err error) {
		took, err = s.create(ctx, o, events, used)
		return err
	})
	if err != nil {
		return err
	}
	var all []tally
	for i := range b.runs {
		err := b.counted(ctx, func(ctx context.Context, o *operator) error {
			if err := o.journal.awaitLooks(ctx, dsv1.Kind, b.scale, 1); err != nil {
				return err
			}
			restarts.row(fmt.Sprint(i+1), number(milliseconds(o.synced)), number(milliseconds(time.Since(o.began))))
			seen, err := o.tally(ctx)
			all = append(all, seen)
			if err != nil || i > 0 {
				return err
			}
			u, err := o.usage(ctx)
			used.add(fmt.Sprintf("%d, restarted", b.scale), u, nil)
			return err
		})
		if err != nil {
			return err
		}
	}
	events.add(fmt.Sprintf("operator restart, %d healthy", b.scale), worst(all), none)
	resync, err := b.resync(ctx, b.scale, resyncMany)
	if err != nil {
		return err
	}
	events.add(fmt.Sprintf("%d resyncs of %d at rest", resyncRounds, b.scale), resync, none)
	events.flush()
	rate := float64(b.scale*b.objects) / took.Seconds()
	b.report.note("\nAll were ready after %s s: %s objects a second.\n", number(took.Seconds()), number(rate))
	restarts.flush()
	b.report.note("")
	used.flush()
	b.report.note("\nRSS as it is when all are Ready; live heap after a collection; CPU and reconciles since the process started.")
	return nil
}

// create declares all of them at once; they stay.
func (scale) create(ctx context.Context, o *operator, events *tallies, used *usages) (took time.Duration, err error) {
	u, err := o.usage(ctx)
	if err != nil {
		return 0, err
	}
	used.add("0", u, nil)
	seen, err := o.count(ctx, func() error {
		start := time.Now()
		err := o.grow(ctx)
		took = time.Since(start)
		return err
	})
	if err != nil {
		return 0, err
	}
	events.add(fmt.Sprintf("create %d", o.scale), seen, bounds{writes: exactly(o.scale * (o.objects + historyWrites))})
	u, err = o.usage(ctx)
	used.add(fmt.Sprint(o.scale), u, nil)
	return took, err
}
