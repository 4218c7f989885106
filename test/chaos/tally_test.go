// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build chaos

package chaos_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
)

// table counts what became of the cases.
type table struct {
	mu     sync.Mutex
	lines  []*line
	missed []string // cases that did not meet what they waited for
}

type line struct {
	scenario, mode                string
	crash                         bool
	cases, passed, failed, missed int
}

// count counts a case when it ends. A case may say that what it waited for did not happen.
func (t *table) count(test *testing.T, scenario, mode string, crash bool) (miss func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var l *line
	for _, known := range t.lines {
		if known.scenario == scenario && known.mode == mode {
			l = known
		}
	}
	if l == nil {
		l = &line{scenario: scenario, mode: mode, crash: crash}
		t.lines = append(t.lines, l)
	}
	l.cases++
	missed := false
	test.Cleanup(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		switch {
		case test.Failed():
			l.failed++
		case missed:
			l.missed++
			t.missed = append(t.missed, test.Name())
		default:
			l.passed++
		}
	})
	return func() { missed = true }
}

// crashes is how many crashes the operator survived.
func (t *table) crashes() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, l := range t.lines {
		if l.crash {
			n += l.passed
		}
	}
	return n
}

// failures is how many cases have failed so far.
func (t *table) failures() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, l := range t.lines {
		n += l.failed
	}
	return n
}

// String is the table for people. "Not met" are runs in which the status was written, or a write
// that another made void repeated, fewer times than in the recorded one, so that there was no such
// write to crash at; what came of them was compared all the same.
func (t *table) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nSCENARIO\tMODE\tCASES\tPASSED\tFAILED\tNOT MET")
	sum := line{}
	for _, l := range t.lines {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\n", l.scenario, l.mode, l.cases, l.passed, l.failed, l.missed)
		sum.cases += l.cases
		sum.passed += l.passed
		sum.failed += l.failed
		sum.missed += l.missed
	}
	fmt.Fprintf(w, "all\t\t%d\t%d\t%d\t%d\n", sum.cases, sum.passed, sum.failed, sum.missed)
	_ = w.Flush()
	for _, name := range t.missed {
		fmt.Fprintln(&text, "not met:", name)
	}
	return text.String()
}
