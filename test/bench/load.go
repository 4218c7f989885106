// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

const (
	// loadStatus is how many status writes one change may cost, loadWrites how many writes beside
	// the objects the creation of a DataService: its status, and what others wrote meanwhile.
	loadStatus = 5
	loadCreate = 20
	// loadGrowth is what a number for each DataService may grow by from the first size to the last.
	loadGrowth = 1.5
)

// load measures the operator, as a process of its own with the memory that the manifests give it,
// while ever more DataServices are created, changed, found again after a restart, and deleted.
type load struct{}

// step is what one event cost for all DataServices that it was about.
type step struct {
	services, objects int
	took              time.Duration
	used              usage // the difference
}

func (s step) each(n float64) float64 { return n / float64(s.services) }

func (l load) run(ctx context.Context, b *bench) error {
	if err := b.removeAll(ctx); err != nil {
		return err
	}
	limit, err := memoryLimit()
	if err != nil {
		return err
	}
	p, err := b.startProcess(ctx, fmt.Sprintf("GOMEMLIMIT=%d", limit))
	if err != nil {
		return err
	}
	r := &loadReport{bench: b, limit: float64(limit) / (1 << 20)}
	defer r.print() // also what was measured before something went wrong
	for _, n := range b.sizes {
		if p, err = l.size(ctx, b, p, r, n, limit); err != nil {
			return errors.Join(err, p.stop())
		}
	}
	err = l.hot(ctx, b, p, r)
	if err == nil {
		err = l.delete(ctx, b, p, r)
	}
	return errors.Join(err, p.stop())
}

// size takes the fleet to a size, changes all of it and restarts the operator.
func (l load) size(ctx context.Context, b *bench, p *process, r *loadReport, n int, limit int64) (*process, error) {
	before := len(b.fleet)
	created, err := p.measure(ctx, n-before, (n-before)*b.objects, func() error { return l.create(ctx, b, r, n) })
	if err != nil {
		return p, fmt.Errorf("create: %w", err)
	}
	r.created(n, created)
	changed, err := p.measure(ctx, n, n, func() error { return l.change(ctx, b, n) })
	if err != nil {
		return p, fmt.Errorf("change: %w", err)
	}
	r.changed(n, changed)
	u, err := p.usage(ctx)
	if err != nil {
		return p, err
	}
	r.memory(fmt.Sprint(n), u)
	if err := p.stop(); err != nil {
		return p, err
	}
	if p, err = b.startProcess(ctx, fmt.Sprintf("GOMEMLIMIT=%d", limit)); err != nil {
		return p, err
	}
	if err := p.awaitReconciles(ctx, n); err != nil {
		return p, err
	}
	took := time.Since(p.began)
	if u, err = p.usage(ctx); err != nil {
		return p, err
	}
	r.restarted(n, step{services: n, took: took, used: u})
	r.memory(fmt.Sprintf("%d, restarted", n), u)
	return p, nil
}

// create makes the fleet that large. When all are declared, one more is: how long that takes is
// how fair the queue is.
func (l load) create(ctx context.Context, b *bench, r *loadReport, n int) error {
	services, err := b.many(ctx, len(b.fleet), n)
	if err != nil {
		return err
	}
	late, err := b.many(ctx, 100000+n, 100001+n)
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := b.create(ctx, services...); err != nil {
		return err
	}
	first, ready, err := b.bringUp(ctx, late[0])
	if err != nil {
		return fmt.Errorf("one more: %w", err)
	}
	if err := b.awaitReady(ctx, services...); err != nil {
		return err
	}
	r.late(n, len(services), first, ready, time.Since(begun))
	b.fleet = append(b.fleet, services...)
	return b.removeOne(ctx, late[0])
}

// bringUp creates one DataService and takes the time until its first object is there and until
// it is ready.
func (b *bench) bringUp(ctx context.Context, ds *dsv1.DataService) (first, ready time.Duration, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	seen, err := b.track(ctx, ds.Namespace)
	if err != nil {
		return 0, 0, err
	}
	go func() { // as long as others come up its turn may come
		for ctx.Err() == nil {
			select {
			case <-b.services.news.Next():
				seen.news.Raise()
			case <-ctx.Done():
			}
		}
	}()
	begun := time.Now()
	if err := b.create(ctx, ds); err != nil {
		return 0, 0, err
	}
	if err := seen.awaitAny(ctx); err != nil {
		return 0, 0, err
	}
	first = time.Since(begun)
	err = b.awaitReady(ctx, ds)
	return first, time.Since(begun), err
}

// change changes one image of every DataService.
func (load) change(ctx context.Context, b *bench, n int) error {
	err := inParallel(b.fleet, func(ds *dsv1.DataService) error { return b.patchImage(ctx, ds, fmt.Sprintf("load-%d", n)) })
	if err != nil {
		return err
	}
	return b.awaitReady(ctx, b.fleet...)
}

const (
	hotEvery = 100 * time.Millisecond
	// hotWait is how long anything may be in the queue beside a hot DataService, on average; how
	// long the rest of a change takes is up to the cluster.
	hotWait = 500 * time.Millisecond
)

// hot changes one DataService ten times a second and looks how long changes of others take.
func (load) hot(ctx context.Context, b *bench, p *process, r *loadReport) error {
	others := b.fleet[1:min(len(b.fleet), 1+reactions)]
	changeAll := func(tag string) (took []time.Duration, err error) {
		for _, ds := range others {
			begun := time.Now()
			if err := b.changeImage(ctx, ds, tag); err != nil {
				return nil, err
			}
			took = append(took, time.Since(begun))
		}
		return took, nil
	}
	var calm, beside []time.Duration
	quiet, err := p.measure(ctx, len(others), 0, func() (err error) {
		calm, err = changeAll("calm")
		return err
	})
	if err != nil {
		return err
	}
	hot, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	times := 0
	go func() {
		tick := time.NewTicker(hotEvery)
		defer tick.Stop()
		for {
			select {
			case <-hot.Done():
				done <- nil
				return
			case <-tick.C:
				times++
				if err := b.patchImage(hot, b.fleet[0], fmt.Sprintf("hot-%d", times)); err != nil && hot.Err() == nil {
					done <- err
					return
				}
			}
		}
	}()
	busy, err := p.measure(ctx, len(others), 0, func() (err error) {
		beside, err = changeAll("beside")
		return err
	})
	stop()
	if err := errors.Join(err, <-done); err != nil {
		return err
	}
	r.heat("nothing else", quiet.used, calm, nil)
	r.heat(fmt.Sprintf("another one, changed %d times", times), busy.used, beside, atMost(milliseconds(hotWait)))
	return nil
}

// delete deletes every DataService and waits until all that they owned is gone.
func (load) delete(ctx context.Context, b *bench, p *process, r *loadReport) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	owned, err := b.track(ctx, "")
	if err != nil {
		return err
	}
	n := len(b.fleet)
	deleted, err := p.measure(ctx, n, n*b.objects, func() error {
		err := inParallel(b.fleet, func(ds *dsv1.DataService) error { return b.client.Delete(ctx, ds.DeepCopy()) })
		if err != nil {
			return err
		}
		return owned.awaitNone(ctx, retained)
	})
	if err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	r.deleted(n, deleted)
	u, err := p.usage(ctx)
	if err != nil {
		return err
	}
	r.memory("0, all deleted", u)
	return nil
}

// measure tells what a process used while something was done, and how long that took.
func (p *process) measure(ctx context.Context, services, objects int, do func() error) (step, error) {
	before, err := p.usage(ctx)
	if err != nil {
		return step{}, err
	}
	begun := time.Now()
	if err := do(); err != nil {
		return step{}, err
	}
	s := step{services: services, objects: objects, took: time.Since(begun)}
	s.used, err = p.usage(ctx)
	s.used = s.used.since(before)
	return s, err
}

// requestsOf picks the requests of a process by HTTP method out of its metrics.
func requestsOf(metrics map[string]float64) map[string]float64 {
	found := map[string]float64{}
	for name, value := range metrics {
		if labels, ok := strings.CutPrefix(name, "rest_client_requests_total{"); ok {
			_, method, _ := strings.Cut(labels, `method="`)
			method, _, _ = strings.Cut(method, `"`)
			found[method] += value
		}
	}
	return found
}
