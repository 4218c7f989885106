// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package cron

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	moment, err := time.Parse(time.RFC3339, text)
	assert.NilError(t, err)
	return moment
}

// Each row passes times and numbers of active runs to a planner. The row also lists the ticks that must start runs.
func TestPlanner(t *testing.T) {
	t.Parallel()
	type look struct {
		at     string // seconds after the beginning, or a time
		active int
		want   Verdict // without Start, which must equal the field start
		start  string
	}
	for _, row := range []struct {
		name, schedule, zone, begin string
		policy                      Policy
		deadline                    *int64
		looks                       []look
	}{
		{name: "each tick once", schedule: "* * * * * *", looks: []look{
			{at: "0.5s"}, {at: "1s", start: "1s"}, {at: "1.2s"}, {at: "2.003s", start: "2s"}, {at: "2.9s"},
		}},
		{name: "Forbid: the last tick waits for the end of the run", schedule: "* * * * * *", looks: []look{
			{at: "1s", start: "1s"}, {at: "2s", active: 1}, {at: "3s", active: 1, want: Verdict{Skipped: 1}}, {at: "3.5s", start: "3s"}, {at: "4s", active: 1}, {at: "4.1s", start: "4s"},
		}},
		{name: "Forbid: the delay of a waiting tick is truncated to seconds", schedule: "* * * * * *", deadline: new(int64(0)), looks: []look{
			{at: "1s", start: "1s"}, {at: "2s", active: 1}, {at: "2.9s", start: "2s"}, {at: "3s", active: 1}, {at: "4s", active: 1, want: Verdict{Skipped: 1}}, {at: "5s", active: 1, want: Verdict{Skipped: 1}},
			{at: "5.9s", start: "5s"},
		}},
		{name: "a late tick has no run", schedule: "*/30 * * * * *", deadline: new(int64(5)), looks: []look{
			{at: "36s", want: Verdict{Late: 1}}, {at: "65.9s", start: "60s"},
		}},
		{name: "Forbid: a waiting tick misses its deadline", schedule: "*/30 * * * * *", deadline: new(int64(5)), looks: []look{
			{at: "30s", start: "30s"}, {at: "60s", active: 1}, {at: "66s", want: Verdict{Late: 1}}, {at: "90s", start: "90s"},
		}},
		{name: "Allow", schedule: "* * * * * *", policy: Allow, looks: []look{
			{at: "1s", start: "1s"}, {at: "2s", active: 1, start: "2s"}, {at: "3s", active: maxRuns, want: Verdict{Refused: 1}}, {at: "4s", active: maxRuns - 1, start: "4s"},
		}},
		{name: "Replace", schedule: "* * * * * *", policy: Replace, looks: []look{
			{at: "1s", start: "1s"}, {at: "2s", active: 1, want: Verdict{Stop: true}}, {at: "2.1s", active: 1}, {at: "2.2s", start: "2s"},
		}},
		{name: "the clock jumps ahead: the last tick counts", schedule: "0,10 * * * * *", looks: []look{
			{at: "1h12s", start: "1h10s", want: Verdict{Skipped: 120}}, {at: "1h13s"},
		}},
		{name: "the clock jumps ahead by years", schedule: "5 0 0 * * *", looks: []look{
			{at: "2030-01-01T12:00:00Z", start: "2030-01-01T00:00:05Z"},
		}},
		{name: "the clock goes back a little: no tick runs twice", schedule: "* * * * * *", looks: []look{
			{at: "10s", start: "10s", want: Verdict{Skipped: 9}}, {at: "5s"}, {at: "9s"}, {at: "10s"}, {at: "11s", start: "11s"},
		}},
		{name: "the clock goes back by more than a minute", schedule: "0 * * * * *", looks: []look{
			{at: "2h", start: "2h", want: Verdict{Skipped: 119}}, {at: "30s", want: Verdict{ClockWentBack: true}}, {at: "60s", start: "60s"},
		}},
		{name: "a local time that does not exist has no run", schedule: "30 30 2 * * *", zone: "Europe/Berlin", begin: "2026-03-28T20:00:00Z", looks: []look{
			{at: "2026-03-29T02:00:00Z"}, {at: "2026-03-30T00:30:30Z", start: "2026-03-30T00:30:30Z"},
		}},
		{name: "a local time that exists twice, as for a CronJob", schedule: "30 30 2 * * *", zone: "Europe/Berlin", begin: "2026-10-24T20:00:00Z", looks: []look{
			{at: "2026-10-25T00:30:30Z", start: "2026-10-25T00:30:30Z"}, {at: "2026-10-25T01:30:30Z", start: "2026-10-25T01:30:30Z"}, {at: "2026-10-26T01:30:30Z", start: "2026-10-26T01:30:30Z"},
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			begin := at(t, "2026-01-01T00:00:00Z")
			if row.begin != "" {
				begin = at(t, row.begin)
			}
			moment := func(text string) time.Time {
				if after, err := time.ParseDuration(text); err == nil {
					return begin.Add(after)
				}
				return at(t, text)
			}
			schedule, err := Parse(row.schedule, row.zone, begin)
			assert.NilError(t, err)
			p := &Planner{Next: schedule.Next, Policy: row.policy, StartingDeadline: row.deadline}
			p.Begin(begin)
			for _, l := range row.looks {
				got := p.At(moment(l.at), l.active)
				if l.start != "" {
					assert.Assert(t, got.Start.Equal(moment(l.start)), "at %s %s is started, want %s", l.at, got.Start, moment(l.start))
				} else {
					assert.Assert(t, got.Start.IsZero(), "at %s %s is started", l.at, got.Start)
				}
				got.Start = time.Time{}
				assert.DeepEqual(t, got, l.want)
			}
		})
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	begin := at(t, "2026-01-01T00:00:00Z")
	for schedule, want := range map[string]string{
		"* * * * *":                      "expected exactly 6 fields",
		"60 * * * * *":                   "above maximum",
		"* * 24 * * *":                   "above maximum",
		"* * * 0 * *":                    "below minimum",
		"* * * * 13 *":                   "above maximum",
		"* * * * * 7":                    "above maximum",
		"30-10 * * * * *":                "beyond end",
		"*/0 * * * * *":                  "step of range should be a positive number",
		"x * * * * *":                    "failed to parse",
		"@hourly":                        "does not accept descriptors",
		"":                               "empty spec",
		"TZ=UTC":                         "use timeZone",
		"TZ=Europe/Berlin 1 * * * * *":   "use timeZone",
		"1 0 0 30 2 *":                   "is never due",
		"1 0 0 31 2,4,6,9,11 *":          "is never due",
		"* * * * * * *":                  "expected exactly 6 fields",
		"99999999999999999999 * * * * *": "failed to parse",
	} {
		_, err := Parse(schedule, "", begin)
		assert.ErrorContains(t, err, want, "schedule %q", schedule)
	}
	for _, zone := range []string{"Europe/Nowhere", "Local", "../etc/passwd"} {
		_, err := Parse("* * * * * *", zone, begin)
		assert.ErrorContains(t, err, "is not known: use a name such as Europe/Berlin")
	}
}
