// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build mysql

package supervisor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

// ask returns the first column of a query's rows, or the error.
func (p *pod) ask(query string) string {
	c, err := p.session()
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	rows, err := c.Rows(query)
	if err != nil {
		return err.Error()
	}
	var all []string
	for _, row := range rows {
		all = append(all, row[0])
	}
	return strings.Join(all, " ")
}

// eventsOf returns the events of a member with their status.
func (p *pod) eventsOf() string {
	return p.ask("SELECT CONCAT(EVENT_NAME, ':', REPLACE(STATUS, 'SLAVESIDE', 'REPLICA_SIDE')) FROM information_schema.EVENTS ORDER BY EVENT_NAME")
}

// configure writes the configuration file of the member's server.
func (p *pod) configure(setting string) {
	p.t.Helper()
	p.Config = filepath.Join(p.Run, "my.cnf")
	assert.NilError(p.t, os.WriteFile(p.Config, []byte("[mysqld]\n"+setting+"\n"), 0o600))
}

// After a failover, each event has the same status as on the former primary. The new primary runs the enabled events.
// An event that ran once does not run again. Replicas run no event.
func TestEvents(t *testing.T) {
	t.Parallel()
	all := pods(t, 2)
	p, a := all[0], all[1]
	first(p)
	a.up()
	a.joins(1, p)
	order := mysqlmember.Order{Epoch: 1, Revision: 2}
	a.order("/follow", mysqlmember.Request{Order: order, Source: p.source(), Acknowledge: true})
	p.order("/serve", mysqlmember.Request{Order: order, Demands: 1})
	p.exec("CREATE TABLE d.ran (name VARCHAR(9), server INT)",
		"CREATE EVENT d.Each ON SCHEDULE EVERY 1 SECOND DO INSERT INTO d.ran VALUES ('each', @@server_id)",
		"CREATE EVENT d.off ON SCHEDULE EVERY 1 SECOND DISABLE DO INSERT INTO d.ran VALUES ('off', @@server_id)",
		"CREATE EVENT d.other ON SCHEDULE EVERY 1 SECOND DISABLE ON REPLICA DO INSERT INTO d.ran VALUES ('other', @@server_id)",
		"CREATE EVENT d.past ON SCHEDULE AT NOW() ON COMPLETION PRESERVE DO INSERT INTO d.ran VALUES ('past', @@server_id)",
		"CREATE EVENT d.`ü e` ON SCHEDULE EVERY 1 DAY STARTS '2037-01-01' DO SELECT 'ü'")
	const want = "Each:ENABLED off:DISABLED other:REPLICA_SIDE_DISABLED past:DISABLED ü e:ENABLED"
	p.until("events ran", func(mysqlmember.Answer) bool {
		return p.ask("SELECT DISTINCT name FROM d.ran ORDER BY name") == "each past"
	})
	p.until("the events are as created", func(mysqlmember.Answer) bool { return p.eventsOf() == want })
	a.until("the replica has their status", func(mysqlmember.Answer) bool {
		return strings.HasPrefix(a.ask("SELECT status FROM d3os_member.events WHERE event_name = 'past'"), "DISABLED")
	})
	assert.Equal(t, a.ask("SELECT @@GLOBAL.event_scheduler"), "OFF")

	p.kill()
	a.order("/promise", mysqlmember.Request{Order: mysqlmember.Order{Epoch: 2, Revision: 2}})
	a.leads(2, 3, 0)
	a.until("the events have their status", func(mysqlmember.Answer) bool { return a.eventsOf() == want })
	a.until("an event runs", func(mysqlmember.Answer) bool { return a.ask("SELECT COUNT(*) > 1 FROM d.ran WHERE server = 2") == "1" })
	assert.Equal(t, a.ask("SELECT DISTINCT CONCAT(name, server) FROM d.ran ORDER BY 1"), "each1 each2 past1")
	a.exec("ALTER EVENT d.off ENABLE", "ALTER EVENT d.Each DISABLE")
	a.until("the change is recorded", func(mysqlmember.Answer) bool {
		return a.ask("SELECT status FROM d3os_member.events WHERE event_name IN ('each', 'off') ORDER BY event_name") == "DISABLED ENABLED"
	})

	// The old primary copies the data, follows the new primary, and then becomes the primary again. The user has turned the scheduler off.
	p.configure("event_scheduler = OFF")
	p.up()
	p.reads()
	p.joins(3, a)
	order = mysqlmember.Order{Epoch: 2, Revision: 4}
	p.order("/follow", mysqlmember.Request{Order: order, Source: a.source(), Acknowledge: true})
	a.order("/serve", mysqlmember.Request{Order: order, Demands: 1})
	a.exec("ALTER EVENT d.other ENABLE")
	p.until("the replica has the status", func(mysqlmember.Answer) bool {
		return p.ask("SELECT status FROM d3os_member.events WHERE event_name = 'other'") == "ENABLED"
	})
	a.kill()
	p.order("/promise", mysqlmember.Request{Order: mysqlmember.Order{Epoch: 3, Revision: 4}})
	p.leads(3, 5, 0)
	p.until("the events have their status", func(mysqlmember.Answer) bool {
		return p.eventsOf() == "Each:DISABLED off:ENABLED other:ENABLED past:DISABLED ü e:ENABLED"
	})
	p.until("the statuses are recorded", func(mysqlmember.Answer) bool {
		return p.ask("SELECT COUNT(*) FROM d3os_member.events WHERE server = @@GLOBAL.server_uuid") == "5"
	})
	assert.Equal(t, p.ask("SELECT @@GLOBAL.event_scheduler"), "OFF")
}
