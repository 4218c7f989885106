// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// writtenAtMost limits the number of stored versions, about 200 bytes each. The cache already shows most of these writes.
	writtenAtMost = 4096
	// lookAgain is the interval at which a read checks a cache that does not show a write yet.
	lookAgain = 2 * time.Millisecond
)

// written stores the versions of objects that this process patched or updated without Go types. controller-runtime waits for writes with Go
// types and for applies. For an Unstructured, it registers a patch or an update under the Go type, but reads wait under the kind (v0.25.2,
// writeTargetFor in pkg/client/consistency.go).
type written struct{ versions *lru.Cache }

type writtenObject struct {
	kind schema.GroupVersionKind
	key  client.ObjectKey
}

func newWritten() written { return written{lru.New(writtenAtMost)} }

// add remembers the version that an object has after a write.
func (w written) add(o client.Object) {
	if u, ok := o.(*unstructured.Unstructured); ok && w.versions != nil {
		w.versions.Add(writtenObject{u.GroupVersionKind(), client.ObjectKeyFromObject(u)}, u.GetResourceVersion())
	}
}

// isShown reports whether a read object is at least as new as the last write.
func (w written) isShown(o client.Object) bool {
	u, ok := o.(*unstructured.Unstructured)
	if !ok || w.versions == nil {
		return true
	}
	at := writtenObject{u.GroupVersionKind(), client.ObjectKeyFromObject(u)}
	last, ok := w.versions.Get(at)
	if !ok {
		return true
	}
	order, err := resourceversion.CompareResourceVersion(u.GetResourceVersion(), last.(string))
	if err == nil && order < 0 {
		return false
	}
	w.versions.Remove(at)
	return true
}

// Patch patches an object, and stores the version that later reads must show.
func (c *boundedClient) Patch(ctx context.Context, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
	err := c.Client.Patch(ctx, o, patch, opts...)
	if err == nil {
		c.written.add(o)
	}
	return err
}

// Update updates an object, and stores the version that later reads must show.
func (c *boundedClient) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	err := c.Client.Update(ctx, o, opts...)
	if err == nil {
		c.written.add(o)
	}
	return err
}

// cachedGet reads from the cache until the cache shows the last write, or the context ends.
func (c *boundedClient) cachedGet(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	for {
		if err := c.Client.Get(ctx, key, o, opts...); err != nil || c.written.isShown(o) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lookAgain):
		}
	}
}
