// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"strings"
)

// Event is a scheduled event of a server. Originator is the id of the server on which the event was last changed.
type Event struct {
	Schema, Name, Status, Originator string

	definer, mode, charset, collation string
}

// The statuses of an event. Every other status is another spelling of EventOnReplica.
const (
	EventEnabled   = "ENABLED"
	EventDisabled  = "DISABLED"
	EventOnReplica = "REPLICA_SIDE_DISABLED"
)

// Key identifies an event: the names of events are case-insensitive.
func (e Event) Key() [2]string { return [2]string{strings.ToLower(e.Schema), strings.ToLower(e.Name)} }

// Events lists the scheduled events.
func (c *Conn) Events() (events []Event, err error) {
	rows, err := c.Rows("SELECT EVENT_SCHEMA, EVENT_NAME, STATUS, ORIGINATOR, DEFINER, SQL_MODE, CHARACTER_SET_CLIENT, COLLATION_CONNECTION FROM information_schema.EVENTS " +
		"ORDER BY EVENT_SCHEMA, EVENT_NAME")
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	for _, row := range rows {
		e := Event{Schema: row[0], Name: row[1], Status: row[2], Originator: row[3], definer: row[4], mode: row[5], charset: row[6], collation: row[7]}
		if e.Status != EventEnabled && e.Status != EventDisabled {
			e.Status = EventOnReplica
		}
		events = append(events, e)
	}
	return events, nil
}

// AlterEvent changes the status of an event by a clause of ALTER EVENT. The statement stores the definer, mode and character set of its
// session, so the session uses the values of the event.
func (c *Conn) AlterEvent(e Event, clause string) error {
	at := strings.LastIndex(e.definer, "@")
	if at < 0 {
		return fmt.Errorf("event %s of schema %s has the definer %q", e.Name, e.Schema, e.definer)
	}
	charset := fmt.Sprintf("character_set_client = %s, collation_connection = %s, ", e.charset, e.collation)
	if strings.ContainsFunc(e.Schema+e.Name+e.definer, func(r rune) bool { return r > 0x7f }) {
		charset = "" // the names are written as UTF-8
	}
	for _, statement := range []string{
		fmt.Sprintf("SET SESSION %ssql_mode = %s", charset, Literal(e.mode)),
		fmt.Sprintf("ALTER DEFINER = %s@%s EVENT %s.%s %s", Quote(e.definer[:at]), Quote(e.definer[at+1:]), Quote(e.Schema), Quote(e.Name), clause),
		"SET NAMES utf8mb4", "SET SESSION sql_mode = ''",
	} {
		if err := c.Do(statement); err != nil {
			return err
		}
	}
	return nil
}
