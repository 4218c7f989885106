// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// A schedule is accepted, or the field of it is named.
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

// The longest pause is at the end of February, in a leap year, or between months that have the day.
func TestLongest(t *testing.T) {
	t.Parallel()
	for text, days := range map[string]int{
		"": 0, "nonsense": 0, "0 0 30 2 *": 0,
		"@hourly": 1, "@daily": 1, "@weekly": 7, "@monthly": 31, "@yearly": 366, "30 2 * * *": 1, "*/5 * * * *": 1, "* * * * * *": 1,
		"0 5 * * 0": 7, "0 5 * * MON-FRI": 3, "0 5 1 * *": 31, "0 5 1 * 0": 7, "0 5 1 1 *": 366,
		"0 3 31 * *": 61, "0 3 29 2 *": 1461, "0 3 */2 * *": 2, "0 3 1,15 * *": 17, "0 3 * 1-6 *": 185,
	} {
		assert.Equal(t, Longest(text), time.Duration(days)*day, text)
	}
}
