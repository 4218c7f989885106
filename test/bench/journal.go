// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"d3os.com/d3os-operator/test/harness"
)

// journal parses the operator's log. The log contains a line for every reconciliation, including those without a request.
type journal struct {
	news    harness.News
	mu      sync.Mutex
	started bool
	looks   map[string]int // reconciliations by controller/namespace/name
	ended   int            // all ended reconciliations, including failed ones
	errors  []string
}

func newJournal() *journal { return &journal{looks: map[string]int{}} }

// reset sets the counters to zero.
func (j *journal) reset() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.looks, j.ended, j.errors = map[string]int{}, 0, nil
}

func (j *journal) counts() (looks int, errors []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.ended, j.errors
}

func (j *journal) await(ctx context.Context, missing func() error) error {
	return await(ctx, &j.news, func() error {
		j.mu.Lock()
		defer j.mu.Unlock()
		return missing()
	})
}

// awaitStart waits until the operator's cache is synced and its workers have started.
func (j *journal) awaitStart(ctx context.Context) error {
	return j.await(ctx, func() error {
		if !j.started {
			return errors.New("the operator's workers did not start")
		}
		return nil
	})
}

// awaitLooks waits until the given number of resources of a kind were reconciled since the last reset. times is the minimum number of
// reconciliations of each resource.
func (j *journal) awaitLooks(ctx context.Context, kind string, resources, times int) error {
	return j.await(ctx, func() error {
		enough := 0
		for resource, n := range j.looks {
			if strings.HasPrefix(resource, strings.ToLower(kind)+"/") && n >= times {
				enough++
			}
		}
		if enough < resources {
			return fmt.Errorf("%d of %d %ss were reconciled %d times", enough, resources, kind, times)
		}
		return nil
	})
}

// follow reads a log to its end and returns the last line.
func (j *journal) follow(log io.Reader) (last string) {
	for lines := bufio.NewReader(log); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return last
		}
		last = string(line)
		var e entry
		if json.Unmarshal(line, &e) == nil { // the output of a crash in Go is not JSON
			j.add(e)
		}
	}
}

// entry is a line of the log.
type entry struct{ Level, Msg, Error, Controller, Namespace, Name string }

func (j *journal) add(e entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	about := key(e.Controller, e.Namespace, e.Name)
	switch {
	case e.Level == "error":
		j.errors = append(j.errors, fmt.Sprintf("%s %s: %s", about, e.Msg, e.Error))
		if e.Controller != "" {
			j.ended++
		}
	case e.Msg == "Starting workers":
		j.started = true
	case e.Msg == "Reconcile successful", strings.HasPrefix(e.Msg, "Reconcile done"):
		j.looks[about]++
		j.ended++
	}
	j.news.Raise()
}

const (
	// waitAtMost limits each wait.
	waitAtMost = time.Hour
	// standstill is the longest wait without a change. It is long because a DataService may wait in the queue behind all others.
	standstill = 15 * time.Minute
)

// await waits until missing returns nil. It calls missing again after each change.
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

// tracker holds the present objects of the cluster, from watches.
type tracker struct {
	news    harness.News
	mu      sync.Mutex
	objects map[string]client.Object // by kind/namespace/name
}

// key returns the key of an object in a tracker.
func key(kind, namespace, name string) string { return kind + "/" + namespace + "/" + name }

// track watches kinds, given as empty objects, until the context ends. track returns when the tracker holds the present objects.
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
	go func() { _ = c.Start(ctx) }() // the cache stops with the context
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

// await waits until missing returns nil for the objects. missing must not keep or change the objects.
func (t *tracker) await(ctx context.Context, missing func(objects map[string]client.Object) error) error {
	return await(ctx, &t.news, func() error {
		t.mu.Lock()
		defer t.mu.Unlock()
		return missing(t.objects)
	})
}

// awaitNone waits until mayStay returns true for all remaining objects.
func (t *tracker) awaitNone(ctx context.Context, mayStay func(client.Object) bool) error {
	return t.await(ctx, func(objects map[string]client.Object) error {
		for k, object := range objects {
			if !mayStay(object) {
				return fmt.Errorf("%s still exists, and up to %d others", k, len(objects)-1)
			}
		}
		return nil
	})
}
