// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// cachePatience limits the time that a read waits until the cache shows the writes of this process. A watch usually delivers them within
// milliseconds.
const cachePatience = 5 * time.Second

// lagPatience limits the time that a read waits for the cache of a lagging kind. lagMemory is the time for which a kind counts as lagging:
// longer than any reconciliation.
const (
	lagPatience = 100 * time.Millisecond
	lagMemory   = 2 * time.Minute
)

// boundedClient is a client with read-your-writes consistency. Its reads wait for the cache only for a limited time.
//
// Some waits never end. The cache compares the version of the last write with the versions of the objects that it has received. (1) A write
// deletes an object. (2) The watch breaks. (3) The new list contains neither the object nor the version of its deletion. (The API server
// returns that version when a Service is deleted.) (4) The read waits until any object of that kind changes.
type boundedClient struct {
	client.Client

	live     client.Reader
	cached   labels.Selector // selects the cached objects that are read without Go types
	patience time.Duration
	written  written

	mu      sync.Mutex
	lagging map[string]time.Time // kind -> time until which the kind counts as lagging
}

// NewClient returns a client that reads from the cache of the operator's objects, and from the API server if the cache does not catch up
// within cachePatience.
func NewClient(cached client.Client, live client.Reader) client.Client {
	return &boundedClient{Client: cached, live: live, cached: managed(), patience: cachePatience, written: newWritten()}
}

// Get reads from the cache. If the cache lags, Get reads from the API server, and hides objects that the cache would not hold.
func (c *boundedClient) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	err := c.bounded(ctx, object, func(ctx context.Context) error { return c.cachedGet(ctx, key, object, opts...) })
	if !lags(ctx, err) {
		return err
	}
	if err := c.live.Get(ctx, key, object, opts...); err != nil {
		return err
	}
	object.SetManagedFields(nil)
	if _, ok := object.(*unstructured.Unstructured); ok && !c.cached.Matches(labels.Set(object.GetLabels())) {
		return apierrors.NewNotFound(schema.GroupResource{Resource: object.GetObjectKind().GroupVersionKind().Kind}, key.Name)
	}
	return nil
}

// List reads from the cache, even if the cache lags: only the cache has the indexes.
func (c *boundedClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := c.bounded(ctx, list, func(ctx context.Context) error { return c.Client.List(ctx, list, opts...) })
	if !lags(ctx, err) {
		return err
	}
	return c.Client.List(ctx, list, append(opts, client.DisableReadYourWritesConsistency)...)
}

// bounded reads objects of a kind with a time limit.
func (c *boundedClient) bounded(ctx context.Context, of runtime.Object, read func(context.Context) error) error {
	kind := kindOf(of)
	bounded, cancel := context.WithTimeout(ctx, c.patienceFor(kind))
	defer cancel()
	err := read(bounded)
	if lags(ctx, err) {
		c.remember(kind)
	}
	return err
}

func (c *boundedClient) patienceFor(kind string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().Before(c.lagging[kind]) {
		return min(lagPatience, c.patience)
	}
	return c.patience
}

func (c *boundedClient) remember(kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lagging == nil {
		c.lagging = map[string]time.Time{}
	}
	c.lagging[kind] = time.Now().Add(lagMemory)
}

// kindOf identifies a cache by the Go type, and by the kind if several kinds share the type.
func kindOf(of runtime.Object) string {
	kind := of.GetObjectKind().GroupVersionKind()
	return strings.TrimSuffix(fmt.Sprintf("%T", of), "List") + " " + kind.Group + " " + strings.TrimSuffix(kind.Kind, "List")
}

// lags reports whether a read ended because of the limit for a read, and not because of the limit for the reconciliation.
func lags(ctx context.Context, err error) bool {
	return errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
}
