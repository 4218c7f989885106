// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import "strings"

// HasSeconds reports whether runs start at other seconds than 0, which no CronJob of Kubernetes does.
func (c *CronJob) HasSeconds() bool {
	fields := strings.Fields(c.Schedule)
	return len(fields) == 6 && fields[0] != "0" && fields[0] != "00"
}
