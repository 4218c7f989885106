// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"fmt"

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
		rows, err := c.Rows("SELECT EVENT_SCHEMA, EVENT_NAME, STATUS FROM information_schema.EVENTS")
		if err != nil {
			return fmt.Errorf("list events: %w", err)
		}
		for _, row := range rows {
			events = append(events, mysqlmember.Event{Schema: row[0], Name: row[1], Status: row[2]})
		}
		return nil
	})
	return events, err
}
