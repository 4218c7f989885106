// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

func TestProgress(t *testing.T) {
	t.Parallel()
	p := Progress{}
	for _, c := range []struct {
		at, waiting int
		executed    string
		commits     mysqlmember.Commits
		stalled     int
	}{
		{0, 1, "1", mysqlmember.CommitsBusy, 0}, // one observation yields no duration
		{400, 1, "1", mysqlmember.CommitsWait, 400},
		{500, 2, "1-2", mysqlmember.CommitsBusy, 0},
		{899, 1, "1-2", mysqlmember.CommitsBusy, 399},
		{900, 1, "1-2", mysqlmember.CommitsWait, 400},
		{5500, 3, "1-2", mysqlmember.CommitsWait, 5000},
		{5600, 0, "1-2", mysqlmember.CommitsEnd, 0},
		{6100, 1, "1-2", mysqlmember.CommitsWait, 500},
		{6200, 0, "1-3", mysqlmember.CommitsEnd, 0},
	} {
		commits, stalled := p.judge(c.waiting, c.executed, time.UnixMilli(int64(c.at)))
		assert.Equal(t, commits, c.commits, "at %d ms", c.at)
		assert.Equal(t, stalled, time.Duration(c.stalled)*time.Millisecond)
	}
}
