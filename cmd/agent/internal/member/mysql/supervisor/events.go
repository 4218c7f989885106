// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/member/mysql"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

// The settings of the event scheduler. A server that starts with DISABLED cannot start its scheduler.
const (
	schedulerOn       = "ON"
	schedulerOff      = "OFF"
	schedulerDisabled = "DISABLED"
)

// keepEvents maintains the scheduled events of a new primary. It sets the statuses of the events, and starts the
// scheduler if the user's setting requires it. Then it records changes of the statuses for the next primary.
func (a *Agent) keepEvents(ctx context.Context, r *running) {
	events := &mysql.Events{Runs: a.Server.scheduler() == schedulerOn}
	said := ""
	for ctx.Err() == nil {
		if state, _ := r.latest(); state.Role == mysqlmember.RolePrimary && state.Writable {
			problem := ""
			if err := a.applyEvents(ctx, r, events, state.Commits != mysqlmember.CommitsWait); err != nil {
				problem = err.Error()
			}
			if problem != "" && problem != said {
				_, _ = fmt.Fprintln(a.Log, "events:", problem)
			}
			said = problem
		}
		select {
		case <-ctx.Done():
		case <-time.After(look):
		}
	}
}

// applyEvents does one round of keepEvents. Of its writes, only Record may wait for an acknowledgement. So it calls
// Record only while a voter is connected.
func (a *Agent) applyEvents(ctx context.Context, r *running, events *mysql.Events, mayWrite bool) error {
	c, err := server.Connect(ctx, r.Root)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Limit(time.Now().Add(5 * applying)); err != nil {
		return err
	}
	if err := c.Do(fmt.Sprintf("SET SESSION lock_wait_timeout = %d, innodb_lock_wait_timeout = %[1]d", applying/time.Second)); err != nil {
		return err
	}
	begun := events.Begin(c)
	if !events.HasBegun() || !mayWrite || acknowledges(c) != nil {
		return begun
	}
	if err := c.Limit(time.Now().Add(applying)); err != nil {
		return err
	}
	if err := events.Record(c); err != nil {
		return err
	}
	return begun
}

// scheduler returns the user's setting of the event scheduler: ON, OFF or DISABLED. It returns MySQL's default, ON, without a setting.
func (s Server) scheduler() string {
	setting := schedulerOn
	if text, err := os.ReadFile(s.Config); err == nil { // without the file the server does not start
		section := ""
		for _, line := range strings.Split(string(text), "\n") {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "[") {
				section = strings.Trim(line, "[]")
			} else if section == "mysqld" || section == "server" {
				setting = schedulerOf(line, setting)
			}
		}
	}
	for _, option := range s.Options {
		setting = schedulerOf(strings.TrimPrefix(option, "--"), setting)
	}
	return setting
}

// schedulerOf returns the setting of the event scheduler after one more option was read. before is the earlier setting.
func schedulerOf(option, before string) string {
	name, value, hasValue := strings.Cut(option, "=")
	name = strings.ReplaceAll(strings.TrimSpace(name), "-", "_")
	for strings.HasPrefix(name, "loose_") {
		name = strings.TrimPrefix(name, "loose_")
	}
	switch name {
	case "skip_event_scheduler", "disable_event_scheduler":
		return schedulerOff
	case "enable_event_scheduler":
		return schedulerOn
	case "event_scheduler":
	default:
		return before
	}
	switch strings.ToUpper(strings.Trim(strings.TrimSpace(value), `'"`)) {
	case "0", schedulerOff:
		return schedulerOff
	case "2", schedulerDisabled:
		return schedulerDisabled
	case "1", schedulerOn:
		return schedulerOn
	}
	if !hasValue {
		return schedulerOn
	}
	return before // the server refuses other values
}
