// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
)

// verdict is what became of a case that went as it should.
type verdict string

const (
	carriedOut verdict = "passed"             // it runs as planned, and is well
	refused    verdict = "refused"            // by the API server, with the name of the field
	reported   verdict = "named in condition" // it changes nothing, and a condition names the field
	troubled   verdict = "trouble named"      // it runs as planned, is not well, and the status says why
)

var verdicts = []verdict{carriedOut, refused, reported, troubled}

// result is one case.
type result struct {
	kind string // of transition or input
	what string
	verdict
	err  error
	seed int64 // of a random sequence
}

// report collects results.
type report struct {
	mu                   sync.Mutex
	results              []result
	seen                 map[string]bool   // kind and what: each counts once
	varied               map[string]bool   // properties that were changed on what runs
	listed               map[string]string // properties that were not, and why
	left                 map[string]int    // what the short form leaves out, and how many
	foreseen, rolledBack int               // transitions that diff was held against, and those that were rolled back

	out io.Writer
}

func newReport(out io.Writer) *report {
	return &report{out: out, seen: map[string]bool{}, varied: map[string]bool{}, listed: map[string]string{}, left: map[string]int{}}
}

// add records a case, a failure at once on the screen.
func (r *report) add(c result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if id := c.kind + "\n" + c.what; r.seen[id] && c.err == nil {
		return
	} else {
		r.seen[id] = true
	}
	r.results = append(r.results, c)
	if c.err != nil {
		fmt.Fprintf(r.out, "FAILED %s: %s%s\n    %s\n", c.kind, c.what, seedText(c.seed), strings.ReplaceAll(shorten(c.err.Error(), 3000), "\n", "\n    "))
	}
}

func seedText(seed int64) string {
	if seed == 0 {
		return ""
	}
	return fmt.Sprintf(" (replay: make transitions ARGS='-seed %d')", seed)
}

func shorten(text string, limit int) string {
	if len(text) > limit {
		return text[:limit] + " …"
	}
	return text
}

// wasVaried notes that a property was changed on what runs.
func (r *report) wasVaried(p *property) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.varied[p.String()] = true
}

// wasForeseen notes that diff was held against what the operator did.
func (r *report) wasForeseen() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.foreseen++
}

// wasRolledBack notes that a transition was rolled back.
func (r *report) wasRolledBack() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rolledBack++
}

// leave notes what the short form leaves out.
func (r *report) leave(what string, number int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if number > 0 {
		r.left[what] += number
	}
}

func (r *report) failures() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, c := range r.results {
		if c.err != nil {
			n++
		}
	}
	return n
}

// table prints a line for each kind of case.
func (r *report) table(title string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	type line struct {
		cases, failed int
		as            map[verdict]int
		seeds         []string
	}
	lines, total := map[string]*line{}, &line{as: map[verdict]int{}}
	for _, c := range r.results {
		l := lines[c.kind]
		if l == nil {
			l = &line{as: map[verdict]int{}}
			lines[c.kind] = l
		}
		for _, l := range []*line{l, total} {
			l.cases++
			if c.err != nil {
				l.failed++
			} else {
				l.as[c.verdict]++
			}
		}
		if text := fmt.Sprint(c.seed); c.seed != 0 && !slices.Contains(l.seeds, text) {
			l.seeds = append(l.seeds, text)
		}
	}
	w := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\n%s\tcases\t", title)
	for _, v := range verdicts {
		fmt.Fprintf(w, "%s\t", v)
	}
	fmt.Fprintf(w, "failed\tseeds\n")
	show := func(name string, l *line) {
		fmt.Fprintf(w, "%s\t%d\t", name, l.cases)
		for _, v := range verdicts {
			fmt.Fprintf(w, "%d\t", l.as[v])
		}
		slices.Sort(l.seeds)
		fmt.Fprintf(w, "%d\t%s\n", l.failed, strings.Join(l.seeds, " "))
	}
	for _, kind := range slices.Sorted(maps.Keys(lines)) {
		show(kind, lines[kind])
	}
	show("all", total)
	_ = w.Flush()
	if r.foreseen > 0 {
		fmt.Fprintf(r.out, "\ndiff was held against what the operator then did %d times; %d changes were rolled back\n", r.foreseen, r.rolledBack)
	}
	if len(r.left) > 0 {
		fmt.Fprintf(r.out, "\nleft out by the short form (TRANSITIONS=full tries them):\n")
	}
	for _, what := range slices.Sorted(maps.Keys(r.left)) {
		fmt.Fprintf(r.out, "  %5d %s\n", r.left[what], what)
	}
}

// coverage prints which properties were not varied and why, and returns those without a reason.
func (r *report) coverage(all []*property) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	byReason := map[string][]string{}
	var missing []string
	for _, p := range all {
		if r.varied[p.String()] {
			continue
		}
		if reason := r.listed[p.String()]; reason != "" {
			byReason[reason] = append(byReason[reason], p.String())
			continue
		}
		missing = append(missing, p.String())
	}
	fmt.Fprintf(r.out, "\nproperties of the CRD: %d, varied one by one: %d, not so:\n", len(all), len(r.varied))
	for _, reason := range slices.Sorted(maps.Keys(byReason)) {
		names := byReason[reason]
		if len(names) > 50 { // those of all components: what they have alike is enough
			for i, name := range names {
				_, names[i], _ = strings.Cut(name, ".")
			}
			slices.Sort(names)
			names = slices.Compact(names)
		}
		fmt.Fprintf(r.out, "  %d %s: %s\n", len(byReason[reason]), reason, strings.Join(names, ", "))
	}
	if len(missing) > 0 {
		return fmt.Errorf("neither varied nor listed with a reason: %s", strings.Join(missing, ", "))
	}
	return nil
}
