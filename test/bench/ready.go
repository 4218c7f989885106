// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"d3os.com/d3os-operator/internal/render"
)

// readyRatio is what the operator may take, of the plain client's time.
const readyRatio = 1.3

// ready measures the time in which one DataService comes up, the operator and the plain
// client taking turns.
type ready struct{}

func (r ready) run(ctx context.Context, b *bench) error {
	renderer, err := render.New(b.version)
	if err != nil {
		return err
	}
	var operators, peers []time.Duration
	t := b.report.table("RUN", "OPERATOR ms", "PLAIN CLIENT ms")
	for i := range b.runs {
		byOperator, err := r.operator(ctx, b)
		if err != nil {
			return fmt.Errorf("operator: %w", err)
		}
		byPeer, err := r.peer(ctx, b, renderer)
		if err != nil {
			return fmt.Errorf("plain client: %w", err)
		}
		operators, peers = append(operators, byOperator), append(peers, byPeer)
		t.row(fmt.Sprint(i+1), number(milliseconds(byOperator)), number(milliseconds(byPeer)))
	}
	o, p := median(operators), median(peers)
	ratio, _ := b.report.check("time to Ready, operator / plain client", float64(o)/float64(p), atMost(readyRatio))
	t.row("median", number(milliseconds(o)), number(milliseconds(p)))
	t.row("ratio", ratio)
	t.flush()
	b.report.note("\nOperator: from sending the DataService until a watch sees its status Ready. Plain client: from the first of the")
	b.report.note("same objects, rendered beforehand, until its watches see all workloads ready; same order, %d components at once.", componentsAtOnce)
	return nil
}

func (ready) operator(ctx context.Context, b *bench) (time.Duration, error) {
	o, err := b.startOperator(ctx, nil)
	if err != nil {
		return 0, err
	}
	ds, err := b.one(ctx)
	if err == nil {
		err = o.traffic.quiet(ctx, settled)
	}
	start := time.Now()
	if err == nil {
		err = b.create(ctx, ds)
	}
	if err == nil {
		err = b.awaitReady(ctx, ds)
	}
	took := time.Since(start)
	if err = errors.Join(err, o.stop()); err != nil {
		return 0, err
	}
	return took, b.removeOne(ctx, ds)
}

func (ready) peer(ctx context.Context, b *bench, renderer *render.Renderer) (time.Duration, error) {
	p, err := b.startPeer(ctx, 1)
	if err != nil {
		return 0, err
	}
	defer p.stop()
	ds, err := b.one(ctx)
	if err != nil {
		return 0, err
	}
	if err := b.create(ctx, ds); err != nil {
		return 0, err
	}
	j, err := b.prepare(renderer, ds)
	if err != nil {
		return 0, err
	}
	if err := p.traffic.quiet(ctx, settled); err != nil {
		return 0, err
	}
	start := time.Now()
	if err := p.install(ctx, j); err != nil {
		return 0, err
	}
	took := time.Since(start)
	return took, b.removeOne(ctx, ds)
}
