// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/member/mysql/volume"
	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

func TestMain(m *testing.M) { rig.Main(m) }

// node is a member with a real server.
type node struct {
	*Member
	s *rig.Server
}

// nodes starts members with the same data.
func nodes(t *testing.T, n int) []*node {
	t.Helper()
	var all []*node
	for i := range n {
		s := rig.Start(t, server.MySQL, append(Arguments(i), "--super-read-only=OFF", "--innodb-buffer-pool-size=16M", "--innodb-redo-log-capacity=8M",
			"--performance-schema-max-table-instances=200", "--max-connections=60")...)
		m := &node{&Member{Root: s.Root(), Volume: &volume.Volume{Root: t.TempDir(), Data: "mysql", Pod: fmt.Sprint("data/mysql-", i)}, Ordinal: i, Members: 3, Password: rig.Password}, s}
		assert.NilError(t, m.CreateAccounts(t.Context()))
		s.Exec("RESET BINARY LOGS AND GTIDS", "SET GLOBAL super_read_only = ON")
		all = append(all, m)
	}
	return all
}

// again restarts a member's server read-only, as the agent starts it.
func (n *node) again() {
	n.s.More = append(n.s.More, "--super-read-only=ON")
	n.s.Up()
	n.Member = &Member{Root: n.Root, Volume: n.Volume, Ordinal: n.Ordinal, Members: n.Members, Password: n.Password}
}

// promote promotes a member with an unused ticket.
func (n *node) promote(ctx context.Context, o mysqlmember.Order, demands int) error {
	return n.Promote(ctx, Ticket{Order: o, Demands: demands})
}

func (n *node) source() mysqlmember.Source {
	return mysqlmember.Source{Ordinal: n.Ordinal, Host: "127.0.0.1", Port: n.s.Port}
}

func (n *node) state(t *testing.T) mysqlmember.State {
	t.Helper()
	s, err := n.State(t.Context())
	assert.NilError(t, err)
	return s
}

// cluster makes the first of three members the primary of epoch 1. The others are voters.
func cluster(t *testing.T) (primary, a, b *node) {
	t.Helper()
	all := nodes(t, 3)
	primary, a, b = all[0], all[1], all[2]
	ctx, o := t.Context(), mysqlmember.Order{Epoch: 1, Revision: 1}
	assert.NilError(t, primary.promote(ctx, o, 1))
	assert.NilError(t, primary.Serve(ctx, o, 1, nil, nil, nil))
	assert.NilError(t, a.Follow(ctx, o, primary.source(), true))
	assert.NilError(t, b.Follow(ctx, o, primary.source(), true))
	until(t, "both acknowledge", func() bool {
		return primary.s.Ask("SHOW STATUS LIKE 'Rpl_semi_sync_source_clients'") == "Rpl_semi_sync_source_clients|2"
	})
	primary.s.Exec("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
	return primary, a, b
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	rig.Until(t, what, is)
}

// insert writes a row in a new session. result receives the error, nil for success.
func (n *node) insert(t *testing.T, id int) (session string, result chan error) {
	t.Helper()
	c, err := server.Connect(t.Context(), n.Root)
	assert.NilError(t, err)
	session, err = c.Value("SELECT CONNECTION_ID()")
	assert.NilError(t, err)
	result = make(chan error, 1)
	go func() {
		defer c.Close()
		result <- c.Do(fmt.Sprintf("INSERT INTO d.t VALUES (%d)", id))
	}()
	return session, result
}

// waits blocks until this number of sessions wait for an acknowledgement.
func (n *node) waits(t *testing.T, sessions int) {
	t.Helper()
	until(t, "sessions wait", func() bool { return n.state(t).Waiting == sessions })
}

func (n *node) rows() string {
	return strings.ReplaceAll(n.s.Ask("SELECT id FROM d.t ORDER BY id"), "\n", " ")
}

// none fails the test if the client of a commit gets an answer within 300 ms. On a busy machine it may miss an answer.
func none(t *testing.T, result chan error) {
	t.Helper()
	select {
	case err := <-result:
		t.Fatalf("the commit was answered: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
}
