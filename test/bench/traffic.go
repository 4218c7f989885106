// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// class is what a request is for.
type class int

const (
	objectWrite class = iota
	statusWrite
	read
	cacheList // a cache's initial list, as a list or as the start of a watch
	watch
	event
	lease
	discover
	classes // how many there are
)

// request is one request to the API server.
type request struct {
	class                                  class
	verb, resource, namespace, name, child string
	code                                   int // 0 when there was no response
	start, end                             time.Time
}

func (r request) String() string {
	resource := r.resource
	if r.child != "" {
		resource += "/" + r.child
	}
	return fmt.Sprintf("%s %s: %d", r.verb, resource, r.code)
}

// traffic records every request of one client at its transport.
type traffic struct {
	news     news
	mu       sync.Mutex
	requests []request
	last     time.Time // end of the latest
}

func (t *traffic) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		seen := classify(r)
		seen.start = time.Now()
		response, err := next.RoundTrip(r)
		seen.end = time.Now()
		if response != nil {
			seen.code = response.StatusCode
		}
		t.mu.Lock()
		t.requests = append(t.requests, seen)
		t.last = seen.end
		t.mu.Unlock()
		t.news.raise()
		return response, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func classify(r *http.Request) request {
	seen := request{verb: r.Method, resource: strings.Trim(r.URL.Path, "/"), class: discover}
	parts := strings.Split(seen.resource, "/")
	skip := map[string]int{"api": 2, "apis": 3}[parts[0]]
	if skip == 0 || len(parts) <= skip {
		return seen
	}
	parts = parts[skip:]
	if parts[0] == "namespaces" && len(parts) > 2 {
		seen.namespace, parts = parts[1], parts[2:]
	}
	parts = append(parts, "", "")
	seen.resource, seen.name, seen.child = parts[0], parts[1], parts[2]
	seen.class = seen.classOf(r)
	return seen
}

func (r request) classOf(raw *http.Request) class {
	query := raw.URL.Query()
	switch {
	case r.resource == "events":
		return event
	case r.resource == "leases":
		return lease
	case query.Get("sendInitialEvents") == "true":
		return cacheList
	case query.Get("watch") == "true" || query.Get("watch") == "1":
		return watch
	case r.verb == http.MethodGet && r.name == "" && query.Has("resourceVersion"):
		return cacheList
	case r.verb == http.MethodGet:
		return read
	case r.child == "status":
		return statusWrite
	default:
		return objectWrite
	}
}

// reset forgets what was recorded.
func (t *traffic) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.requests = nil
}

func (t *traffic) all() []request {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.requests)
}

// counts is how many requests there were of each class.
type counts [classes]int

func (t *traffic) counts() counts {
	var c counts
	for _, r := range t.all() {
		c[r.class]++
	}
	return c
}

// first returns the first request that matches, when it has come.
func (t *traffic) first(ctx context.Context, what string, match func(request) bool) (request, error) {
	var found request
	err := t.news.await(ctx, func() string {
		all := t.all()
		if i := slices.IndexFunc(all, match); i >= 0 {
			found = all[i]
			return ""
		}
		return what + " was not sent"
	})
	return found, err
}

// quiet waits until there was no request for a while: what follows of something has followed.
func (t *traffic) quiet(ctx context.Context, while time.Duration) error {
	timer := time.NewTimer(while)
	defer timer.Stop()
	for {
		next := t.news.next()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			return nil
		case <-next:
			timer.Reset(while)
		}
	}
}

// rested waits like quiet, but counts the time in which there was no request before.
func (t *traffic) rested(ctx context.Context, while time.Duration) error {
	t.mu.Lock()
	last := t.last
	t.mu.Unlock()
	if time.Since(last) >= while {
		return nil
	}
	return t.quiet(ctx, while)
}

// evidence lists the reads and writes, and what was written more than once.
func (t *traffic) evidence() []string {
	lines, written := map[string]int{}, map[string]int{}
	for _, r := range t.all() {
		if r.class > read {
			continue
		}
		lines[r.String()]++
		if r.class == objectWrite {
			written[fmt.Sprintf("%s %s/%s", r.resource, r.namespace, r.name)]++
		}
	}
	var result []string
	for _, line := range slices.Sorted(maps.Keys(lines)) {
		result = append(result, fmt.Sprintf("%4d  %s", lines[line], line))
	}
	for _, object := range slices.Sorted(maps.Keys(written)) {
		if n := written[object]; n > 1 && len(result) < 40 {
			result = append(result, fmt.Sprintf("      %s was written %d times", object, n))
		}
	}
	return result
}
