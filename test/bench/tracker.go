// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"d3os.com/d3os-operator/test/harness"
)

const (
	// waitAtMost ends a wait for something that does not come.
	waitAtMost = time.Hour
	// standstill ends it when nothing has changed for so long: more than one DataService may wait behind all others.
	standstill = 15 * time.Minute
)

// await waits until nothing is missing. It asks again whenever there is news.
func await(ctx context.Context, n *harness.News, missing func() error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, waitAtMost, fmt.Errorf("gave up after %s", waitAtMost))
	defer cancel()
	for {
		next := n.Next()
		lacks := missing()
		if lacks == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(lacks, context.Cause(ctx))
		case <-time.After(standstill):
			return fmt.Errorf("%w, and nothing has changed for %s", lacks, standstill)
		case <-next:
		}
	}
}

// tracker knows, by watches, what is in the cluster.
type tracker struct {
	news    harness.News
	mu      sync.Mutex
	objects map[string]client.Object // by kind/namespace/name
}

// key is the key of an object in a tracker.
func key(kind, namespace, name string) string { return kind + "/" + namespace + "/" + name }

// track watches kinds, given as empty objects, until the context ends. It returns when the present is known.
func (b *bench) track(ctx context.Context, options cache.Options, kinds ...client.Object) (*tracker, error) {
	t := &tracker{objects: map[string]client.Object{}}
	options.Scheme, options.DefaultTransform = b.client.Scheme(), cache.TransformStripManagedFields()
	c, err := cache.New(b.config(), options)
	if err != nil {
		return nil, fmt.Errorf("set up a watch: %w", err)
	}
	var synced []toolscache.InformerSynced
	for _, empty := range kinds {
		gvk, err := apiutil.GVKForObject(empty, options.Scheme)
		if err != nil {
			return nil, err
		}
		informer, err := c.GetInformer(ctx, empty, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("watch %s: %w", gvk.Kind, err)
		}
		registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { t.saw(gvk.Kind, object, false) },
			UpdateFunc: func(_, object any) { t.saw(gvk.Kind, object, false) },
			DeleteFunc: func(object any) { t.saw(gvk.Kind, object, true) },
		})
		if err != nil {
			return nil, fmt.Errorf("watch %s: %w", gvk.Kind, err)
		}
		synced = append(synced, registration.HasSynced)
	}
	go func() { _ = c.Start(ctx) }() // it ends with the context
	if !toolscache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil, fmt.Errorf("the watches did not start: %w", context.Cause(ctx))
	}
	return t, nil
}

func (t *tracker) saw(kind string, object any, gone bool) {
	if last, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	o, ok := object.(client.Object)
	if !ok {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if k := key(kind, o.GetNamespace(), o.GetName()); gone {
		delete(t.objects, k)
	} else {
		t.objects[k] = o
	}
	t.news.Raise()
}

// await waits until nothing is missing from the objects, which it must not keep or change.
func (t *tracker) await(ctx context.Context, missing func(objects map[string]client.Object) error) error {
	return await(ctx, &t.news, func() error {
		t.mu.Lock()
		defer t.mu.Unlock()
		return missing(t.objects)
	})
}

// awaitNone waits until no object is left but for those that may stay.
func (t *tracker) awaitNone(ctx context.Context, mayStay func(client.Object) bool) error {
	return t.await(ctx, func(objects map[string]client.Object) error {
		for k, object := range objects {
			if !mayStay(object) {
				return fmt.Errorf("%s is still there, and up to %d others", k, len(objects)-1)
			}
		}
		return nil
	})
}
