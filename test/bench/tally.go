// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
)

// tally is what the operator did about one event.
type tally struct {
	counts
	looks    int // reconciliations
	errors   []string
	evidence []string
}

// bounds are those of a tally; nil is none.
type bounds struct{ writes, statuses, reads *bound }

// none: nothing at all may be asked or written.
var none = bounds{writes: exactly(0), statuses: exactly(0), reads: exactly(0)}

// tallies is a table of tallies, with the evidence for those that are not as they should be.
type tallies struct {
	report *report
	table  *table
	wrong  []string
}

func (r *report) tallies() *tallies {
	return &tallies{report: r, table: r.table("EVENT", "OBJECT WRITES", "STATUS WRITES", "READS", "CACHE LISTS", "WATCHES",
		"EVENTS", "LEASES", "DISCOVERY", "RECONCILES", "ERRORS")}
}

func (t *tallies) add(name string, seen tally, b bounds) {
	ok := true
	cell := func(what string, n int, bound *bound) string {
		text, within := t.report.check(name+": "+what, float64(n), bound)
		ok = ok && within
		return text
	}
	t.table.row(name,
		cell("object writes", seen.counts[objectWrite], b.writes),
		cell("status writes", seen.counts[statusWrite], b.statuses),
		cell("reads", seen.counts[read], b.reads),
		number(float64(seen.counts[cacheList])), number(float64(seen.counts[watch])), number(float64(seen.counts[event])),
		number(float64(seen.counts[lease])), number(float64(seen.counts[discover])), number(float64(seen.looks)),
		cell("errors in the log", len(seen.errors), exactly(0)))
	if ok {
		return
	}
	t.wrong = append(t.wrong, "", name+":")
	for _, line := range seen.evidence {
		t.wrong = append(t.wrong, "  "+line)
	}
	for i, line := range seen.errors {
		if i == 5 {
			t.wrong = append(t.wrong, fmt.Sprintf("  and %d errors more", len(seen.errors)-i))
			break
		}
		t.wrong = append(t.wrong, "  log: "+line)
	}
}

func (t *tallies) flush() {
	t.table.flush()
	for _, line := range t.wrong {
		t.report.note("%s", line)
	}
}

// worst merges tallies of the same event: of every number the largest, with the evidence of
// the one that wrote most.
func worst(all []tally) tally {
	result := all[0]
	for _, t := range all[1:] {
		if t.counts[objectWrite] > result.counts[objectWrite] || t.counts[read] > result.counts[read] || t.counts[statusWrite] > result.counts[statusWrite] {
			result.evidence = t.evidence
		}
		for i := range t.counts {
			result.counts[i] = max(result.counts[i], t.counts[i])
		}
		result.looks = max(result.looks, t.looks)
		result.errors = append(result.errors, t.errors...)
	}
	return result
}
