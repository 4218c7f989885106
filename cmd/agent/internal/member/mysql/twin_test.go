// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

// The old server of a member still runs after its pod and claim were deleted by force. It has the name and the account
// of the new member. If all members share a password, the old server acknowledges a transaction that no voter has. If
// each server has its own password, the old server cannot log in.
func TestTwin(t *testing.T) {
	t.Parallel()
	for name, isPersonal := range map[string]bool{"the password of all": false, "a password of each server": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := nodes(t, 4)
			p, former, b, again := all[0], all[1], all[2], all[3]
			again.Ordinal = former.Ordinal
			source := p.source()
			source.Personal = isPersonal
			servers := func(one *node) map[int]string {
				if !isPersonal {
					return nil
				}
				return map[int]string{1: one.state(t).Server, 2: b.state(t).Server}
			}
			o := mysqlmember.Order{Epoch: 1, Revision: 1}
			p.s.Exec("SET GLOBAL password_history = 3", "SET GLOBAL password_reuse_interval = 3")
			assert.NilError(t, p.promote(t.Context(), o, 1))
			for _, n := range []*node{former, b} {
				assert.NilError(t, n.Follow(t.Context(), o, source, true))
			}
			assert.NilError(t, p.Serve(t.Context(), o, 1, nil, nil, servers(former)))
			connected := func(n *node) func() bool { return func() bool { return n.state(t).Connected } }
			until(t, "both follow", func() bool { return connected(former)() && connected(b)() })
			p.s.Exec("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")

			o.Revision = 2
			assert.NilError(t, p.Serve(t.Context(), o, 1, nil, []int{1}, servers(former)))
			until(t, "the former server is cut off", func() bool { return !connected(former)() })
			assert.NilError(t, again.Follow(t.Context(), o, source, true))
			assert.NilError(t, p.Serve(t.Context(), o, 1, nil, nil, servers(again)))
			until(t, "the new server follows", connected(again))
			p.admitted = nil // as after a start
			assert.NilError(t, p.Serve(t.Context(), o, 1, nil, nil, servers(again)))
			until(t, "it follows again", connected(again))
			assert.DeepEqual(t, len(p.state(t).Servers), len(servers(again)))
			if isPersonal {
				until(t, "the former server is refused", func() bool {
					return former.s.Ask("SELECT LAST_ERROR_NUMBER FROM performance_schema.replication_connection_status") == "1045"
				})
			} else {
				until(t, "the former server is let in", connected(former))
			}

			assert.NilError(t, again.Promise(t.Context(), 2))
			assert.NilError(t, b.Promise(t.Context(), 2))
			_, result := p.insert(t, 1)
			if isPersonal {
				p.waits(t, 1)
				none(t, result)
				return
			}
			assert.NilError(t, <-result) // acknowledged, but neither voter has the transaction
			assert.Equal(t, again.rows()+b.rows(), "")
		})
	}
}
