// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/test/harness"
)

// tracker knows, by watches, what is in the cluster.
type tracker struct {
	news    harness.News
	mu      sync.Mutex
	objects map[string]client.Object // by kind/namespace/name
}

// key is the key of an object in a tracker.
func key(kind, namespace, name string) string { return kind + "/" + namespace + "/" + name }

// startTracker watches kinds, given as empty objects by name, until the context ends. It returns when the present is known.
func startTracker(ctx context.Context, config *rest.Config, options cache.Options, kinds map[string]client.Object) (*tracker, error) {
	t := &tracker{objects: map[string]client.Object{}}
	options.DefaultTransform = cache.TransformStripManagedFields()
	c, err := cache.New(config, options)
	if err != nil {
		return nil, fmt.Errorf("set up a watch: %w", err)
	}
	var synced []toolscache.InformerSynced
	for kind, empty := range kinds {
		informer, err := c.GetInformer(ctx, empty, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("watch %s: %w", kind, err)
		}
		handle := func(object any, gone bool) {
			if last, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}
			if o, ok := object.(client.Object); ok {
				t.saw(key(kind, o.GetNamespace(), o.GetName()), o, gone)
			}
		}
		registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { handle(object, false) },
			UpdateFunc: func(_, object any) { handle(object, false) },
			DeleteFunc: func(object any) { handle(object, true) },
		})
		if err != nil {
			return nil, fmt.Errorf("watch %s: %w", kind, err)
		}
		synced = append(synced, registration.HasSynced)
	}
	go func() { _ = c.Start(ctx) }() // it ends with the context
	if !toolscache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil, fmt.Errorf("the watches did not start: %w", context.Cause(ctx))
	}
	return t, nil
}

func (t *tracker) saw(key string, object client.Object, gone bool) {
	t.mu.Lock()
	if gone {
		delete(t.objects, key)
	} else {
		t.objects[key] = object
	}
	t.mu.Unlock()
	t.news.Raise()
}

// await waits until nothing is missing from the objects, which it must not keep or change.
func (t *tracker) await(ctx context.Context, missing func(objects map[string]client.Object) string) error {
	return await(ctx, &t.news, func() string {
		t.mu.Lock()
		defer t.mu.Unlock()
		return missing(t.objects)
	})
}

// awaitAny waits until there is an object.
func (t *tracker) awaitAny(ctx context.Context) error {
	return t.await(ctx, func(objects map[string]client.Object) string {
		if len(objects) == 0 {
			return "there is no object"
		}
		return ""
	})
}

// awaitNone waits until no object is left but for those that may stay.
func (t *tracker) awaitNone(ctx context.Context, mayStay func(client.Object) bool) error {
	return t.await(ctx, func(objects map[string]client.Object) string {
		for k, object := range objects {
			if mayStay == nil || !mayStay(object) {
				return fmt.Sprintf("%s is still there, and up to %d others", k, len(objects)-1)
			}
		}
		return ""
	})
}
