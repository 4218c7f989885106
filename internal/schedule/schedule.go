// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package schedule reads schedules in cron syntax with the parser that Kubernetes and the agent use. Results depend only on arguments.
package schedule

import (
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"
	_ "time/tzdata" // the operator's image may have no time zones

	"github.com/robfig/cron/v3"

	"d3os.com/d3os-operator/internal/object"
)

const (
	day = 24 * time.Hour
	// cached is the maximum size of the cache of Longest, in bytes. The cache needs a limit, because its keys are schedules that users write.
	cached = 1 << 20
)

// parser accepts five fields, or six fields that begin with the second, and descriptors such as @daily.
var parser = cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// names are the names of the six fields.
var names = [...]string{"second", "minute", "hour", "day", "month", "day of the week"}

// Check returns nil if the parser accepts a schedule. The error names the field of the schedule.
func Check(text string) error {
	fields := strings.Fields(text)
	switch {
	case strings.Contains(text, "="):
		return errors.New("must not have a time zone")
	case strings.HasPrefix(text, "@"):
		_, err := parser.Parse(text)
		return err
	case len(fields) < 5 || len(fields) > 6:
		return fmt.Errorf("must have five fields, or six with the second first, not %d", len(fields))
	case len(fields) == 5:
		fields = append([]string{"0"}, fields...)
	}
	for i, field := range fields {
		others := [...]string{"*", "*", "*", "*", "*", "*"}
		others[i] = field
		if _, err := parser.Parse(strings.Join(others[:], " ")); err != nil {
			return fmt.Errorf("the %s '%s' is refused: %w", names[i], field, err)
		}
	}
	return nil
}

// IsDue reports whether a valid schedule has a run within five years.
func IsDue(text string) bool {
	parsed, err := parser.Parse(text)
	return err == nil && !parsed.Next(start).IsZero()
}

// CheckZone returns nil if a time zone exists or is empty.
func CheckZone(zone string) error {
	if _, err := time.LoadLocation(zone); err != nil || zone == "Local" {
		return fmt.Errorf("'%s' is not known: use a name such as Europe/Berlin", zone)
	}
	return nil
}

// start and end bound the years in which the pauses of a schedule are measured. These years have two leap days.
var (
	start = time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)
	end   = start.AddDate(9, 0, 0)
)

var longest = object.NewCache[string, time.Duration](cached, nil)

// Longest returns the longest time between two runs of a schedule in a time zone, at least a day. An empty zone means UTC. It returns 0
// for a schedule that is empty, invalid or never due, and for an unknown zone.
//
// A run is skipped if its local time does not exist because the clocks change.
func Longest(text, zone string) time.Duration {
	key := zone + " " + text
	if found, ok := longest.Get(key); ok {
		return found
	}
	location, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" || Check(text) != nil {
		return 0
	}
	parsed, err := parser.Parse(text)
	if err != nil {
		return 0
	}
	pause := pauseOf(func(t time.Time) time.Time { return parsed.Next(t.In(location)) })
	longest.Add(key, pause, len(key)+64)
	return pause
}

// pauseOf returns the longest pause between two runs, at least a day. next returns the first run after a time. pauseOf
// looks only for pauses of more than a day, because a schedule may have a run each second.
func pauseOf(next func(time.Time) time.Time) time.Duration {
	const skip = day - time.Hour
	last := next(start.Add(-time.Second))
	if last.IsZero() {
		return 0
	}
	pause := day
	for last.Before(end) {
		run := next(last.Add(skip))
		if run.IsZero() {
			break
		}
		if run.Sub(last) > day {
			// The run before this one is the earliest time t for which next(t) is this run.
			seconds := sort.Search(int(skip/time.Second), func(i int) bool { return !next(last.Add(time.Duration(i) * time.Second)).Before(run) })
			pause = max(pause, run.Sub(last.Add(time.Duration(seconds)*time.Second)))
		}
		last = run
	}
	return pause
}
