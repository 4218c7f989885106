// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
)

const (
	// reactions is how often each is measured.
	reactions = 20
	// healMilliseconds: a deleted object comes back within a second.
	healMilliseconds = 1000
	// victim is the component that is deleted and changed.
	victim = "auth"
)

// latency measures how fast the operator reacts.
type latency struct{}

func (l latency) run(ctx context.Context, b *bench) error {
	o, err := b.startOperator(ctx, nil)
	if err != nil {
		return err
	}
	ds, err := b.one(ctx)
	start := time.Now()
	if err == nil {
		err = b.create(ctx, ds)
	}
	if err == nil {
		err = b.awaitReady(ctx, ds)
	}
	if err == nil {
		err = l.measure(ctx, o, ds, time.Since(start))
	}
	if err = errors.Join(err, o.stop()); err != nil {
		return err
	}
	return b.removeOne(ctx, ds)
}

func (l latency) measure(ctx context.Context, o *operator, ds *dsv1.DataService, created time.Duration) error {
	b := o.bench
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	owned, err := b.track(ctx, ds.Namespace)
	if err != nil {
		return err
	}
	var sent, back, changed, rolled []time.Duration
	for i := range reactions {
		toPatch, toBack, err := l.heal(ctx, o, owned, ds)
		if err != nil {
			return fmt.Errorf("heal: %w", err)
		}
		sent, back = append(sent, toPatch), append(back, toBack)
		toPatch, toReady, err := l.change(ctx, o, ds, fmt.Sprintf("v%d", i))
		if err != nil {
			return fmt.Errorf("change of an image: %w", err)
		}
		changed, rolled = append(changed, toPatch), append(rolled, toReady)
	}
	t := b.report.table("FROM", "TO", "MEDIAN ms", "95% ms", "LONGEST ms")
	heal := spread(back)
	heal[2], _ = b.report.check("heal of a deleted Deployment, longest, ms", milliseconds(longest(back)), atMost(healMilliseconds))
	t.row(append([]string{"DataService created, once", "status Ready"}, spread([]time.Duration{created})...)...)
	t.row(append([]string{"Deployment deleted", "request sent"}, spread(sent)...)...)
	t.row(append([]string{"Deployment deleted", "a watch sees it again"}, heal...)...)
	t.row(append([]string{"image changed", "request sent"}, spread(changed)...)...)
	t.row(append([]string{"image changed", "rolled out, status Ready"}, spread(rolled)...)...)
	t.flush()
	b.report.note("\n%d times each, counted from the API server's answer to the change.", reactions)
	return nil
}

func longest(values []time.Duration) time.Duration {
	var l time.Duration
	for _, v := range values {
		l = max(l, v)
	}
	return l
}

// written reports whether a request writes the victim's Deployment.
func written(r harness.Sent) bool {
	return r.WritesObject() && r.Resource == "deployments" && r.Name == victim
}

// heal deletes a Deployment and takes the time until the request that creates it is sent, and
// until a watch sees it.
func (latency) heal(ctx context.Context, o *operator, owned *tracker, ds *dsv1.DataService) (toPatch, toBack time.Duration, err error) {
	if err := o.traffic.quiet(ctx, settled); err != nil {
		return 0, 0, err
	}
	o.traffic.reset()
	deployment := &appsv1.Deployment{}
	if err := o.bench.client.Get(ctx, client.ObjectKey{Namespace: ds.Namespace, Name: victim}, deployment); err != nil {
		return 0, 0, err
	}
	if err := o.bench.client.Delete(ctx, deployment, client.PropagationPolicy("Background")); err != nil {
		return 0, 0, err
	}
	start := time.Now()
	err = owned.await(ctx, func(objects map[string]client.Object) string {
		again, ok := objects[key("Deployment", ds.Namespace, victim)]
		if ok && again.GetUID() != deployment.UID {
			return ""
		}
		return "the deleted Deployment is not back"
	})
	toBack = time.Since(start)
	if err != nil {
		return 0, 0, err
	}
	patch, err := o.traffic.first(ctx, "a request to create the Deployment", written)
	if err != nil {
		return 0, 0, err
	}
	return max(0, patch.At.Sub(start)), toBack, o.bench.awaitReady(ctx, ds)
}

// change changes an image and takes the time until the request is sent, and until all is Ready.
func (latency) change(ctx context.Context, o *operator, ds *dsv1.DataService, tag string) (toPatch, toReady time.Duration, err error) {
	if err := o.traffic.quiet(ctx, settled); err != nil {
		return 0, 0, err
	}
	o.traffic.reset()
	if err := o.bench.patchImage(ctx, ds, tag); err != nil {
		return 0, 0, err
	}
	start := time.Now()
	patch, err := o.traffic.first(ctx, "a request to change the Deployment", written)
	if err != nil {
		return 0, 0, err
	}
	if err := o.bench.awaitReady(ctx, ds); err != nil {
		return 0, 0, err
	}
	return max(0, patch.At.Sub(start)), time.Since(start), nil
}
