// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

// loadReport collects the tables of load.
type loadReport struct {
	*report

	events, latecomers *table
	memories           *usages
	heats              *spreads
	first              map[string]float64 // of each event: what it cost at the first size
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

// add adds a line to the table of events, with a bound of the writes for each DataService. What must not grow with the
// number of DataServices are these writes; of a restart, which writes nothing, all that is asked for.
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
