// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package runs

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

func TestLongest(t *testing.T) {
	t.Parallel()
	for schedule, days := range map[string]int{
		"": 0, "@hourly": 1, "@weekly": 7, "30 2 * * *": 1, "*/5 * * * *": 1, "0 5 * * 0": 7, "0 5 * * MON-FRI": 7, "0 5 1 * *": 31, "0 5 1 * 0": 7, "0 5 1 1 *": 366, "0 5 1 1 0": 366,
	} {
		assert.Equal(t, Longest(schedule), time.Duration(days)*day, schedule)
	}
}
