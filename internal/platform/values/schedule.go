// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"d3os.com/d3os-operator/internal/platform/component"
	"d3os.com/d3os-operator/internal/render"
	"d3os.com/d3os-operator/internal/schedule"
)

// checkSchedule refuses a schedule that its parser refuses, an unknown time zone, and a schedule with seconds that is never due.
func checkSchedule(c *component.Component) error {
	if c.CronJob == nil {
		return nil
	}
	text := c.CronJob.Schedule
	if err := schedule.Check(text); err != nil {
		return render.FieldError(c.Path+".schedule", "%v", err)
	}
	if c.CronJob.HasSeconds() && !schedule.IsDue(text) {
		return render.FieldError(c.Path+".schedule", "'%s' is never due", text)
	}
	if err := schedule.CheckZone(c.CronJob.TimeZone); err != nil {
		return render.FieldError(c.Path+".timeZone", "%v", err)
	}
	return nil
}
