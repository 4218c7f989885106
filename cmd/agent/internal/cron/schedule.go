// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cron starts a command at the ticks of a schedule with seconds. The fields of a CronJob mean the same here: concurrencyPolicy,
// startingDeadlineSeconds, activeDeadlineSeconds and timeZone.
//
//   - schedule.go parses the schedule.
//   - planner.go decides which tick starts a run. It has no clock.
//   - scheduler.go waits for ticks and for the ends of runs.
//   - run.go starts and ends processes. orphans.go ends orphaned processes.
//   - report.go serves metrics and the readiness.
package cron

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // for images without time zones

	robfig "github.com/robfig/cron/v3"
)

// Schedule computes the ticks of a cron expression.
type Schedule struct {
	spec robfig.Schedule
	zone *time.Location
}

// Parse parses a schedule of six fields. The first field contains the seconds. An empty time zone means UTC. Parse refuses a schedule
// that has no tick after now.
func Parse(text, zone string, now time.Time) (*Schedule, error) {
	location, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		return nil, fmt.Errorf("the time zone %q is not known: use a name such as Europe/Berlin", zone)
	}
	if strings.Contains(text, "=") {
		return nil, fmt.Errorf("the schedule %q has a time zone: use timeZone", text)
	}
	spec, err := robfig.NewParser(robfig.Second | robfig.Minute | robfig.Hour | robfig.Dom | robfig.Month | robfig.Dow).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("parse the schedule %q: %w", text, err)
	}
	s := &Schedule{spec: spec, zone: location}
	if s.Next(now).IsZero() {
		return nil, fmt.Errorf("the schedule %q is never due", text)
	}
	return s, nil
}

// Next returns the first tick after a time, or zero if there is none within five years. A local time that does not exist, because of
// daylight saving time, has no tick.
func (s *Schedule) Next(after time.Time) time.Time { return s.spec.Next(after.In(s.zone)) }
