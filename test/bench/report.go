// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/platform/plan"
	"d3os.com/d3os-operator/internal/render"
)

// report prints tables, and stores the numbers that are outside their bounds.
type report struct {
	out     io.Writer
	section string
	checked int
	outside []string
}

func (r *report) begin(name, title string) {
	r.section = name
	fmt.Fprintf(r.out, "\n== %s (-only %s)\n\n", title, name)
}

func (r *report) note(format string, args ...any) {
	fmt.Fprintf(r.out, format+"\n", args...)
}

// progress prints the progress to standard error, so that it is not part of the report.
func (r *report) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "  "+format+"\n", args...)
}

// table prints rows in aligned columns.
type table struct {
	report *report
	w      *tabwriter.Writer
}

func (r *report) table(header ...string) *table {
	t := &table{r, tabwriter.NewWriter(r.out, 0, 0, 2, ' ', 0)}
	t.row(header...)
	return t
}

func (t *table) row(cells ...string) { fmt.Fprintln(t.w, strings.Join(cells, "\t")) }

func (t *table) flush() { _ = t.w.Flush() } // writes to standard output

// bound is the allowed range of a number.
type bound struct {
	relation string // "=" or "<="
	limit    float64
}

func exactly(n int) *bound      { return &bound{"=", float64(n)} }
func atMost(n float64) *bound   { return &bound{"<=", n} }
func (b *bound) String() string { return b.relation + " " + number(b.limit) }

func (b *bound) holds(n float64) bool {
	switch b.relation {
	case "<=":
		return n <= b.limit
	default:
		return n == b.limit
	}
}

// check formats a number with its bound. It marks and stores the number if the bound is violated.
func (r *report) check(what string, n float64, b *bound) string {
	if b == nil {
		return number(n)
	}
	r.checked++
	cell := fmt.Sprintf("%s (%s)", number(n), b)
	if b.holds(n) {
		return cell
	}
	r.outside = append(r.outside, fmt.Sprintf("%s: %s: %s", r.section, what, cell))
	return cell + " !"
}

func (r *report) totals() {
	r.note("\n== Totals\n")
	t := r.table("CASES", "PASSED", "FAILED", "SEEDS")
	t.row(fmt.Sprint(r.checked), fmt.Sprint(r.checked-len(r.outside)), fmt.Sprint(len(r.outside)), "none: nothing is random")
	t.flush()
	if len(r.outside) == 0 {
		r.note("\nEverything lies within its bound.")
		return
	}
	r.note("\nOutside its bound:")
	for _, line := range r.outside {
		r.note("  %s", line)
	}
}

// number formats a number with three significant digits. A longer integer part keeps all its digits.
func number(n float64) string {
	if n >= 100 || n == float64(int64(n)) {
		return strconv.FormatFloat(n, 'f', 0, 64)
	}
	return strconv.FormatFloat(n, 'g', 3, 64)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func median(values []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// spreads is a table of repeatedly measured times.
type spreads struct{ *table }

func (r *report) spreads(from, to string) *spreads {
	return &spreads{r.table(from, to, "MEDIAN ms", "95% ms", "LONGEST ms")}
}

// add adds a line. limit, if not nil, bounds the longest time.
func (t *spreads) add(from, to string, values []time.Duration, limit *bound) {
	sorted := slices.Sorted(slices.Values(values))
	p95, longest := sorted[(len(sorted)*95+99)/100-1], sorted[len(sorted)-1]
	t.row(from, to, number(milliseconds(median(values))), number(milliseconds(p95)),
		t.report.check(from+", "+to+", longest, ms", milliseconds(longest), limit))
}

// loadReport collects the tables of load.
type loadReport struct {
	*report

	events, latecomers *table
	memories           *usages
	heats              *spreads
	first              map[string]float64 // costs at the first size, by event
}

func newLoadReport(r *report) *loadReport {
	return &loadReport{
		report: r,
		events: r.table("EVENT", "DATASERVICES", "SECONDS", "OBJECTS/s", "WRITES EACH", "GET", "GROWTH", "POST",
			"CPU SECONDS", "CPU ms EACH", "RECONCILES EACH"),
		latecomers: r.table("DATASERVICES", "CREATED AT ONCE", "FIRST OBJECT s", "READY s", "ALL READY s", "SHARE"),
		memories:   r.usages("DATASERVICES"),
		heats:      r.spreads("WHILE THERE CHANGES", "MEAN IN THE QUEUE ms"),
		first:      map[string]float64{},
	}
}

// add adds a line to the table of events. writes bounds the writes of each DataService, which must not grow with the
// number of DataServices. A restart writes nothing: add checks the growth of all reads instead.
func (r *loadReport) add(event, services string, s step, writes *bound) {
	what := event + " " + services
	r.progress("%s: %s s", what, number(s.took.Seconds()))
	rate, growth, cost := "", "", s.each(s.used.writes)
	if s.objects > 0 {
		rate = number(float64(s.objects) / s.took.Seconds())
	}
	if event == restarts {
		cost = s.used.reads
	}
	if first, again := r.first[event]; again {
		growth = r.check(what+": growth", cost/first, atMost(loadGrowth))
	} else {
		r.first[event] = cost
	}
	r.events.row(event, services, number(s.took.Seconds()), rate, r.check(what+": writes for each", s.each(s.used.writes), writes),
		number(s.used.reads), growth, number(s.used.events),
		number(s.used.cpu), number(1000*s.each(s.used.cpu)), number(s.each(s.used.reconciles)))
}

func (r *loadReport) print() {
	for _, t := range []struct {
		table *table
		note  string
	}{
		{r.events, "Requests by method: writes are PATCH, PUT and DELETE, status included; GET are lists and watches; " +
			"POST are events.\nGrowth is that of the writes for each, and of GET after a restart, from the first size."},
		{r.latecomers, "One more DataService, declared when all others were; time from its declaration."},
		{r.heats.table, "From the change of one image to Ready."},
		{r.memories.table, "The bound is the limit of config/manager. CPU and reconciles are those of the last event."},
	} {
		t.table.flush()
		r.note("%s\n", t.note)
	}
}

// Limits of planning, in milliseconds of CPU: at least twice the time that two busy cores take (54, 9.4 and 0.08).
const (
	renderWhole  = 120
	renderChange = 30
	renderCached = 0.3
)

// renderTime measures the steps before the first write of a reconciliation: graph, credentials, values and charts of the sample.
type renderTime struct {
	planner *plan.Planner
	keeper  *plan.Keeper
	ds      *dsv1.DataService
}

func (renderTime) run(_ context.Context, b *bench) error {
	r := renderTime{keeper: plan.NewKeeper(), ds: b.sample.DeepCopy()}
	r.ds.UID = "bench"
	t := b.report.table("", "ms", "CPU ms", "ALLOCATIONS", "BYTES")
	var failed error
	measure := func(name string, limit *bound, do func() error) {
		before := cpuSeconds()
		result := testing.Benchmark(func(tb *testing.B) {
			for tb.Loop() {
				if err := do(); err != nil {
					failed = err
					tb.SkipNow()
				}
			}
		})
		if result.N == 0 {
			failed = errors.Join(failed, errors.New(name+" could not be measured"))
			return
		}
		each := float64(result.T.Nanoseconds()) / float64(result.N)
		cpu := b.report.check(name+", CPU ms", (cpuSeconds()-before)*1000/float64(result.N), limit)
		t.row(name, number(each/1e6), cpu, number(float64(result.AllocsPerOp())), number(float64(result.AllocedBytesPerOp())))
	}
	load := func() error {
		renderer, err := render.New(b.version)
		if err == nil {
			r.planner = plan.NewPlanner(renderer, nil)
		}
		return err
	}
	measure("load the charts", nil, load)
	measure("first, charts loaded for it", nil, func() error { return errors.Join(load(), r.plan()) })
	measure("all of it", atMost(renderWhole), func() error { r.planner.Forget(r.ds.Namespace, r.ds.Name); return r.plan() })
	measure("a new generation, one image changed", atMost(renderChange), r.change)
	measure("cached", atMost(renderCached), r.plan)
	t.flush()
	b.report.note("\nCPU is all of this process's, with garbage collection; unlike the time it hardly depends on who else uses the machine.")
	return failed
}

// change changes one image of the sample and plans it.
func (r *renderTime) change() error {
	r.ds.Generation++
	r.ds.Spec.Auth.Image = fmt.Sprintf("registry.example.com/auth:v%d", r.ds.Generation)
	return r.plan()
}

// plan plans the sample.
func (r *renderTime) plan() error {
	graph, err := r.planner.Graph(r.ds)
	if err != nil {
		return err
	}
	secrets, err := r.keeper.Plan(r.ds, graph, func(string, string) (*unstructured.Unstructured, error) { return nil, nil }, nil)
	if err != nil {
		return err
	}
	_, err = r.planner.Make(r.ds, graph, secrets.Credentials)
	return err
}
