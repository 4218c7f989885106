// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

// Another server answers at the source's address. Then the member does not count as following its source, and its state
// names the other server. An order to follow the source makes the receiver connect again. If the order names the other
// server, the receiver keeps its connection.
func TestOtherServerAtTheAddress(t *testing.T) {
	t.Parallel()
	all := nodes(t, 2)
	p, a := all[0], all[1]
	lead := func(o mysqlmember.Order) string {
		assert.NilError(t, p.promote(t.Context(), o, 0))
		assert.NilError(t, p.Serve(t.Context(), o, 0, nil, nil, nil))
		return p.state(t).Server
	}
	follows := func(server string) {
		until(t, "it is connected", func() bool { return a.state(t).SourceServer == server })
	}
	receiver := func() string {
		return a.s.Ask("SELECT MAX(PROCESSLIST_ID) FROM performance_schema.threads WHERE NAME = 'thread/sql/replica_io'")
	}
	o, from := mysqlmember.Order{Epoch: 1, Revision: 1}, p.source()
	from.Server = lead(o)
	assert.NilError(t, a.Follow(t.Context(), o, from, true))
	follows(from.Server)
	before := receiver()
	assert.NilError(t, a.Follow(t.Context(), o, from, true))
	assert.Equal(t, receiver(), before, "it connects again although it follows")

	p.s.Kill()
	assert.NilError(t, os.Remove(filepath.Join(p.s.Data, "auto.cnf"))) // after the next start, the server has another UUID
	p.again()
	o = mysqlmember.Order{Epoch: 1, Revision: 2}
	other := lead(o)
	follows(other)
	before = receiver()
	until(t, "the order is taken", func() bool { return a.Follow(t.Context(), o, from, true) == nil })
	assert.Assert(t, receiver() != before, "a connection to another server counts as following")

	from.Server = other
	follows(other)
	before = receiver()
	assert.NilError(t, a.Follow(t.Context(), o, from, true))
	assert.Equal(t, receiver(), before)
}
