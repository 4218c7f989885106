// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// Stoppable returns a constructor of caches whose WaitForCacheSync also returns when a channel is closed. Without Stoppable, a manager that
// is stopped while its caches wait for their lists would loop forever (controller-runtime v0.25): the manager completes the start of all
// groups before it stops the first group.
func Stoppable(stopped <-chan struct{}) cache.NewCacheFunc {
	return func(cfg *rest.Config, options cache.Options) (cache.Cache, error) {
		c, err := cache.New(cfg, options)
		return &stoppable{c, stopped}, err
	}
}

type stoppable struct {
	cache.Cache

	stopped <-chan struct{}
}

// WaitForCacheSync returns true when the cache is synced, and also when the channel closes because the process ends.
func (s *stoppable) WaitForCacheSync(ctx context.Context) bool {
	ctx, cancel := context.WithCancel(ctx)
	synced := make(chan bool, 1)
	go func() { synced <- s.Cache.WaitForCacheSync(ctx) }()
	defer cancel()
	select {
	case is := <-synced:
		return is
	case <-s.stopped:
		return true
	}
}
