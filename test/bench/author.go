// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

// author is somebody who may write one DataService and changes it again and again, as large as
// the API server takes it. The operator is a process of its own, with the memory that
// config/manager gives it.
type author struct{}

const (
	authorBytes = 1_000_000
	// authorShare is how much of its memory the operator may take meanwhile.
	authorShare = 0.25
)

func (a author) run(ctx context.Context, b *bench) error {
	if err := b.removeAll(ctx); err != nil {
		return err
	}
	limit, err := memoryLimit()
	if err != nil {
		return err
	}
	ds, err := b.one(ctx)
	if err != nil {
		return err
	}
	ds.Spec = dsv1.DataServiceSpec{AdditionalServices: []dsv1.AdditionalService{{Name: "a"}}}
	own := &ds.Spec.AdditionalServices[0]
	own.Image, own.Replica = "registry.example.com/a:v1", ptr.To[int32](0)
	dsv1.SetDefaults(ds)
	if err := b.client.Create(ctx, ds); err != nil {
		return err
	}
	p, err := b.startProcess(ctx, fmt.Sprintf("GOMEMLIMIT=%d", limit))
	if err != nil {
		return err
	}
	err = a.measure(ctx, b, p, ds, float64(limit)/(1<<20)*authorShare)
	return errors.Join(err, b.removeOne(ctx, ds), p.stop())
}

func (author) measure(ctx context.Context, b *bench, p *process, ds *dsv1.DataService, most float64) error {
	t := b.report.table("UPDATES", "OF THEM REFUSED", "RSS MiB", "PEAK RSS MiB", "LIVE HEAP MiB", "CPU SECONDS", "RECONCILES")
	refused := 0
	for n := range b.updates + 1 {
		if n == 0 || n == b.updates/10 || n == b.updates {
			u, err := p.usage(ctx)
			if err != nil {
				return err
			}
			peak, _ := b.report.check(fmt.Sprintf("peak RSS MiB after %d updates", n), u.peak, atMost(most))
			t.row(fmt.Sprint(n), fmt.Sprint(refused), number(u.rss), peak, number(u.heap), number(u.cpu), number(u.reconciles))
			b.report.progress("author: %d updates", n)
		}
		base := ds.DeepCopy()
		if enlarge(&ds.Spec.AdditionalServices[0], n) {
			refused++
		}
		if err := b.client.Patch(ctx, ds, client.MergeFrom(base)); err != nil {
			return err
		}
		if err := b.awaitObserved(ctx, ds); err != nil {
			return err
		}
	}
	t.flush()
	b.report.note("\nOne DataService with other %d bytes in each update, until the operator has seen it; the bound is a quarter of what it may take.", authorBytes)
	return nil
}

// enlarge gives a service other text for each n, and reports whether the operator must refuse it:
// every fourth is more than a ConfigMap holds, and every fourth depends on what is not declared.
func enlarge(service *dsv1.AdditionalService, n int) (refused bool) {
	random := rand.New(rand.NewPCG(1, uint64(n)))
	var text strings.Builder
	for text.Len() < authorBytes {
		fmt.Fprintf(&text, "%016x", random.Uint64())
	}
	service.Config, service.DependsOn = map[string]string{"text": text.String()}, nil
	switch n % 4 {
	case 1:
		service.Config["more"] = text.String()[:100_000]
	case 3:
		service.DependsOn = []dsv1.ComponentName{"nothing"}
	default:
		return false
	}
	return true
}

// awaitObserved waits until the status is that of the spec.
func (b *bench) awaitObserved(ctx context.Context, ds *dsv1.DataService) error {
	return b.services.await(ctx, func(objects map[string]client.Object) string {
		live, ok := objects[key(dsv1.Kind, ds.Namespace, ds.Name)].(*dsv1.DataService)
		if !ok || live.UID != ds.UID || live.Status.ObservedGeneration < ds.Generation {
			return fmt.Sprintf("the operator has not seen generation %d of %s", ds.Generation, ds.Name)
		}
		return ""
	})
}
