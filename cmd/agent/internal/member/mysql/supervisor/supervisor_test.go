// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build mysql

package supervisor

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/member/mysql/volume"
	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

// Real servers and agents run a database of three members: it is created, fails over, and gets the old primary back as a follower.
func TestLife(t *testing.T) {
	t.Parallel()
	all := pods(t, 3)
	p, a, b := all[0], all[1], all[2]
	begun := first(p)
	a.up()
	b.up()
	a.joins(1, p)
	b.joins(1, p)
	assert.Equal(t, a.rows(), "1 2 3")
	for _, m := range []*pod{a, b} {
		if s := m.reads(); s.Server == begun.Server || s.State.Role != "" {
			t.Errorf("the member with the copy reports %+v, %+v", s, s.State)
		}
		m.order("/follow", mysqlmember.Request{Order: mysqlmember.Order{Epoch: 1, Revision: 2}, Source: p.source(), Acknowledge: true})
	}
	p.order("/serve", mysqlmember.Request{Order: mysqlmember.Order{Epoch: 1, Revision: 2}, Demands: 1})
	p.exec("INSERT INTO d.t VALUES (4)")

	// A user persists variables of a primary. The agent is killed while a commit waits, and the server ends with the agent.
	p.exec("SET PERSIST_ONLY super_read_only = OFF", "SET PERSIST_ONLY read_only = OFF", "SET PERSIST_ONLY rpl_semi_sync_source_enabled = ON", "SET PERSIST_ONLY skip_replica_start = OFF")
	for _, m := range []*pod{a, b} {
		m.order("/promise", mysqlmember.Request{Order: mysqlmember.Order{Epoch: 2, Revision: 2}})
	}
	c, err := p.session()
	assert.NilError(t, err)
	result := make(chan error, 1)
	go func() { result <- c.Do("INSERT INTO d.t VALUES (5)") }()
	p.until("a commit waits", func(a mysqlmember.Answer) bool { return a.State != nil && a.State.Waiting == 1 })
	p.kill()
	if err := <-result; err == nil {
		t.Error("the client got OK for a commit without an acknowledgement")
	}
	c.Close()
	rig.Until(t, "the server ends with its agent", func() bool { return !p.serves() })

	a.leads(2, 3, 1)
	b.order("/follow", mysqlmember.Request{Order: mysqlmember.Order{Epoch: 2, Revision: 3}, Source: a.source(), Acknowledge: true})
	a.order("/serve", mysqlmember.Request{Order: mysqlmember.Order{Epoch: 2, Revision: 3}, Demands: 1, CutOthers: []int{0}})
	a.exec("INSERT INTO d.t VALUES (6)")
	served := time.Now()

	// The old primary starts again with its used ticket. It is read-only, and has surplus transactions.
	p.up()
	if s := p.reads(); s.State.Role != "" || s.Ticket != "primary:1:1:0" || s.Server != begun.Server {
		t.Errorf("the old primary reports %+v, %+v", s, s.State)
	}
	assert.Equal(t, p.rows(), "1 2 3 4 5")
	p.joins(3, a)
	assert.Equal(t, p.rows(), "1 2 3 4 6")
	assert.Equal(t, len(p.aside()), 1)
	p.order("/follow", mysqlmember.Request{Order: mysqlmember.Order{Epoch: 2, Revision: 4}, Source: a.source()})

	watchdog(t, served, a, b)

	// On SIGTERM, the agent first stops its server and then ends.
	assert.NilError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	<-p.done
	assert.Equal(t, p.cmd.ProcessState.ExitCode(), 0)
	assert.Assert(t, strings.Contains(p.logged(), "stopping the server with terminated"))
}

// A member that was stopped lacks transactions that the primary's logs no longer contain. It cannot follow the primary. So it copies the
// data again and keeps its old data in another folder.
func TestPurgedLogs(t *testing.T) {
	inFullForm(t)
	t.Parallel()
	all := pods(t, 2)
	p, a := all[0], all[1]
	first(p)
	a.up()
	a.joins(1, p)
	a.kill()
	p.exec("INSERT INTO d.t VALUES (4)", "FLUSH BINARY LOGS", "PURGE BINARY LOGS BEFORE NOW() + INTERVAL 1 DAY", "INSERT INTO d.t VALUES (5)")
	had := p.look().State
	assert.Assert(t, had.Purged != "" && had.Purged != had.Executed, "%+v", had)

	a.up()
	a.reads()
	a.order("/follow", mysqlmember.Request{Order: mysqlmember.Order{Epoch: 1, Revision: 2}, Source: p.source()})
	p.order("/serve", mysqlmember.Request{Order: mysqlmember.Order{Epoch: 1, Revision: 2}})
	s := a.until("its receiver ends", func(s mysqlmember.Answer) bool {
		return s.State != nil && s.State.Role == "" && strings.Contains(s.State.Problem, "purged")
	})
	assert.Equal(t, a.rows(), "1 2 3", "%+v", s.State)
	a.joins(2, p)
	assert.Equal(t, a.rows(), "1 2 3 4 5")
	assert.Equal(t, len(a.aside()), 1)
	a.order("/follow", mysqlmember.Request{Order: mysqlmember.Order{Epoch: 1, Revision: 3}, Source: p.source()})
	a.until("it follows", func(s mysqlmember.Answer) bool { return s.State != nil && s.State.Connected })
}

// watchdog checks that the agent kills a primary that semi-sync does not protect, that neither a voter nor the operator reaches, or whose
// ticket is fence. The server then starts read-only.
func watchdog(t *testing.T, served time.Time, a, voter *pod) {
	t.Helper()
	start := a.look().Instance
	killed := func(why string) {
		t.Helper()
		start = a.until("the server is killed: "+why, func(s mysqlmember.Answer) bool {
			return s.Instance != start && s.State != nil && s.State.Role == "" && !s.State.Writable
		}).Instance
		assert.Assert(t, strings.Contains(a.logged(), "killing the server: "+why))
	}
	// Without requests of the operator, the voter's pings alone keep the primary alive beyond the limit.
	a.until("twelve seconds pass", func(mysqlmember.Answer) bool { return time.Since(served) > 12*time.Second })
	if s := a.look(); s.Instance != start || s.State == nil || s.State.Role != mysqlmember.RolePrimary {
		t.Errorf("the primary reports %+v, %+v", s, s.State)
	}
	a.exec("SET GLOBAL rpl_semi_sync_source_enabled = OFF")
	killed("the primary is not protected by semi-sync")

	a.leads(2, 5, 1)
	voter.kill()
	killed("neither a voter nor the operator has reached the primary")

	a.leads(2, 6, 1)
	a.give("fence")
	killed("the ticket is fence")
}

func (p *pod) logged() string {
	text, err := os.ReadFile(p.log)
	assert.NilError(p.t, err)
	return string(text)
}

// The agent, the copying server and the donor are killed at each step of a copy. The member uses its old data until the copy is complete.
// Afterwards it keeps the old data in another folder.
func TestKilledWhileCopying(t *testing.T) {
	inFullForm(t)
	t.Parallel()
	all := pods(t, 2)
	donor, m := all[0], all[1]
	first(donor)
	m.up()
	old := m.joins(1, donor)
	m.kill()
	donor.exec("INSERT INTO d.t VALUES (4)")
	ticket := fmt.Sprintf("join:2:0:%s", donor.look().Server)
	m.give(ticket)
	former := func(when string) {
		t.Helper()
		c, err := m.volume().Look()
		assert.NilError(t, err, when)
		if c.Kind != volume.Own || c.Notes.Server != old.Server || c.Notes.Ticket != old.Ticket || len(m.aside()) != 0 {
			t.Errorf("%s: the volume has %+v, before the copy it had %+v; folders with old data: %v", when, c, old.Report, m.aside())
		}
	}
	for _, point := range []string{"initialized#1", "copying", "cloned#1", "checked#1"} {
		m.Point, m.Kill = point, "agent"
		m.up()
		<-m.done
		former("the agent was killed: " + point)
		assert.Equal(t, m.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal(), syscall.SIGKILL, point)
	}
	for _, point := range []string{"copying", "helper answers#2"} {
		m.Point, m.Kill = point, "server"
		m.up()
		m.until("the copy broke off: "+point, func(a mysqlmember.Answer) bool { return strings.Contains(a.Problem, ticket) })
		former("the server was killed: " + point)
		m.kill()
	}
	m.Point, m.Kill = "replaced#1", "agent"
	donorDies(t, donor, m, former)

	m.up()
	<-m.done
	m.Point = ""
	m.up()
	s := m.reads()
	if s.Ticket != ticket || s.Server == old.Server || s.Revision != 2 || len(m.aside()) != 1 {
		t.Errorf("the member with the copy reports %+v; folders with old data: %v", s, m.aside())
	}
	assert.Equal(t, m.rows(), "1 2 3 4")
}

// donorDies kills the donor during a copy. The member copies the donor again only after the donor has become the primary again.
func donorDies(t *testing.T, donor, m *pod, former func(string)) {
	t.Helper()
	m.up()
	rig.Until(t, "a copy begins", func() bool {
		_, err := os.Stat(m.volume().New() + "/ibdata1")
		return err == nil
	})
	donor.kill()
	m.until("the copy broke off", func(a mysqlmember.Answer) bool { return strings.Contains(a.Problem, "copy the data of member 0") })
	former("the donor was killed")
	donor.up()
	donor.reads()
	m.until("the donor is no primary", func(a mysqlmember.Answer) bool { return strings.Contains(a.Problem, "read-only: 1") })
	former("the donor is no primary")
	m.kill()
	donor.leads(1, 2, 0)
}
