// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/test/cluster"
)

// loadReport collects the tables of load.
type loadReport struct {
	bench                               *bench
	limit                               float64 // of memory, MiB
	events, latecomers, memories, heats [][]string
	growths                             []*growth
}

// growth is a number at each size.
type growth struct {
	what  string
	at    []float64
	ratio string // of the latest to the first
}

// grow notes a number at one more size, and checks its ratio to the one at the first size.
func (r *loadReport) grow(what string, services int, n float64, limit *bound) {
	for _, g := range r.growths {
		if g.what == what {
			g.at = append(g.at, n)
			g.ratio, _ = r.bench.report.check(fmt.Sprintf("%s, at %d and at %d", what, r.bench.sizes[0], services), n/g.at[0], limit)
			return
		}
	}
	r.growths = append(r.growths, &growth{what: what, at: []float64{n}})
}

// add adds a line to the table of events and returns the writes for each DataService.
func (r *loadReport) add(what string, s step, writes string) {
	r.bench.report.progress("%s: %s s", what, number(s.took.Seconds()))
	rate := ""
	if s.objects > 0 {
		rate = number(float64(s.objects) / s.took.Seconds())
	}
	r.events = append(r.events, []string{what, number(s.took.Seconds()), rate, writes, number(s.used.requests["GET"]),
		number(s.used.requests["POST"]), number(s.used.cpu), number(1000 * s.each(s.used.cpu)), number(s.each(s.used.reconciles))})
}

// writes are those for each DataService; events, which are POSTs, are counted apart.
func (s step) writes() float64 {
	return s.each(s.used.requests["PATCH"] + s.used.requests["PUT"] + s.used.requests["DELETE"])
}

func (r *loadReport) created(n int, s step) {
	what := fmt.Sprintf("create %d, to %d", s.services, n)
	s.services++ // the late one
	s.objects += r.bench.objects
	cell, _ := r.bench.report.check(what+": writes for each", s.writes(), atMost(float64(r.bench.objects+loadCreate)))
	r.add(what, s, cell)
	r.grow("create: objects a second", n, float64(s.objects)/s.took.Seconds(), nil)
	r.each("create", n, s)
}

func (r *loadReport) changed(n int, s step) {
	what := fmt.Sprintf("one image of each of %d", n)
	cell, _ := r.bench.report.check(what+": writes for each", s.writes(), atMost(1+historyWrites+loadStatus))
	r.add(what, s, cell)
	r.each("one image", n, s)
}

// each notes how what an event costs for each DataService grows.
func (r *loadReport) each(event string, n int, s step) {
	r.grow(event+": writes for each", n, s.writes(), atMost(loadGrowth))
	r.grow(event+": CPU ms for each", n, 1000*s.each(s.used.cpu), nil)
}

func (r *loadReport) restarted(n int, s step) {
	what := fmt.Sprintf("restart beside %d", n)
	cell, _ := r.bench.report.check(what+": writes", s.writes(), exactly(0))
	r.add(what, s, cell)
	r.grow("restart: GET", n, s.used.requests["GET"], atMost(loadGrowth))
	r.grow("restart: ms for each", n, 1000*s.each(s.took.Seconds()), nil)
	r.grow("restart: CPU ms for each", n, 1000*s.each(s.used.cpu), nil)
	r.grow("restart: live heap, MiB for each", n, s.each(s.used.heap), nil)
}

func (r *loadReport) deleted(n int, s step) {
	what := fmt.Sprintf("delete %d", n)
	cell, _ := r.bench.report.check(what+": writes for each", s.writes(), atMost(deleteStatus))
	r.add(what, s, cell)
}

// late: one that is declared last must not wait for longer than the others take.
func (r *loadReport) late(n, before int, first, ready, all time.Duration) {
	cell, _ := r.bench.report.check(fmt.Sprintf("one more beside %d that are created: ready before all, share of their time", before),
		ready.Seconds()/all.Seconds(), atMost(1))
	r.latecomers = append(r.latecomers, []string{fmt.Sprint(n), fmt.Sprint(before), number(first.Seconds()), number(ready.Seconds()), number(all.Seconds()), cell})
}

func (r *loadReport) memory(what string, u usage) {
	peak, _ := r.bench.report.check(what+": peak RSS MiB", u.peak, atMost(r.limit))
	r.memories = append(r.memories, []string{what, number(u.rss), peak, number(u.heap), number(u.system)})
}

func (r *loadReport) heat(beside string, used usage, took []time.Duration, limit *bound) {
	wait, _ := r.bench.report.check("in the queue beside "+beside+", mean ms", 1000*used.waited/max(1, used.queued), limit)
	r.heats = append(r.heats, append([]string{beside, wait}, spread(took)...))
}

func (r *loadReport) print() {
	report := r.bench.report
	for _, t := range []struct {
		header []string
		rows   [][]string
		note   string
	}{
		{[]string{"EVENT", "SECONDS", "OBJECTS/s", "WRITES EACH", "GET", "POST", "CPU SECONDS", "CPU ms EACH", "RECONCILES EACH"}, r.events,
			"Requests by method: writes are PATCH, PUT and DELETE, status included; GET are lists and watches; POST are events."},
		{[]string{"DATASERVICES", "CREATED AT ONCE", "FIRST OBJECT s", "READY s", "ALL READY s", "SHARE"}, r.latecomers,
			"One more DataService, declared when all others were; time from its declaration."},
		{[]string{"WHILE THERE CHANGES", "IN THE QUEUE ms", "MEDIAN ms", "95% ms", "LONGEST ms"}, r.heats, "In the queue: the mean. The others: from the change of one image to Ready."},
		{[]string{"DATASERVICES", "RSS MiB", "PEAK RSS MiB", "LIVE HEAP MiB", "FROM THE SYSTEM MiB"}, r.memories,
			"The bound is the limit of config/manager."},
	} {
		table := report.table(t.header...)
		for _, row := range t.rows {
			table.row(row...)
		}
		table.flush()
		report.note("%s\n", t.note)
	}
	header := []string{"GROWTH"}
	for _, n := range r.bench.sizes {
		header = append(header, fmt.Sprintf("AT %d", n))
	}
	table := report.table(append(header, "RATIO")...)
	for _, g := range r.growths {
		row := []string{g.what}
		for i := range r.bench.sizes {
			cell := "" // not reached
			if i < len(g.at) {
				cell = number(g.at[i])
			}
			row = append(row, cell)
		}
		table.row(append(row, g.ratio)...)
	}
	table.flush()
}

// memoryLimit is what config/manager gives the operator, in bytes.
func memoryLimit() (int64, error) {
	data, err := os.ReadFile(filepath.Join(cluster.Root(), "config", "manager", "manager.yaml"))
	if err != nil {
		return 0, err
	}
	var deployment appsv1.Deployment
	if err := yaml.Unmarshal(data, &deployment); err != nil {
		return 0, fmt.Errorf("read the operator's Deployment: %w", err)
	}
	return deployment.Spec.Template.Spec.Containers[0].Resources.Limits.Memory().Value(), nil
}
