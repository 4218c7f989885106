// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/kinds/dataservice/credentials"
	"d3os.com/d3os-operator/internal/kinds/dataservice/plan"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/render"
	"d3os.com/d3os-operator/test/harness"
)

// componentsAtOnce is how many components of one DataService the plain client applies at
// once, as the operator does.
const componentsAtOnce = 4

// peer is the plain client that the operator is compared with: it knows everything
// beforehand, applies it in the operator's order, waits by watch for what a component
// depends on by the operator's own rule of readiness, and does nothing else.
type peer struct {
	client  client.Client
	traffic *traffic
	slots   chan struct{} // components applied at once, over all DataServices
	stop    context.CancelFunc

	mu      sync.Mutex
	settled map[string]bool          // by kind/namespace/name
	heard   map[string]*harness.News // by namespace
}

// job is all the plain client needs for one DataService.
type job struct {
	namespace string
	secrets   []*unstructured.Unstructured
	plan      *plan.Plan
}

// prepare plans a DataService that exists.
func (b *bench) prepare(renderer *render.Renderer, ds *dsv1.DataService) (*job, error) {
	secrets, p, err := makePlan(plan.NewPlanner(renderer, nil), credentials.NewKeeper(), ds)
	if err != nil {
		return nil, err
	}
	return &job{ds.Namespace, secrets.Secrets, p}, nil
}

// startPeer connects a plain client that works on as many components at once as an operator
// with that concurrency.
func (b *bench) startPeer(ctx context.Context, concurrency int) (*peer, error) {
	p := &peer{
		traffic: &traffic{}, slots: make(chan struct{}, concurrency*componentsAtOnce),
		settled: map[string]bool{}, heard: map[string]*harness.News{},
	}
	ctx, p.stop = context.WithCancel(ctx)
	config := b.config()
	config.Wrap(p.traffic.Before)
	var err error
	if p.client, err = client.New(config, client.Options{Scheme: b.scheme}); err != nil {
		p.stop()
		return nil, err
	}
	options := cache.Options{Scheme: b.scheme, ByObject: map[client.Object]cache.ByObject{}, DefaultTransform: cache.TransformStripManagedFields()}
	kinds := map[string]client.Object{}
	for _, gvk := range object.Kinds {
		if gvk.Group == "apps" { // all other kinds are ready once they exist
			empty := object.Empty(gvk)
			kinds[gvk.Kind] = empty
			options.ByObject[empty] = cache.ByObject{Label: managed}
		}
	}
	if err := inform(ctx, config, options, kinds, p.saw); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

func (p *peer) saw(kind string, obj client.Object, gone bool) {
	live, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return
	}
	is := !gone && health.Assess([]*unstructured.Unstructured{live}, nil).Settled
	k := key(kind, obj.GetNamespace(), obj.GetName())
	p.mu.Lock()
	was := p.settled[k]
	p.settled[k] = is
	s := p.newsOf(obj.GetNamespace())
	p.mu.Unlock()
	if is != was {
		s.Raise()
	}
}

// newsOf is that of a namespace; the caller holds the lock.
func (p *peer) newsOf(namespace string) *harness.News {
	s, ok := p.heard[namespace]
	if !ok {
		s = &harness.News{}
		p.heard[namespace] = s
	}
	return s
}

// install brings one DataService up and returns when all of it is ready.
func (p *peer) install(ctx context.Context, j *job) error {
	p.mu.Lock()
	heard := p.newsOf(j.namespace)
	p.mu.Unlock()
	applied := make([]bool, len(j.plan.Components)) // guarded by p.mu
	ready := func(i int) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, obj := range j.plan.Components[i].Objects {
			if obj.GroupVersionKind().Group == "apps" && !p.settled[key(obj.GetKind(), obj.GetNamespace(), obj.GetName())] {
				return false
			}
		}
		return applied[i]
	}
	for _, secret := range j.secrets {
		if err := p.apply(ctx, secret); err != nil {
			return err
		}
	}
	own := make(chan struct{}, componentsAtOnce)
	group, ctx := errgroup.WithContext(ctx)
	for i := range j.plan.Components {
		c := &j.plan.Components[i]
		group.Go(func() error {
			if err := await(ctx, heard, func() string { return waitsFor(j.plan, c, ready) }); err != nil {
				return fmt.Errorf("%s/%s: %w", j.namespace, c.Name, err)
			}
			own <- struct{}{}
			p.slots <- struct{}{}
			err := p.applyAll(ctx, c.Objects)
			<-p.slots
			<-own
			if err != nil {
				return err
			}
			p.mu.Lock()
			applied[i] = true
			p.mu.Unlock()
			heard.Raise()
			return await(ctx, heard, func() string {
				if ready(i) {
					return ""
				}
				return fmt.Sprintf("%s of %s is not ready", c.Name, j.namespace)
			})
		})
	}
	return group.Wait()
}

// waitsFor names a component that another waits for.
func waitsFor(p *plan.Plan, c *plan.Component, ready func(int) bool) string {
	for i := range p.Components {
		for _, name := range c.DependsOn {
			if p.Components[i].Name == name && !ready(i) {
				return fmt.Sprintf("%s is not ready", name)
			}
		}
	}
	return ""
}

func (p *peer) applyAll(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, obj := range objects {
		if err := p.apply(ctx, obj); err != nil {
			return err
		}
	}
	return nil
}

func (p *peer) apply(ctx context.Context, obj *unstructured.Unstructured) error {
	err := p.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj.DeepCopy()),
		client.FieldOwner(apply.FieldManager), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("apply %s %s/%s: %w", obj.GetKind(), obj.GetNamespace(), obj.GetName(), err)
	}
	return nil
}
