// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"testing"

	"gotest.tools/v3/assert"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// waiting is a cache that waits for its lists until the context ends.
type waiting struct {
	cache.Cache

	began, ended chan struct{}
}

func (w waiting) WaitForCacheSync(ctx context.Context) bool {
	close(w.began)
	<-ctx.Done()
	close(w.ended)
	return false
}

// When the process stops, a wait for a cache ends although the cache has no lists. The wait of the cache itself ends, too.
func TestStoppableEndsAWaitForLists(t *testing.T) {
	t.Parallel()
	stopped, synced := make(chan struct{}), make(chan bool)
	inner := waiting{began: make(chan struct{}), ended: make(chan struct{})}
	go func() { synced <- (&stoppable{inner, stopped}).WaitForCacheSync(context.Background()) }()
	<-inner.began
	close(stopped)
	assert.Assert(t, <-synced, "the manager would report an error of the cache")
	<-inner.ended
}
