// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
)

// tally is what the operator did about one event.
type tally struct {
	counts   [classes]int
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
	*table

	wrong []string // the evidence
}

func (r *report) tallies() *tallies {
	return &tallies{table: r.table("EVENT", "OBJECT WRITES", "STATUS WRITES", "READS", "CACHE LISTS", "WATCHES",
		"EVENTS", "LEASES", "DISCOVERY", "RECONCILES", "ERRORS")}
}

func (t *tallies) add(name string, seen tally, b bounds) {
	outside := len(t.report.outside)
	cell := func(what string, n int, bound *bound) string {
		return t.report.check(name+": "+what, float64(n), bound)
	}
	t.row(name,
		cell("object writes", seen.counts[objectWrite], b.writes),
		cell("status writes", seen.counts[statusWrite], b.statuses),
		cell("reads", seen.counts[read], b.reads),
		fmt.Sprint(seen.counts[cacheList]), fmt.Sprint(seen.counts[watch]), fmt.Sprint(seen.counts[event]),
		fmt.Sprint(seen.counts[lease]), fmt.Sprint(seen.counts[discover]), fmt.Sprint(seen.looks),
		cell("errors in the log", len(seen.errors), exactly(0)))
	if len(t.report.outside) == outside {
		return
	}
	t.wrong = append(t.wrong, "", name+":")
	t.wrong = append(t.wrong, seen.evidence[:min(len(seen.evidence), 60)]...)
	t.wrong = append(t.wrong, seen.errors[:min(len(seen.errors), 5)]...)
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
