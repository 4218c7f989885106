// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"fmt"
	"strings"

	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

// setEvents sets the primary's status of each event in a copy, because a replica stores each event as disabled. It returns the disabled
// events that the primary lacks.
func setEvents(c *server.Conn, of []mysqlmember.Event) (missing []string, err error) {
	status := map[[2]string]string{}
	for _, e := range of {
		status[[2]string{strings.ToLower(e.Schema), strings.ToLower(e.Name)}] = e.Status
	}
	rows, err := c.Rows("SELECT EVENT_SCHEMA, EVENT_NAME FROM information_schema.EVENTS WHERE STATUS NOT IN ('ENABLED', 'DISABLED')")
	if err != nil {
		return nil, fmt.Errorf("list the events of the copy: %w", err)
	}
	for _, row := range rows {
		if status[[2]string{strings.ToLower(row[0]), strings.ToLower(row[1])}] == "" {
			missing = append(missing, server.Quote(row[0])+"."+server.Quote(row[1]))
		}
	}
	if err := restore.SettleEvents(c, status); err != nil {
		return nil, fmt.Errorf("give events the status that they have on the primary: %w", err)
	}
	return missing, nil
}
