// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build mysql

package supervisor

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/member/mysql/volume"
	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

const mark = "0123456789abcdef01234567"

// alone runs a server with the settings of a DataService's single server: without GTIDs, with a binary log, and with a password of root. It
// calls do with a session.
func (p *pod) alone(do func(c *server.Conn)) {
	p.t.Helper()
	folder := p.volume().Folder()
	lock, err := os.Create(filepath.Join(p.t.TempDir(), "lock"))
	assert.NilError(p.t, err)
	defer lock.Close()
	s := p.agent().Server
	secret := "root" + rig.Password
	if _, err := os.Stat(folder); errors.Is(err, os.ErrNotExist) {
		secret = ""
		assert.NilError(p.t, s.initialize(p.t.Context(), folder, lock))
	}
	one, err := s.start(p.t.Context(), 0, folder, "one.sock", lock, io.Discard, "--gtid-mode=OFF", "--enforce-gtid-consistency=OFF", "--super-read-only=OFF", "--skip-networking")
	assert.NilError(p.t, err)
	defer one.kill()
	ctx, cancel := context.WithTimeout(p.t.Context(), rig.Patience)
	defer cancel()
	c, err := one.connect(ctx, "root", secret)
	assert.NilError(p.t, err)
	do(c)
	c.Close()
	assert.NilError(p.t, one.stop(ctx))
}

// single creates the volume of a single server, with the rows 1 to 3 and a mark.
func (p *pod) single(more ...string) {
	p.t.Helper()
	p.alone(func(c *server.Conn) {
		for _, statement := range append([]string{
			"CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)", "INSERT INTO d.t VALUES (1), (2), (3)", "CREATE USER app IDENTIFIED BY 'secret'", "GRANT ALL ON d.* TO app",
			"ALTER USER root@localhost IDENTIFIED BY " + server.Literal("root"+rig.Password),
		}, more...) {
			assert.NilError(p.t, c.Do(statement))
		}
	})
	assert.NilError(p.t, os.WriteFile(filepath.Join(p.Root, volume.MarkFile), []byte(`{"format":2,"id":"`+mark+`","initialising":true}`), 0o600))
}

// The agent and its server are killed at each step of an adoption. Before the adoption is complete, the single server can start on the data
// with all rows. Afterwards the member has all rows, and another member can copy the data.
func TestKilledWhileAdopting(t *testing.T) {
	inFullForm(t)
	t.Parallel()
	all := pods(t, 2)
	m, other := all[0], all[1]
	m.single()
	waits := func(a mysqlmember.Answer) bool {
		return a.Volume == volume.Single && a.Mark == mark && strings.Contains(a.Problem, "ticket")
	}
	for _, wrong := range []string{"seed", "adopt:ffffffffffffffff", "join:1:1:11111111-71ca-11e1-9e33-c80aa9429562"} {
		m.give(wrong)
		m.up()
		m.until("it waits: "+wrong, waits)
		m.kill()
	}
	m.give("adopt:" + mark)
	for _, point := range []struct{ point, kill string }{{"looked#1", "agent"}, {"helper answers#1", "agent"}, {"helper answers#1", "server"}, {"accounts taken over#1", "agent"}} {
		m.Point, m.Kill = point.point, point.kill
		m.up()
		if point.kill == "agent" {
			<-m.done
		} else {
			m.until("the server was killed", func(a mysqlmember.Answer) bool { return strings.Contains(a.Problem, "adopt:") })
			m.kill()
		}
		c, err := m.volume().Look()
		assert.NilError(t, err)
		assert.DeepEqual(t, c, volume.Contents{Kind: volume.Single, Mark: mark})
		m.alone(func(c *server.Conn) {
			text, err := c.Value("SELECT GROUP_CONCAT(id ORDER BY id SEPARATOR ' ') FROM d.t")
			assert.NilError(t, err, point.point)
			assert.Equal(t, text, "1 2 3", point.point)
		})
	}
	m.Point = ""
	m.up()
	s := m.reads()
	assert.Equal(t, s.Ticket, "adopt:"+mark)
	assert.Equal(t, s.State.Executed, "")
	m.leads(1, 1, 0)
	assert.Equal(t, m.rows(), "1 2 3")
	m.exec("INSERT INTO d.t VALUES (4)")
	other.up()
	other.joins(1, m)
	assert.Equal(t, other.rows(), "1 2 3 4")
	other.order("/follow", mysqlmember.Request{Order: mysqlmember.Order{Epoch: 1, Revision: 2}, Source: m.source(), Acknowledge: true})
	m.order("/serve", mysqlmember.Request{Order: mysqlmember.Order{Epoch: 1, Revision: 2}, Demands: 1})
	m.exec("INSERT INTO d.t VALUES (5)")
	other.until("it follows", func(a mysqlmember.Answer) bool {
		return a.State != nil && a.State.Problem == "" && other.rows() == "1 2 3 4 5"
	})
	c, err := other.session()
	assert.NilError(t, err)
	defer c.Close()
	accounts, err := c.Value("SELECT GROUP_CONCAT(user ORDER BY user) FROM mysql.user WHERE user IN ('app', 'd3os_temporary', 'd3os_clone')")
	assert.NilError(t, err)
	assert.Equal(t, accounts, "app,d3os_clone")
}

// Data with a table whose rows a copy would lack is not adopted, whether the agent finds the table in the files or only on the server.
func TestNotAdopted(t *testing.T) {
	inFullForm(t)
	t.Parallel()
	m := pods(t, 1)[0]
	m.single("CREATE TABLE d.old (id INT) ENGINE = MyISAM", "CREATE TABLE d.`lo g` (id INT) ENGINE = MEMORY")
	m.give("adopt:" + mark)
	m.up()
	a := m.until("it is refused", func(a mysqlmember.Answer) bool { return strings.Contains(a.Problem, "InnoDB") })
	assert.Assert(t, strings.Contains(a.Problem, "d.old") && strings.Contains(a.Problem, "d.lo@0020g"), a.Problem)
	assert.Equal(t, a.Volume, volume.Single)
	m.kill()
	files, err := filepath.Glob(filepath.Join(m.volume().Folder(), "d", "*.sdi"))
	assert.NilError(t, err)
	for _, file := range files {
		assert.NilError(t, os.Rename(file, file+".away"))
	}
	m.up()
	a = m.until("it is refused", func(a mysqlmember.Answer) bool { return strings.Contains(a.Problem, "no transactions") })
	assert.Assert(t, strings.Contains(a.Problem, "d.old (MyISAM)"), a.Problem)
	assert.Equal(t, a.Volume, volume.Single)
}
