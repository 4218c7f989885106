// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// report prints tables and remembers what lay outside its bound.
type report struct {
	out     io.Writer
	section string
	checked int
	outside []string
	done    []finished
	load    string // of the machine when the section began
}

type finished struct {
	name string
	took time.Duration
	cpu  float64
	load string
}

func (r *report) begin(name, title string) {
	r.section, r.load = name, firstWord("/proc/loadavg")
	fmt.Fprintf(r.out, "\n== %s (-only %s)\n\n", title, name)
}

func (r *report) end(took time.Duration, cpu float64) {
	r.done = append(r.done, finished{r.section, took, cpu, r.load})
}

func (r *report) note(format string, args ...any) {
	fmt.Fprintf(r.out, format+"\n", args...)
}

// progress tells those who wait, beside the report.
func (r *report) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "  "+format+"\n", args...)
}

// table prints rows in aligned columns.
type table struct{ w *tabwriter.Writer }

func (r *report) table(header ...string) *table {
	t := &table{tabwriter.NewWriter(r.out, 0, 0, 2, ' ', 0)}
	t.row(header...)
	return t
}

func (t *table) row(cells ...string) { fmt.Fprintln(t.w, strings.Join(cells, "\t")) }

func (t *table) flush() { _ = t.w.Flush() } // to standard output

// bound is the range that a number should lie in.
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

// check formats a number with its bound; one outside it is marked and remembered.
func (r *report) check(what string, n float64, b *bound) (cell string, ok bool) {
	if b == nil {
		return number(n), true
	}
	r.checked++
	cell = fmt.Sprintf("%s (%s)", number(n), b)
	if b.holds(n) {
		return cell, true
	}
	r.outside = append(r.outside, fmt.Sprintf("%s: %s: %s", r.section, what, cell))
	return cell + " !", false
}

func (r *report) totals(took time.Duration) {
	r.note("\n== Totals\n")
	t := r.table("SECTION", "SECONDS", "CPU SECONDS", "LOAD WHEN IT BEGAN")
	cpu := 0.0
	for _, f := range r.done {
		t.row(f.name, number(f.took.Seconds()), number(f.cpu), f.load)
		cpu += f.cpu
	}
	t.row("all, with set-up", number(took.Seconds()), number(cpu))
	t.flush()
	r.note("CPU is this process's: the operator and the benchmark, not the cluster.")
	r.note("")
	t = r.table("CASES", "PASSED", "FAILED", "SEEDS")
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

// number has three significant digits, more where the integer part has more.
func number(n float64) string {
	if n >= 100 || n == float64(int64(n)) {
		return strconv.FormatFloat(n, 'f', 0, 64)
	}
	return strconv.FormatFloat(n, 'g', 3, 64)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func median[T time.Duration | float64](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// spread prints the median, the 95th percentile and the largest in milliseconds.
func spread(values []time.Duration) []string {
	sorted := slices.Sorted(slices.Values(values))
	p95 := sorted[max(0, (len(sorted)*95+99)/100-1)]
	return []string{number(milliseconds(median(values))), number(milliseconds(p95)), number(milliseconds(sorted[len(sorted)-1]))}
}
