// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
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
	ds, err := b.one(ctx)
	if err != nil {
		return err
	}
	ds.Spec = dsv1.DataServiceSpec{AdditionalServices: []dsv1.AdditionalService{{Name: "a"}}}
	own := &ds.Spec.AdditionalServices[0]
	own.Image, own.Replica = "registry.example.com/a:v1", ptr.To[int32](0)
	dsv1.SetDefaults(ds)
	if err := b.create(ctx, ds); err != nil {
		return err
	}
	return b.measured(ctx, func(ctx context.Context, o *operator) error { return a.measure(ctx, o, ds) })
}

func (author) measure(ctx context.Context, o *operator, ds *dsv1.DataService) error {
	t := o.report.usages("")
	refused := 0
	for n := range o.updates + 1 {
		if n == 0 || n == o.updates/10 || n == o.updates {
			u, err := o.usage(ctx)
			if err != nil {
				return err
			}
			t.add(fmt.Sprintf("%d updates, %d of them refused", n, refused), u, atMost(o.memory*authorShare))
			o.report.progress("author: %d updates", n)
		}
		base := ds.DeepCopy()
		if enlarge(&ds.Spec.AdditionalServices[0], n) {
			refused++
		}
		if err := o.client.Patch(ctx, ds, client.MergeFrom(base)); err != nil {
			return err
		}
		if err := o.awaitStatus(ctx, harness.Observed, ds); err != nil {
			return err
		}
	}
	t.flush()
	o.report.note("\nOne DataService with other %d bytes in each update, until the operator has seen it; the bound is a quarter of what it may take.", authorBytes)
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
