// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package cron

import (
	"context"
	"fmt"
	"io"
	"time"
)

// look is the longest wait between two reads of the clock. (Timers do not react when the clock is set.)
const look = 5 * time.Second

// now returns the time without its monotonic part. Differences of such times include the effect of setting the clock.
func now() time.Time { return time.Now().Round(0) }

// Outcome is the result of a run.
type Outcome struct {
	Tick, Began, Ended time.Time
	// Code is the exit code; 128 plus the signal's number if a signal ended the command; 127 or 126 if the command could not start.
	Code int
	// Result is one of the results below.
	Result string
	// Problem is the reason why the run did not succeed; "" after a success.
	Problem string
}

// The results of a run.
const (
	Succeeded = "succeeded"
	Failed    = "failed"
	Deadline  = "deadline_exceeded"
	Replaced  = "replaced"
	Stopped   = "stopped" // ended with the pod
)

// Runner starts runs.
type Runner interface {
	// Start starts the run of a tick. It calls ended once, from another goroutine.
	Start(tick time.Time, ended func(Outcome))
	// Stop ends all runs with SIGTERM, and with SIGKILL after the grace period. It returns immediately.
	Stop(result string)
}

// Scheduler starts runs at ticks until its context ends.
type Scheduler struct {
	Planner *Planner
	Runner  Runner
	Report  *Report
	Log     io.Writer
}

// Run starts runs until the context ends. Then it ends the active runs, and returns when none is active.
func (s *Scheduler) Run(ctx context.Context) {
	outcomes := make(chan Outcome, maxRuns)
	active := 0
	s.Planner.Begin(now())
	for ctx.Err() == nil {
		v := s.Planner.At(now(), active)
		s.report(v)
		if v.Stop {
			s.Runner.Stop(Replaced)
		}
		if !v.Start.IsZero() {
			active++
			s.Report.Started()
			s.Runner.Start(v.Start, func(o Outcome) { outcomes <- o })
		}
		timer := time.NewTimer(s.wait())
		select {
		case <-ctx.Done():
		case <-timer.C:
		case o := <-outcomes:
			active--
			s.ended(o)
		}
		timer.Stop()
	}
	if active > 0 {
		s.Runner.Stop(Stopped)
	}
	for ; active > 0; active-- {
		s.ended(<-outcomes)
	}
}

// wait returns the time until the clock must be read again.
func (s *Scheduler) wait() time.Duration {
	due := s.Planner.Due()
	if due.IsZero() {
		return look
	}
	return min(max(due.Sub(now()), 0), look)
}

func (s *Scheduler) ended(o Outcome) {
	s.Report.Ended(o)
	if o.Problem != "" {
		_, _ = fmt.Fprintf(s.Log, "the run of %s: %s\n", o.Tick.UTC().Format(time.RFC3339), o.Problem)
	}
}

func (s *Scheduler) report(v Verdict) {
	s.Report.Missed(v)
	if v.ClockWentBack {
		_, _ = fmt.Fprintln(s.Log, "the clock was set back: the schedule continues from the time that the clock shows now")
	}
	if v.Refused > 0 {
		_, _ = fmt.Fprintf(s.Log, "%d runs are active, so no further run starts\n", maxRuns)
	}
}
