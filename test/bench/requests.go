// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/manager"
)

// The bounds of single events, beside one write for each object that is new. Each spec is one write more, to the history.
const (
	historyWrites = 1
	// dataRecords is how many objects there are that no chart has: the record of whose data the database's volume holds.
	dataRecords  = 1
	createReads  = 8
	createStatus = 15
	imageStatus  = 3
	deleteStatus = 1
)

// resyncOften is the period in which the operator looks at one DataService again; with its
// jitter it stays above the shortest that informers allow.
const resyncOften = 2 * time.Second

// requests counts what the operator asks and writes for one DataService.
type requests struct{}

func (requests) run(ctx context.Context, b *bench) error {
	var start tally
	var create, image, del, foreground []tally
	for i := range b.runs {
		o, err := b.startOperator(ctx, nil)
		if err != nil {
			return err
		}
		if i == 0 {
			if start, err = o.tally(ctx); err != nil {
				return err
			}
		}
		c := &oneLife{o: o}
		err = c.live(ctx, metav1.DeletePropagationBackground)
		if err == nil {
			create, image, del = append(create, c.create), append(image, c.image), append(del, c.del)
			err = c.live(ctx, metav1.DeletePropagationForeground)
			foreground = append(foreground, c.del)
		}
		if err = errors.Join(err, o.stop()); err != nil {
			return err
		}
	}
	resync, err := resyncOne(ctx, b)
	if err != nil {
		return err
	}
	t := b.report.tallies()
	t.add("operator start, nothing declared", start, none)
	t.add("create", worst(create), bounds{exactly(b.objects + historyWrites), atMost(createStatus), atMost(createReads)})
	t.add("change of one image", worst(image), bounds{exactly(1 + historyWrites), atMost(imageStatus), exactly(0)})
	t.add(fmt.Sprintf("%d resyncs at rest", resyncRounds), resync, none)
	t.add("delete", worst(del), bounds{exactly(0), atMost(deleteStatus), exactly(0)})
	t.add("delete --cascade=foreground", worst(foreground), bounds{exactly(0), atMost(deleteStatus), exactly(0)})
	t.flush()
	b.report.note("\nOf each number the largest of %d runs. The log has one line for every reconciliation, which RECONCILES counts.", b.runs)
	return nil
}

// oneLife is a DataService from its creation to its end.
type oneLife struct {
	o                  *operator
	create, image, del tally
}

func (l *oneLife) live(ctx context.Context, propagation metav1.DeletionPropagation) error {
	b := l.o.bench
	ds, err := b.one(ctx)
	if err != nil {
		return err
	}
	l.create, err = l.o.count(ctx, func() error {
		if err := b.create(ctx, ds); err != nil {
			return err
		}
		return b.awaitReady(ctx, ds)
	})
	if err != nil {
		return err
	}
	l.image, err = l.o.count(ctx, func() error { return b.changeImage(ctx, ds, "bench-1") })
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	owned, err := b.track(ctx, ds.Namespace)
	if err != nil {
		return err
	}
	l.del, err = l.o.count(ctx, func() error {
		if err := b.client.Delete(ctx, ds.DeepCopy(), client.PropagationPolicy(propagation)); err != nil {
			return err
		}
		return owned.awaitNone(ctx, retained)
	})
	if err != nil {
		return err
	}
	return b.removeOne(ctx, ds)
}

// retained tells what outlives its DataService.
func retained(o client.Object) bool { return metav1.GetControllerOf(o) == nil }

// changeImage changes the image of a service and waits until that is rolled out.
func (b *bench) changeImage(ctx context.Context, ds *dsv1.DataService, tag string) error {
	if err := b.patchImage(ctx, ds, tag); err != nil {
		return err
	}
	return b.awaitReady(ctx, ds)
}

func (b *bench) patchImage(ctx context.Context, ds *dsv1.DataService, tag string) error {
	before := ds.DeepCopy()
	ds.Spec.Auth.Image = "registry.example.com/auth:" + tag
	return b.client.Patch(ctx, ds, client.MergeFrom(before))
}

// resyncOne counts what looking at one healthy DataService again costs.
func resyncOne(ctx context.Context, b *bench) (tally, error) {
	o, err := b.startOperator(ctx, func(options *manager.Options) { options.ResyncPeriod = resyncOften })
	if err != nil {
		return tally{}, err
	}
	ds, err := b.one(ctx)
	if err == nil {
		err = b.create(ctx, ds)
	}
	if err == nil {
		err = b.awaitReady(ctx, ds)
	}
	var seen tally
	if err == nil {
		seen, err = o.count(ctx, func() error { return o.awaitResyncs(ctx) })
	}
	if err = errors.Join(err, o.stop()); err != nil {
		return seen, err
	}
	return seen, b.removeOne(ctx, ds)
}
