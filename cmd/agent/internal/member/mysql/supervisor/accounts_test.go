// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build mysql

package supervisor

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

// A real primary gets the declared databases and passwords without a restart. The agent writes nothing if everything exists. While no
// voter is connected, the agent makes no change that would wait for an acknowledgement.
func TestAccounts(t *testing.T) {
	t.Parallel()
	all := pods(t, 2)
	p, voter := all[0], all[1]
	user, password := filepath.Join(p.Secrets, "username"), filepath.Join(p.Secrets, "password")
	p.declare(user, "shop")
	p.declare(password, `a'b\c"`)
	p.declare(p.Databases, "shop_1\nreports")
	reporter := filepath.Join(p.Secrets, "reporter")
	p.declare(reporter, "one")
	p.declare(p.Users, "reporter reports later_1")
	first(p)
	can := func(name, password, statement string) error {
		c, err := server.Connect(t.Context(), server.Options{Address: p.Hosts[0] + ":3306", User: name, Password: password})
		if err != nil {
			return err
		}
		defer c.Close()
		return c.Do(statement)
	}
	until := func(what string, is func() error) {
		t.Helper()
		var err error
		p.until(what, func(mysqlmember.Answer) bool { err = is(); return err == nil })
	}
	until("clients write", func() error { return can("shop", `a'b\c"`, "CREATE TABLE shop_1.t (id INT PRIMARY KEY)") })
	until("clients write to the other database", func() error { return can("shop", `a'b\c"`, "CREATE TABLE reports.t (id INT PRIMARY KEY)") })
	for _, statement := range []string{"CREATE DATABASE other", "CREATE TABLE d.u (id INT PRIMARY KEY)", "CREATE USER x"} {
		assert.ErrorContains(t, can("shop", `a'b\c"`, statement), "denied")
	}
	until("another account writes to its database", func() error { return can("reporter", "one", "CREATE TABLE reports.r (id INT PRIMARY KEY)") })
	assert.ErrorContains(t, can("reporter", "one", "CREATE TABLE shop_1.r (id INT PRIMARY KEY)"), "denied")
	p.declare(reporter, "two")
	until("the new password of the other account is used", func() error { return can("reporter", "two", "SELECT 1") })
	p.declare(password, "second")
	until("the new password is used", func() error { return can("shop", "second", "SELECT 1") })
	assert.ErrorContains(t, can("shop", `a'b\c"`, "SELECT 1"), "denied")

	// After a restart, no statement is missing.
	before := p.look().State.Executed
	p.kill()
	p.up()
	p.reads()
	p.leads(1, 2, 0)
	voter.up()
	voter.joins(2, p)
	p.order("/serve", mysqlmember.Request{Order: mysqlmember.Order{Epoch: 1, Revision: 3}, Demands: 1})
	p.declare(filepath.Join(p.Secrets, "root-password"), "another")
	waits := p.until("the password of root waits for a voter", func(a mysqlmember.Answer) bool { return strings.Contains(a.Problem, "until a voter is connected") })
	assert.Equal(t, waits.State.Executed, before)
	assert.Equal(t, waits.State.Waiting, 0)
	voter.order("/follow", mysqlmember.Request{Order: mysqlmember.Order{Epoch: 1, Revision: 3}, Source: p.source(), Acknowledge: true})
	until("root has the password", func() error {
		c, err := server.Connect(t.Context(), server.Options{Address: filepath.Join(p.Run, "mysqld.sock"), User: "root", Password: "another"})
		if err == nil {
			c.Close()
		}
		return err
	})

	for _, refused := range []string{"d3os_agent", "root", "shop reports"} {
		p.declare(p.Users, refused)
		p.until("the account is refused: "+refused, func(a mysqlmember.Answer) bool {
			return strings.Contains(a.Problem, "the account "+strconv.Quote(strings.Fields(refused)[0])+" is refused")
		})
	}
	p.declare(p.Users, "visitor")
	p.until("an account without a password is named", func(a mysqlmember.Answer) bool { return strings.Contains(a.Problem, "read the secret visitor") })
	p.declare(p.Users, "")
	assert.NilError(t, can("reporter", "two", "INSERT INTO reports.r VALUES (1)")) // nothing was dropped
	p.declare(user, "d3os_agent")
	p.until("the operator's own account is refused", func(a mysqlmember.Answer) bool { return strings.Contains(a.Problem, "is refused") })
	p.declare(user, "shop")
	p.declare(p.Databases, "a`b")
	p.until("a name is refused", func(a mysqlmember.Answer) bool { return strings.Contains(a.Problem, "is no name") })
	p.declare(p.Databases, "more")
	until("the database is there", func() error { return can("shop", "second", "CREATE TABLE more.t (id INT PRIMARY KEY)") })
	assert.Equal(t, p.look().Problem, "")

	// A voter that hangs is connected, but acknowledges nothing.
	start := p.look().Instance
	voter.signal(syscall.SIGSTOP)
	p.declare(password, "third")
	p.until("the server is killed", func(a mysqlmember.Answer) bool { return a.Instance != start && a.State != nil })
	assert.Assert(t, strings.Contains(p.logged(), "a change of accounts waits for an acknowledgement"))
	voter.signal(syscall.SIGCONT)
}

// A change of accounts that waits for an acknowledgement blocks all logins: logins of the agent, of the operator's orders and of returning
// voters. The operator reaches the agent, but no voter is left. The server is killed, so that the operator can continue.
func TestLoginsThatWait(t *testing.T) {
	inFullForm(t)
	t.Parallel()
	all := pods(t, 2)
	p, voter := all[0], all[1]
	first(p)
	voter.up()
	voter.joins(1, p)
	voter.order("/follow", mysqlmember.Request{Order: mysqlmember.Order{Epoch: 1, Revision: 2}, Source: p.source(), Acknowledge: true})
	p.order("/serve", mysqlmember.Request{Order: mysqlmember.Order{Epoch: 1, Revision: 2}, Demands: 1})
	start := p.until("the voter acknowledges", func(mysqlmember.Answer) bool {
		a := voter.look()
		return a.State != nil && a.State.Connected && a.State.Acknowledges
	}).Instance
	c, err := p.session()
	assert.NilError(t, err)
	defer c.Close()
	voter.kill()
	result := make(chan error, 1)
	go func() { result <- c.Do("CREATE USER waiting") }()
	go func() {
		for t.Context().Err() == nil {
			_, _ = p.send(p.operator, http.MethodGet, "/ping", nil) // the operator reaches the agent
			time.Sleep(time.Second)                                 // between two pings
		}
	}()
	p.until("the server is killed, and only reads", func(a mysqlmember.Answer) bool {
		return a.Instance != start && a.State != nil && !a.State.Writable
	})
	if err := <-result; err == nil {
		t.Error("the statement has the answer OK")
	}
	assert.Assert(t, strings.Contains(p.logged(), "killing the server: the primary has not answered its agent"), p.logged())
	p.leads(1, 3, 1)
}

// signal sends a signal to the server of a member.
func (p *pod) signal(s syscall.Signal) {
	p.t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.cmd.Process.Pid))
	assert.NilError(p.t, err)
	sent := 0
	for _, task := range tasks {
		children, err := os.ReadFile(task)
		assert.NilError(p.t, err)
		for _, child := range strings.Fields(string(children)) {
			pid, err := strconv.Atoi(child)
			assert.NilError(p.t, errors.Join(err, syscall.Kill(pid, s)))
			sent++
		}
	}
	assert.Equal(p.t, sent, 1)
}
