// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package runs

import (
	"strings"
	"time"
)

const day = 24 * time.Hour

// Longest returns the longest time between two runs of a schedule in the format of cron, to a day and no more: 0 for no
// schedule. It is for alerts, which must not come too early.
func Longest(schedule string) time.Duration {
	named := map[string]time.Duration{
		"@yearly": 366 * day, "@annually": 366 * day, "@monthly": 31 * day, "@weekly": 7 * day, "@daily": day, "@midnight": day, "@hourly": day,
	}
	fields := strings.Fields(schedule)
	switch {
	case len(fields) == 0:
		return 0
	case len(fields) != 5:
		return named[schedule]
	}
	isAny := func(field string) bool { return field == "*" || field == "?" || field == "*/1" }
	dayOfMonth, month, dayOfWeek := fields[2], fields[3], fields[4]
	switch {
	case !isAny(month):
		return 366 * day
	case !isAny(dayOfWeek): // where both are given, it runs on days that fit one of them
		return 7 * day
	case !isAny(dayOfMonth):
		return 31 * day
	}
	return day
}
