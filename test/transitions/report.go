// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
)

// verdict is what became of a case.
type verdict string

const (
	carriedOut verdict = "passed"             // it runs as planned, and is well
	refused    verdict = "refused"            // by the API server, with the name of the field
	reported   verdict = "named in condition" // it changes nothing, and a condition names the field
	troubled   verdict = "trouble named"      // it runs as planned, is not well, and the status says why
	failed     verdict = "failed"             // none of these
)

var verdicts = []verdict{carriedOut, refused, reported, troubled, failed}

// result is one case.
type result struct {
	kind string // of transition or input
	what string
	verdict
	err error
}

// report counts cases.
type report struct {
	mu    sync.Mutex
	cases map[string]map[verdict]int // by kind
	all   map[verdict]int

	varied               atomic.Int64 // properties that were changed one by one on what runs
	foreseen, rolledBack atomic.Int64 // transitions that diff was held against, and those that were rolled back
}

// add records a case, a failure at once on the screen.
func (r *report) add(c result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.err != nil {
		c.verdict = failed
		fmt.Printf("FAILED %s: %s\n    %s\n", c.kind, c.what, strings.ReplaceAll(shorten(c.err.Error(), 3000), "\n", "\n    "))
	}
	if r.cases[c.kind] == nil {
		r.cases[c.kind] = map[verdict]int{}
	}
	r.cases[c.kind][c.verdict]++
	r.all[c.verdict]++
}

func shorten(text string, limit int) string {
	if len(text) > limit {
		return text[:limit] + " …"
	}
	return text
}

// text shows a value in the name of a case.
func text(value any) string {
	return shorten(strings.ReplaceAll(fmt.Sprint(value), "\n", `\n`), 80)
}

func (r *report) failures() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[failed]
}

// table prints a line for each kind of case.
func (r *report) table() {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	show := func(kind string, of map[verdict]int) {
		cases := 0
		for _, n := range of {
			cases += n
		}
		fmt.Fprintf(w, "%s\t%d", kind, cases)
		for _, v := range verdicts {
			fmt.Fprintf(w, "\t%d %s", of[v], v)
		}
		fmt.Fprintln(w)
	}
	fmt.Println()
	for _, kind := range slices.Sorted(maps.Keys(r.cases)) {
		show(kind, r.cases[kind])
	}
	show("all", r.all)
	_ = w.Flush()
	fmt.Printf("\ndiff was held against what the operator then did %d times; %d changes were rolled back\n",
		r.foreseen.Load(), r.rolledBack.Load())
}
