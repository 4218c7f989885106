// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"d3os.com/d3os-operator/test/harness"
)

// usage holds the resources that a process used; sizes are in MiB.
type usage struct {
	rss, peak, heap, system float64
	anonymous               float64 // rss without the pages of the program's file
	cpu, reconciles         float64
	queued, waited          float64 // DataServices that left the queue, and their total seconds in the queue
	writes, reads, events   float64 // requests: PATCH, PUT and DELETE; GET; POST
}

// since returns the use since an earlier measurement. Sizes are not subtracted: the result contains the sizes of u.
func (u usage) since(before usage) usage {
	u.cpu, u.reconciles = u.cpu-before.cpu, u.reconciles-before.reconciles
	u.queued, u.waited = u.queued-before.queued, u.waited-before.waited
	u.writes, u.reads, u.events = u.writes-before.writes, u.reads-before.reads, u.events-before.events
	return u
}

func (o *operator) usage(ctx context.Context) (usage, error) {
	var u usage
	status := fmt.Sprintf("/proc/%d/status", o.command.Process.Pid)
	u.rss, u.peak, u.anonymous = kilobytes(fact(status, "VmRSS")), kilobytes(fact(status, "VmHWM")), kilobytes(fact(status, "RssAnon"))
	if _, err := get(ctx, "http://"+o.profile+"/debug/pprof/heap?gc=1"); err != nil { // the garbage collection leaves only live objects in the heap
		return u, err
	}
	metrics, err := get(ctx, "http://"+o.metrics+"/metrics")
	for line := range strings.Lines(metrics) {
		at := strings.LastIndex(line, " ")
		value, err := strconv.ParseFloat(strings.TrimSpace(line[at+1:]), 64)
		if err != nil {
			continue // a comment
		}
		switch name := line[:max(0, at)]; {
		case name == "process_cpu_seconds_total":
			u.cpu = value
		case name == "go_memstats_heap_alloc_bytes":
			u.heap = value / (1 << 20)
		case name == "go_memstats_sys_bytes":
			u.system = value / (1 << 20)
		case strings.HasPrefix(name, "controller_runtime_reconcile_total{"):
			u.reconciles += value
		case name == `workqueue_queue_duration_seconds_count{controller="dataservice",name="dataservice"}`:
			u.queued = value
		case name == `workqueue_queue_duration_seconds_sum{controller="dataservice",name="dataservice"}`:
			u.waited = value
		case !strings.HasPrefix(name, "rest_client_requests_total{"):
		case strings.Contains(name, `method="GET"`):
			u.reads += value
		case strings.Contains(name, `method="POST"`):
			u.events += value
		default:
			u.writes += value
		}
	}
	return u, err
}

func get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, response.Status)
	}
	return string(body), err
}

// kilobytes turns "1234 kB" into MiB.
func kilobytes(text string) float64 {
	number, _, _ := strings.Cut(text, " ")
	value, _ := strconv.ParseFloat(number, 64) // 0 without /proc
	return value / 1024
}

// usages is a table of the resources that an operator uses.
type usages struct{ *table }

func (r *report) usages(what string) *usages {
	return &usages{r.table(what, "RSS MiB", "PEAK RSS MiB", "LIVE HEAP MiB", "FROM THE SYSTEM MiB", "CPU SECONDS", "RECONCILES")}
}

// add adds a line. peak, if not nil, bounds the peak.
func (t *usages) add(name string, u usage, peak *bound) {
	t.row(name, number(u.rss), t.report.check(name+": peak RSS MiB", u.peak, peak), number(u.heap), number(u.system), number(u.cpu),
		number(u.reconciles))
}

// class is the purpose of a request.
type class int

const (
	objectWrite class = iota
	statusWrite
	read
	cacheList // a cache's initial list, or a watch that starts with a list
	watch
	event
	lease
	discover
	classes // the number of classes
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

// traffic holds the requests of one client since the last reset.
type traffic struct {
	harness.Record
	from int // position in the record
}

// reset makes the next tally ignore all requests before this call.
func (t *traffic) reset() { t.from = t.Mark() }

// quiet waits until no request was sent for a period. Then all effects of an action are complete.
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

// tally counts the requests that the given function accepts. The evidence of the result lists the reads and writes with their numbers.
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
