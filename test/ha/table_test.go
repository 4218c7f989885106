// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build ha

package ha_test

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"text/tabwriter"
	"time"
)

// table collects what the cases have measured.
type table struct {
	mu   sync.Mutex
	rows []*row
}

type row struct {
	name            string
	leads, works    []time.Duration
	writes, doubles int
}

// of returns the row of a case; the caller holds the lock.
func (t *table) of(name string) *row {
	for _, r := range t.rows {
		if r.name == name {
			return r
		}
	}
	r := &row{name: name}
	t.rows = append(t.rows, r)
	return r
}

func (t *table) add(name string, leads, works time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.of(name)
	r.leads, r.works = append(r.leads, leads), append(r.works, works)
}

func (t *table) judge(name string, writes, doubles int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.of(name)
	r.writes, r.doubles = writes, doubles
}

func (t *table) print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "LEADER\tRUNS\tANOTHER LEADS AFTER s (min/median/max)\tHAS WRITTEN AFTER s\tWRITES\tDOUBLE WRITES")
	for _, r := range t.rows {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%d\t%d\n", r.name, len(r.leads), spread(r.leads), spread(r.works), r.writes, r.doubles)
	}
	_ = w.Flush() // to standard output
}

func spread(values []time.Duration) string {
	if len(values) == 0 {
		return "-"
	}
	slices.Sort(values)
	n := len(values)
	middle := (values[(n-1)/2] + values[n/2]) / 2
	return fmt.Sprintf("%.2f / %.2f / %.2f", values[0].Seconds(), middle.Seconds(), values[n-1].Seconds())
}
