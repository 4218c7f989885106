// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/internal/render"
)

// throughputRatio is what the operator must reach, of the plain client's objects a second.
const throughputRatio = 0.7

// throughput measures how fast many DataServices come up at once, first with the plain
// client, then with the operator, whose DataServices stay for the next section.
type throughput struct{}

// speed is what came of one of the two.
type speed struct {
	took   time.Duration
	cpu    float64
	counts counts
}

func (t throughput) run(ctx context.Context, b *bench) error {
	options, err := manager.ParseOptions(nil)
	if err != nil {
		return err
	}
	concurrency := options.MaxConcurrentReconciles
	if err := b.removeAll(ctx); err != nil {
		return err
	}
	byPeer, err := t.peer(ctx, b, concurrency)
	if err != nil {
		return fmt.Errorf("plain client: %w", err)
	}
	if err := b.removeAll(ctx); err != nil {
		return err
	}
	byOperator, err := t.operator(ctx, b)
	if err != nil {
		return fmt.Errorf("operator: %w", err)
	}
	objects := b.scale * b.objects
	table := b.report.table("", "SECONDS", "OBJECTS/s", "DATASERVICES/s", "CPU SECONDS", "OBJECT WRITES", "STATUS WRITES", "READS", "EVENTS")
	row := func(name string, s speed, writes *bound) float64 {
		cell, _ := b.report.check(name+": object writes", float64(s.counts[objectWrite]), writes)
		rate := float64(objects) / s.took.Seconds()
		table.row(name, number(s.took.Seconds()), number(rate), number(float64(b.scale)/s.took.Seconds()), number(s.cpu),
			cell, number(float64(s.counts[statusWrite])), number(float64(s.counts[read])), number(float64(s.counts[event])))
		return rate
	}
	peerRate := row("plain client", byPeer, nil)
	rate := row("operator", byOperator, exactly(objects))
	ratio, _ := b.report.check("objects a second, operator / plain client", rate/peerRate, atLeast(throughputRatio))
	table.row("ratio", "", ratio)
	table.flush()
	b.report.note("\n%d DataServices, %d objects, until all are Ready; %d DataServices, %d components of each at once. CPU is this process's.",
		b.scale, objects, concurrency, componentsAtOnce)
	return nil
}

func (throughput) peer(ctx context.Context, b *bench, concurrency int) (speed, error) {
	renderer, err := render.New(b.version)
	if err != nil {
		return speed{}, err
	}
	p, err := b.startPeer(ctx, concurrency)
	if err != nil {
		return speed{}, err
	}
	defer p.stop()
	services, err := b.many(ctx, 0, b.scale)
	if err != nil {
		return speed{}, err
	}
	if err := b.create(ctx, services...); err != nil {
		return speed{}, err
	}
	var jobs []*job
	for _, ds := range services {
		j, err := b.prepare(renderer, ds)
		if err != nil {
			return speed{}, err
		}
		jobs = append(jobs, j)
	}
	p.traffic.reset()
	start, cpu := time.Now(), cpuSeconds()
	group, ctx := errgroup.WithContext(ctx)
	for _, j := range jobs {
		group.Go(func() error { return p.install(ctx, j) })
	}
	if err := group.Wait(); err != nil {
		return speed{}, err
	}
	return speed{time.Since(start), cpuSeconds() - cpu, p.traffic.counts()}, nil
}

func (throughput) operator(ctx context.Context, b *bench) (speed, error) {
	o, err := b.startOperator(ctx, nil)
	if err != nil {
		return speed{}, err
	}
	s := speed{}
	services, err := b.many(ctx, 0, b.scale)
	if err == nil {
		o.traffic.reset()
		cpu := cpuSeconds()
		start := time.Now()
		if err = b.create(ctx, services...); err == nil {
			err = b.awaitReady(ctx, services...)
		}
		s = speed{time.Since(start), cpuSeconds() - cpu, o.traffic.counts()}
		b.fleet = services
	}
	if err == nil {
		err = o.traffic.quiet(ctx, settled)
	}
	if err = errors.Join(err, o.stop()); err != nil {
		return s, err
	}
	return s, nil
}
