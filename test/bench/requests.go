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

// Bounds for single events, excluding one write for each new object. Each new spec adds one write to the history.
const (
	historyWrites = 1
	// dataRecords is the number of objects that no chart creates: the ConfigMap with the record of the database's data.
	dataRecords  = 1
	createReads  = 8
	createStatus = 15
	imageStatus  = 3
	deleteStatus = 1
)

const (
	// resyncRounds is the number of resyncs of every DataService to wait for. When the last resync begins, the first
	// one has certainly ended.
	resyncRounds = 3
	// resyncOften is the resync period. With its jitter, it is longer than the shortest period that informers allow.
	resyncOften = 2 * time.Second
)

// requests counts the operator's reads and writes for one DataService.
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
	resync, err := b.resync(ctx, ds)
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

// life counts the requests for a DataService from its creation to its deletion.
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

// retained reports whether an object outlives its DataService.
func retained(o client.Object) bool { return metav1.GetControllerOf(o) == nil }

// changeImage changes the image of a service and waits for the rollout.
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

// resync counts the actions of an operator that reconciles a ready DataService once in each period.
func (b *bench) resync(ctx context.Context, ds *dsv1.DataService) (seen tally, err error) {
	err = b.counted(ctx, func(ctx context.Context, o *operator) (err error) {
		if err := o.journal.awaitLooks(ctx, dsv1.Kind, 1, 1); err != nil {
			return err
		}
		if err := b.awaitReady(ctx, ds); err != nil {
			return err
		}
		seen, err = o.count(ctx, func() error { return o.journal.awaitLooks(ctx, dsv1.Kind, 1, resyncRounds) })
		return err
	}, "--resync-period="+resyncOften.String())
	return seen, err
}

// tally counts the operator's requests and reconciliations for one event.
type tally struct {
	counts   [classes]int
	looks    int // reconciliations
	errors   []string
	evidence []string
}

// bounds are the bounds of a tally; nil means no bound.
type bounds struct{ writes, statuses, reads *bound }

// none permits no read and no write.
var none = bounds{writes: exactly(0), statuses: exactly(0), reads: exactly(0)}

// tallies is a table of tallies, with the requests of each tally that is outside its bounds.
type tallies struct {
	*table

	wrong []string // the requests of tallies that are outside their bounds
}

func (r *report) tallies() *tallies {
	return &tallies{table: r.table("EVENT", "OBJECT WRITES", "STATUS WRITES", "READS", "CACHE LISTS", "WATCHES",
		"EVENTS", "LEASES", "DISCOVERY", "RECONCILES", "ERRORS")}
}

func (t *tallies) add(name string, seen tally, b bounds) {
	outside := len(t.report.outside)
	cell := func(what string, n int, bound *bound) string {
		return t.report.check(name+": "+what, float64(n), bound)
	}
	t.row(name,
		cell("object writes", seen.counts[objectWrite], b.writes),
		cell("status writes", seen.counts[statusWrite], b.statuses),
		cell("reads", seen.counts[read], b.reads),
		fmt.Sprint(seen.counts[cacheList]), fmt.Sprint(seen.counts[watch]), fmt.Sprint(seen.counts[event]),
		fmt.Sprint(seen.counts[lease]), fmt.Sprint(seen.counts[discover]), fmt.Sprint(seen.looks),
		cell("errors in the log", len(seen.errors), exactly(0)))
	if len(t.report.outside) == outside {
		return
	}
	t.wrong = append(t.wrong, "", name+":")
	t.wrong = append(t.wrong, seen.evidence[:min(len(seen.evidence), 60)]...)
	t.wrong = append(t.wrong, seen.errors[:min(len(seen.errors), 5)]...)
}

func (t *tallies) flush() {
	t.table.flush()
	for _, line := range t.wrong {
		t.report.note("%s", line)
	}
}

// worst merges tallies of the same event: the maximum of every number, and the evidence of a tally with the most writes or reads.
func worst(all []tally) tally {
	result := all[0]
	for _, t := range all[1:] {
		if t.counts[objectWrite] > result.counts[objectWrite] || t.counts[read] > result.counts[read] || t.counts[statusWrite] > result.counts[statusWrite] {
			result.evidence = t.evidence
		}
		for i := range t.counts {
			result.counts[i] = max(result.counts[i], t.counts[i])
		}
		result.looks = max(result.looks, t.looks)
		result.errors = append(result.errors, t.errors...)
	}
	return result
}
