// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

const (
	// loadStatus limits the status writes of one change. loadCreate limits the writes for creating a DataService, excluding the writes of
	// its objects: status writes, and corrections after writes of other clients.
	loadStatus = 5
	loadCreate = 20
	// loadGrowth limits the growth of each number per DataService between the first size and the last.
	loadGrowth = 1.5
	// restarts is the name of the event in which the operator restarts.
	restarts = "restart beside"
)

// load measures the operator, as a separate process with the memory limit of the manifests, while more and more DataServices are
// created, changed, reconciled after a restart, and deleted.
type load struct{}

// step is the cost of one event, summed over the event's DataServices.
type step struct {
	services, objects int
	took              time.Duration
	used              usage // used during the step
}

func (s step) each(n float64) float64 { return n / float64(s.services) }

func (l load) run(ctx context.Context, b *bench) error {
	r := newLoadReport(b.report)
	defer r.print() // prints the measurements also after an error
	for _, n := range b.sizes {
		err := b.measured(ctx, func(ctx context.Context, o *operator) error {
			if err := l.restarted(ctx, o, r); err != nil {
				return err
			}
			return l.size(ctx, o, r, n)
		})
		if err != nil {
			return err
		}
	}
	return b.measured(ctx, func(ctx context.Context, o *operator) error {
		if err := l.restarted(ctx, o, r); err != nil {
			return err
		}
		if err := l.hot(ctx, o, r); err != nil {
			return err
		}
		return l.delete(ctx, o, r)
	})
}

// restarted waits until a new operator has reconciled all DataServices.
func (load) restarted(ctx context.Context, o *operator, r *loadReport) error {
	n := len(o.fleet)
	if n == 0 {
		return nil
	}
	if err := o.journal.awaitLooks(ctx, dsv1.Kind, n, 1); err != nil {
		return err
	}
	took := time.Since(o.began)
	u, err := o.usage(ctx)
	r.add(restarts, fmt.Sprint(n), step{services: n, took: took, used: u}, exactly(0))
	r.memories.add(fmt.Sprintf("%d, restarted", n), u, atMost(o.memory))
	return err
}

// size creates DataServices up to a number, and changes each of them.
func (l load) size(ctx context.Context, o *operator, r *loadReport, n int) error {
	before := len(o.fleet)
	more := n - before + 1 // includes the DataService that is created last
	created, err := o.measure(ctx, more, more*o.objects, func() error { return l.create(ctx, o.bench, r, n) })
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	r.add("create", fmt.Sprintf("%d, to %d", n-before, n), created, atMost(float64(o.objects+loadCreate)))
	changed, err := o.measure(ctx, n, 0, func() error { return l.change(ctx, o.bench, n) })
	if err != nil {
		return fmt.Errorf("change: %w", err)
	}
	r.add("one image of each", fmt.Sprint(n), changed, atMost(1+historyWrites+loadStatus))
	r.memories.add(fmt.Sprint(n), changed.used, atMost(o.memory))
	return nil
}

// create creates DataServices up to number n. Then it creates one more, whose time shows the fairness of the queue.
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
	all := time.Since(begun)
	share := r.check(fmt.Sprintf("one more beside %d that are created: ready before all, share of their time", len(services)),
		ready.Seconds()/all.Seconds(), atMost(1))
	r.latecomers.row(fmt.Sprint(n), fmt.Sprint(len(services)),
		number(first.Seconds()), number(ready.Seconds()), number(all.Seconds()), share)
	b.fleet = append(b.fleet, services...)
	return b.removeOne(ctx, late[0])
}

// bringUp creates one DataService. It measures the time until its first object exists, and until the DataService is ready.
func (b *bench) bringUp(ctx context.Context, ds *dsv1.DataService) (first, ready time.Duration, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	seen, err := b.trackOwned(ctx, ds.Namespace)
	if err != nil {
		return 0, 0, err
	}
	begun := time.Now()
	if err := b.create(ctx, ds); err != nil {
		return 0, 0, err
	}
	err = seen.await(ctx, func(objects map[string]client.Object) error {
		if len(objects) == 0 {
			return errors.New("there is no object of " + ds.Namespace)
		}
		return nil
	})
	if err != nil {
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
	// hotWait limits the average time in the queue while another DataService changes ten times a second. The other parts of a
	// change's time depend on the cluster.
	hotWait = 500 * time.Millisecond
)

// hot changes one DataService ten times a second (the hot one). It measures the time that changes of other DataServices
// take.
func (l load) hot(ctx context.Context, o *operator, r *loadReport) error {
	if err := l.others(ctx, o, r, "calm", "nothing else", nil); err != nil {
		return err
	}
	hot, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- l.heat(hot, o.bench) }()
	err := l.others(ctx, o, r, "beside", "another one, changed ten times a second", atMost(milliseconds(hotWait)))
	stop()
	return errors.Join(err, <-done)
}

// heat changes the first DataService until the context ends.
func (load) heat(ctx context.Context, b *bench) error {
	tick := time.NewTicker(hotEvery)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := b.patchImage(ctx, b.fleet[0], fmt.Sprintf("hot-%d", n)); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// others changes other DataServices, one after the other.
func (load) others(ctx context.Context, o *operator, r *loadReport, tag, beside string, wait *bound) error {
	var took []time.Duration
	others := o.fleet[1:min(len(o.fleet), 1+reactions)]
	all, err := o.measure(ctx, len(others), 0, func() error {
		for _, ds := range others {
			begun := time.Now()
			if err := o.changeImage(ctx, ds, tag); err != nil {
				return err
			}
			took = append(took, time.Since(begun))
		}
		return nil
	})
	if err != nil {
		return err
	}
	queued := o.report.check("in the queue beside "+beside+", mean ms", 1000*all.used.waited/max(1, all.used.queued), wait)
	r.heats.add(beside, queued, took, nil)
	return nil
}

// delete deletes every DataService and waits until all their objects are deleted.
func (load) delete(ctx context.Context, o *operator, r *loadReport) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	owned, err := o.trackOwned(ctx, "")
	if err != nil {
		return err
	}
	n := len(o.fleet)
	deleted, err := o.measure(ctx, n, n*o.objects, func() error {
		err := inParallel(o.fleet, func(ds *dsv1.DataService) error { return o.client.Delete(ctx, ds.DeepCopy()) })
		if err != nil {
			return err
		}
		return owned.awaitNone(ctx, retained)
	})
	if err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	r.add("delete", fmt.Sprint(n), deleted, atMost(deleteStatus))
	r.memories.add("0, all deleted", deleted.used, atMost(o.memory))
	return nil
}

// measure runs an action. It returns the resources that an operator used during the action, and the action's duration.
func (o *operator) measure(ctx context.Context, services, objects int, do func() error) (step, error) {
	before, err := o.usage(ctx)
	if err != nil {
		return step{}, err
	}
	begun := time.Now()
	if err := do(); err != nil {
		return step{}, err
	}
	s := step{services: services, objects: objects, took: time.Since(begun)}
	s.used, err = o.usage(ctx)
	s.used = s.used.since(before)
	return s, err
}
