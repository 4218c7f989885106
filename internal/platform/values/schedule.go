// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // the operator's image may have no time zones

	"d3os.com/d3os-operator/internal/platform/component"
	"d3os.com/d3os-operator/internal/render"
)

// scheduleField is a field of a schedule with seconds. Names count from the first number.
type scheduleField struct {
	name        string
	first, last int
	names       []string
}

var scheduleFields = []scheduleField{
	{name: "second", last: 59},
	{name: "minute", last: 59},
	{name: "hour", last: 23},
	{name: "day", first: 1, last: 31},
	{name: "month", first: 1, last: 12, names: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{name: "day of the week", last: 6, names: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

// checkSeconds refuses a schedule with seconds that the agent would refuse, and its time zone: no CronJob of Kubernetes has them, so the
// API server checks neither.
func checkSeconds(c *component.Component) error {
	if c.CronJob == nil || !c.CronJob.HasSeconds() {
		return nil
	}
	days := make([][]int, len(scheduleFields))
	for i, text := range strings.Fields(c.CronJob.Schedule) {
		var problem string
		if days[i], problem = scheduleFields[i].parse(text); problem != "" {
			return render.Mistake(c.Path+".schedule", "the %s %s", scheduleFields[i].name, problem)
		}
	}
	// As in cron, a day of the month and a day of the week are alternatives unless one of both is any day.
	fields := strings.Fields(c.CronJob.Schedule)
	if (strings.HasPrefix(fields[5], "*") || fields[5] == "?") && !hasDay(days[3], days[4]) {
		return render.Mistake(c.Path+".schedule", "is never due: no month of '%s' has a day of '%s'", fields[4], fields[3])
	}
	if zone := c.CronJob.TimeZone; zone != "" {
		if _, err := time.LoadLocation(zone); err != nil || zone == "Local" {
			return render.Mistake(c.Path+".timeZone", "'%s' is not known: use a name such as Europe/Berlin", zone)
		}
	}
	return nil
}

// parse returns the numbers of a field, or the problem.
func (f *scheduleField) parse(text string) (numbers []int, problem string) {
	for item := range strings.SplitSeq(text, ",") {
		span, step, hasStep := strings.Cut(item, "/")
		low, high, hasEnd := strings.Cut(span, "-")
		first, last, every := f.first, f.last, 1
		var ok [3]bool
		ok[0], ok[1], ok[2] = true, true, true
		if span != "*" && span != "?" {
			first, ok[0] = f.number(low)
			if last = first; hasEnd {
				last, ok[1] = f.number(high)
			} else if hasStep {
				last = f.last
			}
		}
		if hasStep {
			n, err := strconv.Atoi(step)
			every, ok[2] = n, err == nil && n > 0
		}
		switch {
		case !ok[0] || !ok[1]:
			return nil, fmt.Sprintf("'%s' must be %d to %d%s, or *", item, f.first, f.last, f.alternatives())
		case !ok[2]:
			return nil, fmt.Sprintf("'%s' must have a step above 0", item)
		case first > last:
			return nil, fmt.Sprintf("'%s' must not begin after its end", item)
		}
		for n := first; n <= last; n += every {
			numbers = append(numbers, n)
		}
	}
	return numbers, ""
}

// number returns a number within the bounds of a field.
func (f *scheduleField) number(text string) (n int, ok bool) {
	if i := slices.Index(f.names, strings.ToLower(text)); i >= 0 {
		return f.first + i, true
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= f.first && n <= f.last
}

func (f *scheduleField) alternatives() string {
	if f.names == nil {
		return ""
	}
	return fmt.Sprintf(" or %s to %s", strings.ToUpper(f.names[0]), strings.ToUpper(f.names[len(f.names)-1]))
}

// hasDay reports whether a month has a day.
func hasDay(days, months []int) bool {
	lengths := []int{31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}
	return slices.ContainsFunc(months, func(month int) bool { return slices.Min(days) <= lengths[month-1] })
}
