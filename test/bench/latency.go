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
	ds, err := b.one(ctx)
	if err != nil {
		return err
	}
	return b.counted(ctx, func(ctx context.Context, o *operator) error {
		start := time.Now()
		if err := b.create(ctx, ds); err != nil {
			return err
		}
		if err := b.awaitReady(ctx, ds); err != nil {
			return err
		}
		return l.measure(ctx, o, ds, time.Since(start))
	})
}

func (l latency) measure(ctx context.Context, o *operator, ds *dsv1.DataService, created time.Duration) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	owned, err := o.trackOwned(ctx, ds.Namespace)
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
	t := o.report.spreads("FROM", "TO")
	t.add("DataService created, once", "status Ready", []time.Duration{created}, nil)
	t.add("Deployment deleted", "request sent", sent, nil)
	t.add("Deployment deleted", "a watch sees it again", back, atMost(healMilliseconds))
	t.add("image changed", "request sent", changed, nil)
	t.add("image changed", "rolled out, status Ready", rolled, nil)
	t.flush()
	o.report.note("\n%d times each, counted from the API server's answer to the change.", reactions)
	return nil
}

// written reports whether a request writes the victim's Deployment.
func written(r harness.Sent) bool {
	return r.WritesObject() && r.Resource == "deployments" && r.Name == victim
}

// heal deletes a Deployment and takes the time until the request that creates it is sent, and
// until a watch sees it.
func (l latency) heal(ctx context.Context, o *operator, owned *tracker, ds *dsv1.DataService) (toPatch, toBack time.Duration, err error) {
	deployment := &appsv1.Deployment{}
	if err := o.client.Get(ctx, client.ObjectKey{Namespace: ds.Namespace, Name: victim}, deployment); err != nil {
		return 0, 0, err
	}
	toPatch, toBack, err = l.react(ctx, o, func() error {
		return o.client.Delete(ctx, deployment, client.PropagationPolicy("Background"))
	}, func() error {
		return owned.await(ctx, func(objects map[string]client.Object) error {
			again, ok := objects[key("Deployment", ds.Namespace, victim)]
			if !ok || again.GetUID() == deployment.UID {
				return errors.New("the deleted Deployment is not back")
			}
			return nil
		})
	})
	if err != nil {
		return 0, 0, err
	}
	return toPatch, toBack, o.awaitReady(ctx, ds)
}

// change changes an image and takes the time until the request is sent, and until all is Ready.
func (l latency) change(ctx context.Context, o *operator, ds *dsv1.DataService, tag string) (toPatch, toReady time.Duration, err error) {
	return l.react(ctx, o, func() error { return o.patchImage(ctx, ds, tag) }, func() error { return o.awaitReady(ctx, ds) })
}

// react does something at rest and takes the time from its end until the operator writes the Deployment, and until an
// effect is there.
func (latency) react(ctx context.Context, o *operator, do, effect func() error) (toPatch, toEffect time.Duration, err error) {
	if err := o.traffic.quiet(ctx, settled); err != nil {
		return 0, 0, err
	}
	o.traffic.reset()
	if err := do(); err != nil {
		return 0, 0, err
	}
	start := time.Now()
	if err := effect(); err != nil {
		return 0, 0, err
	}
	toEffect = time.Since(start)
	patches := o.traffic.Since(o.traffic.from, written)
	if len(patches) == 0 {
		return 0, 0, errors.New("the operator has not written the Deployment")
	}
	return max(0, patches[0].At.Sub(start)), toEffect, nil
}
