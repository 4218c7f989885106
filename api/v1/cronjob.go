// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import "strings"

// HasSeconds reports whether runs start at other seconds than 0.
func (c *CronJob) HasSeconds() bool { return HasSeconds(c.Schedule) }

// HasSeconds reports whether a schedule has ticks at other seconds than 0. A CronJob of Kubernetes cannot start runs then.
func HasSeconds(schedule string) bool {
	fields := strings.Fields(schedule)
	return len(fields) == 6 && fields[0] != "0" && fields[0] != "00"
}
