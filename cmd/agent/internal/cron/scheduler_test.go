// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package cron

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"
)

// fake is a Runner whose runs take a fixed time, or end when they are stopped.
type fake struct {
	takes func(n int) time.Duration
	code  func(n int) int

	mu           sync.Mutex
	started      []time.Time
	active, most int
	stop         map[int]func(result string)
}

func (f *fake) Start(tick time.Time, ended func(Outcome)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.started)
	f.started = append(f.started, time.Now())
	f.active++
	f.most = max(f.most, f.active)
	stopped := make(chan string, maxRuns)
	if f.stop == nil {
		f.stop = map[int]func(string){}
	}
	f.stop[n] = func(result string) { stopped <- result }
	go func() {
		o := Outcome{Tick: tick, Began: time.Now(), Result: Succeeded}
		if f.code != nil && f.code(n) != 0 {
			o.Result, o.Code, o.Problem = Failed, f.code(n), "exit code 3"
		}
		select {
		case <-time.After(f.takes(n)):
		case o.Result = <-stopped:
		}
		f.mu.Lock()
		f.active--
		delete(f.stop, n)
		f.mu.Unlock()
		o.Ended = time.Now()
		ended(o)
	}()
}

func (f *fake) Stop(result string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, stop := range f.stop {
		stop(result)
	}
}

// schedule runs a scheduler for a time, and returns its report and log.
func schedule(t *testing.T, text string, policy Policy, f *fake, lasts time.Duration) (*Report, string) {
	t.Helper()
	s, err := Parse(text, "", time.Now())
	assert.NilError(t, err)
	report, log := &Report{}, &bytes.Buffer{}
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	(&Scheduler{Planner: &Planner{Next: s.Next, Policy: policy}, Runner: f, Report: report, Log: log}).Run(ctx)
	return report, log.String()
}

func takes(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }

func TestEverySecondHasSixtyRunsInAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{takes: takes(200 * time.Millisecond)}
		schedule(t, "* * * * * *", Forbid, f, 60*time.Second+500*time.Millisecond)
		assert.Equal(t, len(f.started), 60)
		assert.Equal(t, f.most, 1)
		for i, began := range f.started {
			assert.Equal(t, began.Nanosecond(), 0, "run %d began at %s", i, began)
		}
	})
}

func TestPolicies(t *testing.T) {
	t.Parallel()
	for policy, want := range map[Policy]struct{ runs, most int }{Forbid: {7, 1}, Allow: {60, 10}, Replace: {60, 1}} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &fake{takes: takes(9900 * time.Millisecond)}
				report, _ := schedule(t, "* * * * * *", policy, f, 60*time.Second+500*time.Millisecond)
				assert.Equal(t, len(f.started), want.runs)
				assert.Equal(t, f.most, want.most)
				assert.Equal(t, f.active, 0, "the scheduler returned before its runs ended")
				assert.Equal(t, report.Problem(), "")
			})
		})
	}
}

func TestNoRunStartsOnceTheSchedulerEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{takes: takes(time.Hour)}
		report, _ := schedule(t, "* * * * * *", Forbid, f, 3*time.Second)
		assert.Equal(t, len(f.started), 1)
		assert.Assert(t, strings.Contains(metrics(report), `runs_total{result="stopped"} 1`))
		assert.Equal(t, report.Problem(), "", "a run that ended with its pod has not failed")
	})
}

func TestReportHasTheLastRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{takes: takes(250 * time.Millisecond), code: func(n int) int { return n % 2 * 3 }}
		report, log := schedule(t, "* * * * * *", Forbid, f, 4500*time.Millisecond)
		assert.Equal(t, report.Problem(), "RunFailed: the run of 2000-01-01T00:00:04Z, which took 250ms: exit code 3")
		assert.Equal(t, log, "the run of 2000-01-01T00:00:02Z: exit code 3\nthe run of 2000-01-01T00:00:04Z: exit code 3\n")
		for _, line := range []string{
			`dataservice_cron_runs_total{result="succeeded"} 2`, `dataservice_cron_runs_total{result="failed"} 2`, "dataservice_cron_duration_seconds_sum 1",
			"dataservice_cron_last_exit_code 3", "dataservice_cron_last_duration_seconds 0.25", "dataservice_cron_last_success_timestamp_seconds 946684803.25",
		} {
			assert.Assert(t, strings.Contains(metrics(report), line+"\n"), "%s is not in\n%s", line, metrics(report))
		}
	})
}

func metrics(r *Report) string {
	w := httptest.NewRecorder()
	r.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}
