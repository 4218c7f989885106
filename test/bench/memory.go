// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// memory measures the operator as a process of its own while its work grows, and after a
// restart.
type memory struct{}

// steps are the numbers of DataServices at which it is measured.
func (memory) steps(scale int) []int {
	steps := []int{0, min(50, scale), scale}
	return slices.Compact(steps)
}

func (m memory) run(ctx context.Context, b *bench) error {
	if err := b.removeAll(ctx); err != nil {
		return err
	}
	p, err := b.startProcess(ctx)
	if err != nil {
		return err
	}
	t := b.report.table("DATASERVICES", "RSS MiB", "PEAK RSS MiB", "LIVE HEAP MiB", "FROM THE SYSTEM MiB", "CPU SECONDS", "RECONCILES")
	row := func(name string) error {
		u, err := p.usage(ctx)
		if err == nil {
			t.row(name, number(u.rss), number(u.peak), number(u.heap), number(u.system), number(u.cpu), number(u.reconciles))
		}
		return err
	}
	for _, n := range m.steps(b.scale) {
		if err = b.grow(ctx, n); err == nil {
			err = row(fmt.Sprint(n))
		}
		if err != nil {
			break
		}
	}
	if err = errors.Join(err, p.stop()); err != nil {
		return err
	}
	if p, err = b.startProcess(ctx); err != nil {
		return err
	}
	if err = p.awaitReconciles(ctx, b.scale); err == nil {
		err = row(fmt.Sprintf("%d, restarted", b.scale))
	}
	if err = errors.Join(err, p.stop()); err != nil {
		return err
	}
	t.flush()
	b.report.note("\nRSS as it is when all are Ready; live heap after a collection; CPU and reconciles since the process started.")
	return nil
}
