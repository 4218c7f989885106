// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// A schedule is accepted, or the error names the field of the schedule.
func TestCheck(t *testing.T) {
	t.Parallel()
	for text, problem := range map[string]string{
		"* * * * *": "", "0 3 31 * *": "", "* * * * * *": "", "0/5 * * * * *": "", "*/70 * * * * *": "", "@daily": "",
		"1,2-10/3,*/7  ?  0-23 1 jan SUN": "",
		"":                                "must have five fields, or six with the second first, not 0",
		"* * * *":                         "must have five fields, or six with the second first, not 4",
		"* * * * * * *":                   "must have five fields, or six with the second first, not 7",
		"99 99 99 99 99":                  "the minute '99' is refused: ",
		"60 * * * * *":                    "the second '60' is refused: ",
		"1 -5 * * * *":                    "the minute '-5' is refused: ",
		"1 1-2-3 * * * *":                 "the minute '1-2-3' is refused: ",
		"1 * 24 * * *":                    "the hour '24' is refused: ",
		"* * 0 * *":                       "the day '0' is refused: ",
		"* * * FEV *":                     "the month 'FEV' is refused: ",
		"* * * * 7":                       "the day of the week '7' is refused: ",
		"* * * * 0-7":                     "the day of the week '0-7' is refused: ",
		"* * * * Sunday":                  "the day of the week 'Sunday' is refused: ",
		"* * L * *":                       "the day 'L' is refused: ",
		"30-10 * * * * *":                 "the second '30-10' is refused: ",
		"*/0 * * * *":                     "the minute '*/0' is refused: ",
		"*/a * * * *":                     "the minute '*/a' is refused: ",
		"99999999999999999999 * * * *":    "the minute '99999999999999999999' is refused: ",
		"@fortnightly":                    "unrecognized descriptor",
		"TZ=UTC 0 3 * * *":                "must not have a time zone",
		"TZ=":                             "must not have a time zone",
	} {
		if problem == "" {
			assert.NilError(t, Check(text), text)
			continue
		}
		assert.ErrorContains(t, Check(text), problem, text)
	}
}

func TestIsDue(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"* * * * * *": true, "0 0 29 2 *": true, "1 0 0 30 1-3 ?": true, "1 0 0 31 2 MON": true, "1 0 0 30 2 *": false, "0 0 31 2,4,6,9,11 ?": false,
	} {
		assert.Equal(t, IsDue(text), want, text)
	}
}

func TestCheckZone(t *testing.T) {
	t.Parallel()
	assert.NilError(t, CheckZone(""))
	assert.NilError(t, CheckZone("Europe/Berlin"))
	for _, zone := range []string{"Europe/Nowhere", "Local", "../etc/passwd"} {
		assert.Error(t, CheckZone(zone), "'"+zone+"' is not known: use a name such as Europe/Berlin")
	}
}

// Longest finds the longest pause, also if it depends on the end of February, on a leap year, or on months that lack
// the scheduled day.
func TestLongest(t *testing.T) {
	t.Parallel()
	for text, hours := range map[string]int{
		"": 0, "nonsense": 0, "0 0 30 2 *": 0,
		"@hourly": 24, "@daily": 24, "@weekly": 7 * 24, "@monthly": 31 * 24, "@yearly": 366 * 24, "30 2 * * *": 24, "*/5 * * * *": 24, "* * * * * *": 24,
		"0 5 * * 0": 7 * 24, "0 5 * * MON-FRI": 3 * 24, "0 5 1 * *": 31 * 24, "0 5 1 * 0": 7 * 24, "0 5 1 1 *": 366 * 24,
		"0 3 31 * *": 61 * 24, "0 3 30 * *": 60 * 24, "0 3 29 2 *": 1461 * 24, "0 3 */2 * *": 2 * 24, "0 3 1,15 * *": 17 * 24, "0 3 * 1-6 *": 185 * 24,
		"0 1,5 * * MON-FRI": 2*24 + 20, "0 4,5 * * *": 24, "59 23 1 * *": 31 * 24, "0 */6 * * 0": 6*24 + 6,
		"0 3 15 * *,1": 31 * 24, "0 3 *,15 * 1": 7 * 24, "0 3 15 * 0-6": 24, // a list with a star counts as a star; 0-6 does not
	} {
		assert.Equal(t, Longest(text, ""), time.Duration(hours)*time.Hour, text)
	}
	assert.Equal(t, Longest("* * 1-5 * * MON", ""), 6*day+19*time.Hour+time.Second)
}

// If a change of the clocks skips the hour of a run, that night has no run. The other change of the clocks makes a pause one hour longer.
func TestLongestInATimeZone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, zone string
		hours      int
	}{
		{"30 2 * * *", "", 24},
		{"30 2 * * *", "Asia/Shanghai", 24},
		{"30 2 * * *", "Europe/Berlin", 47},
		{"30 4 * * *", "Europe/Berlin", 25},
		{"30 2 * * 0", "Europe/Berlin", 14*24 - 1},
		{"30 1 * * *", "Europe/London", 47},
		{"@daily", "America/Santiago", 47}, // its clocks skip midnight
		{"*/5 * * * *", "Europe/Berlin", 24},
		{"0 5 1 1 *", "Europe/Berlin", 366 * 24},
		{"30 2 * * *", "Europe/Nowhere", 0}, {"30 2 * * *", "Local", 0},
	} {
		assert.Equal(t, Longest(c.text, c.zone), time.Duration(c.hours)*time.Hour, "%s %s", c.text, c.zone)
	}
}

// Longest does not visit each run of a schedule with a run each second, so it takes few steps for every schedule.
func TestLongestTakesFewSteps(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"* * * * * *", "* * * */2 * *", "* * 0-22 * * MON", "59 59 23 */2 * *"} {
		parsed, err := parser.Parse(text)
		assert.NilError(t, err)
		steps := 0
		pauseOf(func(at time.Time) time.Time { steps++; return parsed.Next(at) })
		assert.Assert(t, steps < 40_000, "%s: %d", text, steps)
	}
}
