// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/binlog"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/internal/contract"
)

// A time that the server's clock has shown twice ends no replay early: it is refused, with the place where the clock was set back.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		last   []int // minutes after noon of the last event of each segment
		until  int
		reason contract.Reason
	}{
		"times grow":                             {[]int{0, 10, 20, 30}, 15, ""},
		"long transactions":                      {[]int{0, 10, 8, 20, 12, 30}, 15, ""},
		"set back by an hour":                    {[]int{0, 70, 15, 20, 90}, 30, contract.ReasonRefused},
		"set back by an hour, and a time before": {[]int{0, 70, 15, 20, 90}, 5, ""},
		"set back by an hour, and a time behind": {[]int{0, 70, 15, 20, 90}, 80, ""},
		"the archive does not come that far":     {[]int{0, 10}, 200, contract.ReasonNotFound},
	} {
		timeline := &binlog.Timeline{Head: manifest.Head{Time: noon.Add(100 * time.Minute)}}
		for i, minute := range c.last {
			timeline.Segments = append(timeline.Segments, manifest.Segment{File: "bin.000001", From: uint64(4 + i), To: uint64(5 + i), LastTime: noon.Add(time.Duration(minute) * time.Minute), Transactions: 1})
		}
		p := &Plan{until: Until{Time: noon.Add(time.Duration(c.until) * time.Minute)}, timeline: timeline}
		if err := p.reaches(); (err == nil) != (c.reason == "") || err != nil && contract.ReasonOf(err) != c.reason {
			t.Errorf("%s: %v", name, err)
		}
	}
	assert.Assert(t, clockSteps > time.Minute)
}
