// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package cron

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Report collects the results of runs. The zero value is ready for use.
type Report struct {
	mu      sync.Mutex
	active  int
	last    *Outcome       // the last run that was neither replaced nor stopped with the pod
	counts  map[string]int // runs by result
	missed  map[string]int // ticks without a run, by reason
	seconds float64        // total duration of all runs
	good    time.Time      // when the last successful run ended
}

// Started counts a run that started.
func (r *Report) Started() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.active++
}

// Ended records the outcome of a run. A run that was replaced or stopped with the pod counts neither as success nor as failure.
func (r *Report) Ended(o Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.active--
	r.counts = add(r.counts, o.Result, 1)
	r.seconds += o.Ended.Sub(o.Began).Seconds()
	if o.Result == Succeeded {
		r.good = o.Ended
	}
	if o.Result != Replaced && o.Result != Stopped {
		r.last = &o
	}
}

// Missed counts ticks without a run.
func (r *Report) Missed(v Verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for reason, n := range map[string]int{"active": v.Skipped, "late": v.Late, "too_many": v.Refused} {
		r.missed = add(r.missed, reason, n)
	}
}

func add(counts map[string]int, key string, n int) map[string]int {
	if counts == nil {
		counts = map[string]int{}
	}
	counts[key] += n
	return counts
}

// Problem returns the reason why the last run did not succeed. It returns "" after a success and before the first run.
func (r *Report) Problem() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil || r.last.Problem == "" {
		return ""
	}
	took := r.last.Ended.Sub(r.last.Began).Round(time.Millisecond)
	return fmt.Sprintf("RunFailed: the run of %s, which took %s: %s", r.last.Tick.UTC().Format(time.RFC3339), took, r.last.Problem)
}

// Handler answers probes and scrapes.
func (r *Report) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if problem := r.Problem(); problem != "" {
			http.Error(w, problem, http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n") // the client may have disconnected
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		r.write(w)
	})
	return mux
}

// write prints the metrics in the text format of Prometheus.
func (r *Report) write(w io.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	family := func(name, kind, help string) {
		_, _ = fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
	}
	sample := func(name string, value float64) {
		_, _ = fmt.Fprintf(w, "%s %s\n", name, strconv.FormatFloat(value, 'f', -1, 64))
	}
	family("dataservice_cron_active", "gauge", "Number of active runs.")
	sample("dataservice_cron_active", float64(r.active))
	family("dataservice_cron_runs_total", "counter", "Runs that have ended, by result.")
	ended := 0
	for _, result := range []string{Succeeded, Failed, Deadline, Replaced, Stopped} {
		sample(fmt.Sprintf("dataservice_cron_runs_total{result=%q}", result), float64(r.counts[result]))
		ended += r.counts[result]
	}
	family("dataservice_cron_ticks_missed_total", "counter", "Ticks of the schedule without a run, by reason.")
	for _, reason := range []string{"active", "late", "too_many"} {
		sample(fmt.Sprintf("dataservice_cron_ticks_missed_total{reason=%q}", reason), float64(r.missed[reason]))
	}
	family("dataservice_cron_duration_seconds", "summary", "Duration of runs.")
	sample("dataservice_cron_duration_seconds_sum", r.seconds)
	sample("dataservice_cron_duration_seconds_count", float64(ended))
	if r.last != nil {
		family("dataservice_cron_last_exit_code", "gauge", "Exit code of the last run; 128 and the number of the signal that ended it.")
		sample("dataservice_cron_last_exit_code", float64(r.last.Code))
		family("dataservice_cron_last_duration_seconds", "gauge", "Duration of the last run.")
		sample("dataservice_cron_last_duration_seconds", r.last.Ended.Sub(r.last.Began).Seconds())
		family("dataservice_cron_last_end_timestamp_seconds", "gauge", "Time at which the last run ended.")
		sample("dataservice_cron_last_end_timestamp_seconds", float64(r.last.Ended.UnixMilli())/1000)
	}
	if !r.good.IsZero() {
		family("dataservice_cron_last_success_timestamp_seconds", "gauge", "Time at which the last run that succeeded ended.")
		sample("dataservice_cron_last_success_timestamp_seconds", float64(r.good.UnixMilli())/1000)
	}
}
