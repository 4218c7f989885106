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
}

func (r *report) begin(name, title string) {
	r.section = name
	fmt.Fprintf(r.out, "\n== %s (-only %s)\n\n", title, name)
}

func (r *report) note(format string, args ...any) {
	fmt.Fprintf(r.out, format+"\n", args...)
}

// progress tells those who wait, beside the report.
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

// number has three significant digits, more where the integer part has more.
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

// spreads is a table of times that were measured several times.
type spreads struct{ *table }

func (r *report) spreads(from, to string) *spreads {
	return &spreads{r.table(from, to, "MEDIAN ms", "95% ms", "LONGEST ms")}
}

// add adds a line, with a bound of the longest or none.
func (t *spreads) add(from, to string, values []time.Duration, limit *bound) {
	sorted := slices.Sorted(slices.Values(values))
	p95, longest := sorted[(len(sorted)*95+99)/100-1], sorted[len(sorted)-1]
	t.row(from, to, number(milliseconds(median(values))), number(milliseconds(p95)),
		t.report.check(from+", "+to+", longest, ms", milliseconds(longest), limit))
}
