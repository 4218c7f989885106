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

// cachePatience limits the time that a read waits for the cache to show what this process wrote. Watches
// take milliseconds for that.
const cachePatience = 5 * time.Second

// How long a read waits for the cache of a kind that lags, and how long a kind counts as lagging: no
// reconciliation takes longer.
const (
	lagPatience = 100 * time.Millisecond
	lagMemory   = 2 * time.Minute
)

// boundedClient is a client with read-your-writes consistency whose reads wait for the cache no
// longer than its patience.
//
// Some waits have no end: the cache compares the versions of the objects that it has seen with
// that of the last write. When a watch breaks after a write, what is gone by the time of the new
// list is in neither: not even the deletion's own version, which the API server returns for
// Services. Only a later change of any object of that kind would end such a wait.
type boundedClient struct {
	client.Client

	live     client.Reader
	cached   labels.Selector // of objects that are read without Go types
	patience time.Duration
	written  written

	mu      sync.Mutex
	lagging map[string]time.Time // kind -> end of that
}

// NewClient returns a client that reads from the cache, which holds what the operator manages, and
// asks the API server when the cache does not catch up within cachePatience.
func NewClient(cached client.Client, live client.Reader) client.Client {
	return &boundedClient{Client: cached, live: live, cached: managed(), patience: cachePatience, written: newWritten()}
}

// Get reads from the cache, or else what the cache would show if it had caught up.
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

// List reads from the cache, caught up or not: its indexes are the cache's alone.
func (c *boundedClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := c.bounded(ctx, list, func(ctx context.Context) error { return c.Client.List(ctx, list, opts...) })
	if !lags(ctx, err) {
		return err
	}
	return c.Client.List(ctx, list, append(opts, client.DisableReadYourWritesConsistency)...)
}

// bounded reads objects of a kind for as long as its patience lasts.
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

// kindOf names what the cache keeps apart: the Go type, and the kind where the type serves several.
func kindOf(of runtime.Object) string {
	kind := of.GetObjectKind().GroupVersionKind()
	return strings.TrimSuffix(fmt.Sprintf("%T", of), "List") + " " + kind.Group + " " + strings.TrimSuffix(kind.Kind, "List")
}

// lags reports whether a read ended because its patience did, and not the reconciliation's.
func lags(ctx context.Context, err error) bool {
	return errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
}
