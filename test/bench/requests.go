// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
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

const (
	// resyncRounds is how many resyncs of every DataService are waited for: the first is over for
	// sure when the last begins.
	resyncRounds = 3
	// resyncOften is the period in which the operator looks at one DataService again; with its
	// jitter it stays above the shortest that informers allow.
	resyncOften = 2 * time.Second
	// resyncMany is the period for many.
	resyncMany = 5 * time.Second
)

// requests counts what the operator asks and writes for one DataService.
type requests struct{}

func (requests) run(ctx context.Context, b *bench) error {
	var start, create, image, del, foreground []tally
	for range b.runs {
		err := b.counted(ctx, func(ctx context.Context, o *operator) error {
			begun, err := o.tally(ctx)
			if err != nil {
				return err
			}
			background, err := o.live(ctx, metav1.DeletePropagationBackground)
			if err != nil {
				return err
			}
			other, err := o.live(ctx, metav1.DeletePropagationForeground)
			start, create, image = append(start, begun), append(create, background.create), append(image, background.image)
			del, foreground = append(del, background.del), append(foreground, other.del)
			return err
		})
		if err != nil {
			return err
		}
	}
	ds, err := b.one(ctx)
	if err != nil {
		return err
	}
	if err := b.create(ctx, ds); err != nil {
		return err
	}
	resync, err := b.resync(ctx, 1, resyncOften, ds)
	if err != nil {
		return err
	}
	t := b.report.tallies()
	t.add("operator start, nothing declared", worst(start), none)
	t.add("create", worst(create), bounds{exactly(b.objects + historyWrites), atMost(createStatus), atMost(createReads)})
	t.add("change of one image", worst(image), bounds{exactly(1 + historyWrites), atMost(imageStatus), exactly(0)})
	t.add(fmt.Sprintf("%d resyncs at rest", resyncRounds), resync, none)
	t.add("delete", worst(del), bounds{exactly(0), atMost(deleteStatus), exactly(0)})
	t.add("delete --cascade=foreground", worst(foreground), bounds{exactly(0), atMost(deleteStatus), exactly(0)})
	t.flush()
	b.report.note("\nOf each number the largest of %d runs. The log has one line for every reconciliation, which RECONCILES counts.", b.runs)
	return nil
}

// life is that of a DataService from its creation to its end.
type life struct{ create, image, del tally }

func (o *operator) live(ctx context.Context, propagation metav1.DeletionPropagation) (l life, err error) {
	ds, err := o.one(ctx)
	if err != nil {
		return l, err
	}
	l.create, err = o.count(ctx, func() error {
		if err := o.create(ctx, ds); err != nil {
			return err
		}
		return o.awaitReady(ctx, ds)
	})
	if err != nil {
		return l, err
	}
	l.image, err = o.count(ctx, func() error { return o.changeImage(ctx, ds, "bench-1") })
	if err != nil {
		return l, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	owned, err := o.trackOwned(ctx, ds.Namespace)
	if err != nil {
		return l, err
	}
	l.del, err = o.count(ctx, func() error {
		if err := o.client.Delete(ctx, ds.DeepCopy(), client.PropagationPolicy(propagation)); err != nil {
			return err
		}
		return owned.awaitNone(ctx, retained)
	})
	if err != nil {
		return l, err
	}
	return l, o.removeOne(ctx, ds)
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

// resync counts what an operator does that looks at all DataServices again in each period, once some of them are ready.
func (b *bench) resync(ctx context.Context, n int, period time.Duration, services ...*dsv1.DataService) (seen tally, err error) {
	err = b.counted(ctx, func(ctx context.Context, o *operator) (err error) {
		if err := o.journal.awaitLooks(ctx, dsv1.Kind, n, 1); err != nil {
			return err
		}
		if err := b.awaitReady(ctx, services...); err != nil {
			return err
		}
		seen, err = o.count(ctx, func() error { return o.journal.awaitLooks(ctx, dsv1.Kind, n, resyncRounds) })
		return err
	}, "--resync-period="+period.String())
	return seen, err
}
