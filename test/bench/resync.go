// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
)

// resyncRounds is how many resyncs of every DataService are waited for: the first is over for
// sure when the last begins.
const resyncRounds = 3

// awaitResyncs waits until the operator's cache has announced every DataService that often
// though it had not changed.
func (o *operator) awaitResyncs(ctx context.Context) error {
	informer, err := o.Manager.GetCache().GetInformer(ctx, &dsv1.DataService{})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var heard harness.News
	rounds := map[string]int{}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { // those that are there
			mu.Lock()
			defer mu.Unlock()
			rounds[client.ObjectKeyFromObject(object.(client.Object)).String()] = 0
		},
		UpdateFunc: func(before, after any) {
			was, is := before.(client.Object), after.(client.Object)
			if was.GetResourceVersion() != is.GetResourceVersion() {
				return
			}
			mu.Lock()
			rounds[client.ObjectKeyFromObject(is).String()]++
			mu.Unlock()
			heard.Raise()
		},
	})
	if err != nil {
		return err
	}
	defer func() { _ = informer.RemoveEventHandler(registration) }() // the informer ends with the operator anyway
	return await(ctx, &heard, func() string {
		mu.Lock()
		defer mu.Unlock()
		if len(rounds) == 0 {
			return "no DataService was announced"
		}
		for name, n := range rounds {
			if n < resyncRounds {
				return fmt.Sprintf("%s was announced %d times of %d", name, n, resyncRounds)
			}
		}
		return ""
	})
}
