// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

func sized(name string, bytes int) *dsv1.DataService {
	ds := &dsv1.DataService{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: "u", Generation: 1}}
	ds.Spec.Auth = &dsv1.Service{}
	ds.Spec.Auth.Config = map[string]string{"a": strings.Repeat("x", bytes)}
	return ds
}

// A hundred large resources, each of which takes a while to plan, do not hold up a small one: they are planned one at a time, and no worker
// waits for a turn.
func TestLargeResourcesDoNotDelayASmallOne(t *testing.T) {
	t.Parallel()
	const workers, plan = 8, 30 * time.Millisecond
	h := newHeavy()
	queue := workqueue.NewTypedDelayingQueue[*dsv1.DataService]()
	defer queue.ShutDown()
	var planned, atOnce atomic.Int32
	small := make(chan time.Time, 1)
	work := func(ds *dsv1.DataService) {
		leave, err := h.enter(ds)
		if err != nil {
			queue.AddAfter(ds, h.again())
			return
		}
		defer leave()
		if ds.Name == "small" {
			small <- time.Now()
			return
		}
		assert.Check(t, atOnce.Add(1) == 1, "two large ones are planned at once")
		time.Sleep(plan)
		atOnce.Add(-1)
		planned.Add(1)
	}
	for i := range 100 {
		queue.Add(sized(fmt.Sprint("large-", i), 2*heavyBytes))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range workers {
		go func() {
			for ctx.Err() == nil {
				ds, ended := queue.Get()
				if ended {
					return
				}
				work(ds)
				queue.Done(ds)
			}
		}()
	}
	time.Sleep(2 * plan) // all workers are at the large ones
	begun := time.Now()
	queue.Add(sized("small", 10))
	assert.Assert(t, (<-small).Sub(begun) < time.Second)
	for deadline := time.Now().Add(time.Minute); planned.Load() < 100; time.Sleep(plan) {
		assert.Assert(t, time.Now().Before(deadline), "%d of 100 were planned", planned.Load())
	}
}
