// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

// stalledAfter is the time without a committed transaction after which waiting sessions count as blocked.
const stalledAfter = 400 * time.Millisecond

// Progress judges the commits of a primary from repeated observations.
type Progress struct {
	executed string
	// good is the time of the last observation that showed progress: no session waited, or a transaction had been committed since the previous
	// observation.
	good time.Time
}

// judge adds an observation. It returns the state of commits, and the time for which no commit has ended while sessions waited.
func (p *Progress) judge(waiting int, executed string, now time.Time) (mysqlmember.Commits, time.Duration) {
	if waiting == 0 || p.good.IsZero() || executed != p.executed {
		p.executed, p.good = executed, now
	}
	stalled := now.Sub(p.good)
	switch {
	case waiting == 0:
		return mysqlmember.CommitsEnd, 0
	case stalled < stalledAfter:
		return mysqlmember.CommitsBusy, stalled
	}
	return mysqlmember.CommitsWait, stalled
}

// Look adds an observation of a primary.
func (p *Progress) Look(c *server.Conn) (mysqlmember.Commits, error) {
	waiting, err := waitingSessions(c)
	if err != nil {
		return "", err
	}
	executed, err := c.Value("SELECT @@GLOBAL.gtid_executed")
	if err != nil {
		return "", fmt.Errorf("read the transactions: %w", err)
	}
	commits, _ := p.judge(waiting, executed, time.Now())
	return commits, nil
}

var errNoSemiSync = errors.New("the server has no semi-sync")

// waitingSessions returns the number of sessions that wait for an acknowledgement.
func waitingSessions(c *server.Conn) (int, error) {
	text, err := status(c, "Rpl_semi_sync_source_wait_sessions")
	if err != nil {
		return 0, fmt.Errorf("read the waiting sessions: %w", err)
	}
	waiting, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("read the waiting sessions: %w", errNoSemiSync)
	}
	return waiting, nil
}
