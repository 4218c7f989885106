// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package cron

import (
	"fmt"
	"time"
)

// Policy is the concurrencyPolicy of a CronJob.
type Policy string

// The policies.
const (
	Allow   Policy = "Allow"
	Forbid  Policy = "Forbid"
	Replace Policy = "Replace"
)

// ParsePolicy returns the policy with a name.
func ParsePolicy(text string) (Policy, error) {
	switch p := Policy(text); p {
	case Allow, Forbid, Replace:
		return p, nil
	}
	return "", fmt.Errorf("the concurrency policy %q is unknown: use Allow, Forbid or Replace", text)
}

const (
	// maxRuns bounds the concurrent runs of policy Allow.
	maxRuns = 100
	// clockBack is the maximum time by which the clock may go back without a second run of a tick. If the clock goes back further, past
	// ticks become due again.
	clockBack = time.Minute
	// clockForward is the maximum age of missed ticks that are counted.
	clockForward = 24 * time.Hour
)

// Verdict is the decision at a point in time.
type Verdict struct {
	// Start is the tick whose run starts; zero for none.
	Start time.Time
	// Stop reports whether all runs must end, because a new run replaces them.
	Stop bool
	// Skipped, Late and Refused count ticks without a run, by reason: another run was active, the starting deadline has passed, or too many
	// runs were active.
	Skipped, Late, Refused int
	// ClockWentBack reports whether the clock went back by more than clockBack.
	ClockWentBack bool
}

// Planner decides which tick starts a run. It is not safe for concurrent use.
type Planner struct {
	Next   func(after time.Time) time.Time
	Policy Policy
	// StartingDeadline is the maximum delay of a run in seconds; nil for no limit.
	StartingDeadline *int64

	due     time.Time // the next tick; zero for none
	seen    time.Time // the latest time that At has received
	pending time.Time // the last tick that waits for a run to end; zero for none
}

// Begin sets the time after which ticks are due.
func (p *Planner) Begin(now time.Time) { p.seen, p.due = now, p.Next(now) }

// Due returns the next tick.
func (p *Planner) Due() time.Time { return p.due }

// At decides whether a run starts now, while the given number of runs is active. Of several due ticks, only the last one starts a run, as
// for a CronJob.
func (p *Planner) At(now time.Time, active int) Verdict {
	var v Verdict
	if now.Before(p.seen.Add(-clockBack)) {
		v.ClockWentBack, p.pending = true, time.Time{}
		p.Begin(now)
	}
	if now.After(p.seen) {
		p.seen = now
	}
	tick, missed := p.take(now)
	v.Skipped = missed
	if !tick.IsZero() {
		p.tick(&v, tick, now, active)
	}
	if active == 0 && v.Start.IsZero() && !p.pending.IsZero() {
		tick, p.pending = p.pending, time.Time{}
		p.start(&v, tick, now)
	}
	return v
}

// take returns the last due tick, or zero, and the number of due ticks before it.
func (p *Planner) take(now time.Time) (last time.Time, before int) {
	if !p.due.IsZero() && p.due.Before(now.Add(-clockForward)) {
		p.due = p.Next(now.Add(-clockForward))
	}
	if p.due.IsZero() {
		p.due = p.Next(now)
	}
	for !p.due.IsZero() && !p.due.After(now) {
		if !last.IsZero() {
			before++
		}
		last, p.due = p.due, p.Next(p.due)
	}
	return last, before
}

// tick decides about one due tick.
func (p *Planner) tick(v *Verdict, tick, now time.Time, active int) {
	switch {
	case active == 0 || p.Policy == Allow && active < maxRuns:
		if !p.pending.IsZero() {
			v.Skipped++
		}
		p.pending = time.Time{}
		p.start(v, tick, now)
	case p.Policy == Allow:
		v.Refused++
	default:
		if !p.pending.IsZero() {
			v.Skipped++
		}
		p.pending, v.Stop = tick, p.Policy == Replace
	}
}

// start starts the run of a tick unless the starting deadline has passed. It truncates the delay to seconds.
func (p *Planner) start(v *Verdict, tick, now time.Time) {
	if late := now.Sub(tick) / time.Second; p.StartingDeadline != nil && int64(late) > *p.StartingDeadline {
		v.Late++
		return
	}
	v.Start = tick
}
