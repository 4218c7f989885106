// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"d3os.com/d3os-operator/test/harness"
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

func classOf(r harness.Sent) class {
	switch {
	case r.Resource == "" || r.Resource[0] == '/':
		return discover
	case r.Resource == "events":
		return event
	case r.Resource == "leases":
		return lease
	case r.Initial:
		return cacheList
	case r.Verb == "watch":
		return watch
	case r.Reads():
		return read
	case r.WritesStatus():
		return statusWrite
	default:
		return objectWrite
	}
}

// traffic is what one client sent since the last reset.
type traffic struct {
	harness.Record
	from int // in the record
}

// reset forgets what was recorded.
func (t *traffic) reset() { t.from = t.Mark() }

// quiet waits until there was no request for a while: what follows of something has followed.
func (t *traffic) quiet(ctx context.Context, while time.Duration) error {
	for {
		next := t.Next()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(while):
			return nil
		case <-next:
		}
	}
}

// tally counts the requests that are as asked for. Its evidence is the reads and writes, and how often each was sent.
func (t *traffic) tally(is func(harness.Sent) bool) (all tally) {
	lines := map[string]int{}
	for _, r := range t.Since(t.from, is) {
		c := classOf(r)
		all.counts[c]++
		if c <= read {
			lines[r.String()]++
		}
	}
	for _, line := range slices.Sorted(maps.Keys(lines)) {
		all.evidence = append(all.evidence, fmt.Sprintf("%4d  %s", lines[line], line))
	}
	return all
}
