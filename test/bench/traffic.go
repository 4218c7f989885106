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

func (t *traffic) all() []harness.Sent {
	return t.Since(t.from, func(harness.Sent) bool { return true })
}

// counts is how many requests there were of each class.
type counts [classes]int

func (t *traffic) counts() counts {
	var c counts
	for _, r := range t.all() {
		c[classOf(r)]++
	}
	return c
}

// first returns the first request that matches, when it has come.
func (t *traffic) first(ctx context.Context, what string, match func(harness.Sent) bool) (found harness.Sent, err error) {
	err = await(ctx, &t.News, func() string {
		if all := t.Since(t.from, match); len(all) > 0 {
			found = all[0]
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
		next := t.Next()
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
	if time.Since(t.Last()) >= while {
		return nil
	}
	return t.quiet(ctx, while)
}

// evidence lists the reads and writes, and what was written more than once.
func (t *traffic) evidence() []string {
	lines, written := map[string]int{}, map[string]int{}
	for _, r := range t.all() {
		c := classOf(r)
		if c > read {
			continue
		}
		lines[fmt.Sprintf("%s %s: %d", r.Verb, r.Resource, r.Code)]++
		if c == objectWrite {
			written[fmt.Sprintf("%s %s/%s", r.Resource, r.Namespace, r.Name)]++
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
