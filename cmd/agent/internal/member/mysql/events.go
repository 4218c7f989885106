// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

// Events lists the scheduled events of the server.
func (m *Member) Events(ctx context.Context) (events []mysqlmember.Event, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return nil, contract.Errorf(contract.ReasonServerUnreachable, "list events: the server has ended")
	}
	err = m.session(ctx, func(c *server.Conn) error {
		all, err := c.Events()
		for _, e := range all {
			events = append(events, mysqlmember.Event{Schema: e.Schema, Name: e.Name, Status: e.Status})
		}
		return err
	})
	return events, err
}

// Events keeps the statuses of a primary's events. Replication loses them: a replica stores each event as disabled, and
// does not learn that an event has run. So a primary writes the statuses to the table d3os_member.events. A new primary
// reads that table and sets the statuses of its events.
type Events struct {
	// Runs reports whether the primary runs its events.
	Runs bool

	isBegun bool
	failed  map[[2]string]bool // events whose status could not be set, so Record keeps their rows; nil until Begin has set the statuses
}

// recorded is a status in the table, and the UUID of the server that wrote it.
type recorded struct{ status, server string }

const (
	// EventsTable is the table with the statuses of events.
	EventsTable  = "d3os_member.events"
	makeDatabase = "CREATE DATABASE IF NOT EXISTS d3os_member"
	makeEvents   = "CREATE TABLE IF NOT EXISTS " + EventsTable + " (event_schema VARCHAR(64) NOT NULL, event_name VARCHAR(64) NOT NULL, status VARCHAR(32) NOT NULL, " +
		"server CHAR(36) NOT NULL, PRIMARY KEY (event_schema, event_name)) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
)

// Begin sets the statuses of a new primary's events, and then starts the scheduler if the primary runs events. The changes are not replicated:
// no commit waits for them, and a replica keeps its events disabled. Begin does nothing after its first success.
func (e *Events) Begin(c *server.Conn) error {
	if e.isBegun {
		return nil
	}
	events, err := c.Events()
	if err != nil {
		return err
	}
	own, id, table, err := readEvents(c)
	if err != nil {
		return err
	}
	if err := c.Do("SET SESSION sql_log_bin = 0"); err != nil {
		return err
	}
	failures := map[[2]string]bool{}
	var failed []error
	for _, event := range events {
		clause := map[string]string{server.EventEnabled: "ENABLE", server.EventDisabled: "DISABLE", server.EventOnReplica: "DISABLE ON REPLICA"}[statusOf(event, table, own, id)]
		if clause == "" {
			continue
		}
		if err := c.AlterEvent(event, clause); err != nil {
			failures[event.Key()] = true
			failed = append(failed, fmt.Errorf("set the status of event %s.%s to its status on the former primary: %w", event.Schema, event.Name, err))
		}
	}
	e.failed = failures
	if e.Runs {
		if err := c.Do("SET GLOBAL event_scheduler = ON"); err != nil {
			return fmt.Errorf("start the event scheduler: %w", err)
		}
	}
	e.isBegun = len(failed) == 0
	return errors.Join(failed...)
}

// HasBegun reports whether Begin has set the statuses of all events that it can set.
func (e *Events) HasBegun() bool { return e.failed != nil }

// readEvents returns the server's UUID and its server_id, and the statuses in the table.
func readEvents(c *server.Conn) (own, id string, table map[[2]string]recorded, err error) {
	rows, err := c.Rows("SELECT @@GLOBAL.server_uuid, @@GLOBAL.server_id, (SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'd3os_member' AND TABLE_NAME = 'events')")
	if err != nil {
		return "", "", nil, fmt.Errorf("check whether statuses of events are stored: %w", err)
	}
	own, id = rows[0][0], rows[0][1]
	if rows[0][2] == "0" {
		return own, id, nil, nil
	}
	if rows, err = c.Rows("SELECT event_schema, event_name, status, server FROM " + EventsTable); err != nil {
		return "", "", nil, fmt.Errorf("read the statuses of events: %w", err)
	}
	table = map[[2]string]recorded{}
	for _, row := range rows {
		table[server.Event{Schema: row[0], Name: row[1]}.Key()] = recorded{row[2], row[3]}
	}
	return own, id, table, nil
}

// statusOf returns the status that an event of a new primary must get, or "" if the event has the right status. own and
// id are the server's UUID and its server_id. A row of another server is newer than the status on this server. If a
// replicated event has no row, the former primary ended before it wrote the row: the event must be enabled.
func statusOf(e server.Event, table map[[2]string]recorded, own, id string) string {
	row, isRecorded := table[e.Key()]
	want := ""
	switch {
	case isRecorded && row.server != own:
		want = row.status
	case e.Status != server.EventOnReplica || e.Originator == id:
	case isRecorded:
		want = row.status
	default:
		want = server.EventEnabled
	}
	if want == e.Status {
		return ""
	}
	return want
}

// Record writes the statuses of events to the table if the statuses differ from the table. HasBegun must be true. The caller limits the
// time: like a client's write, the record may wait for an acknowledgement.
func (e *Events) Record(c *server.Conn) error {
	if err := c.Do("SET SESSION sql_log_bin = 1"); err != nil {
		return err
	}
	events, err := c.Events()
	if err != nil {
		return err
	}
	own, _, table, err := readEvents(c)
	if err != nil {
		return err
	}
	var values, gone []string
	for _, event := range events {
		key := event.Key()
		if row, isRecorded := table[key]; !e.failed[key] && (!isRecorded || row != recorded{event.Status, own}) {
			values = append(values, fmt.Sprintf("(%s, %s, %s, %s)", server.Literal(key[0]), server.Literal(key[1]), server.Literal(event.Status), server.Literal(own)))
		}
		delete(table, key)
	}
	for key := range table {
		gone = append(gone, fmt.Sprintf("(%s, %s)", server.Literal(key[0]), server.Literal(key[1])))
	}
	var statements []string
	if len(values) > 0 {
		statements = append(statements, "REPLACE INTO "+EventsTable+" VALUES "+strings.Join(values, ", "))
		if table == nil {
			statements = append([]string{makeDatabase, makeEvents}, statements...)
		}
	}
	if len(gone) > 0 {
		statements = append(statements, "DELETE FROM "+EventsTable+" WHERE (event_schema, event_name) IN ("+strings.Join(gone, ", ")+")")
	}
	return wrap(run(c, statements...), "record the statuses of events")
}
