// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package test

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
)

// One row of a large table is changed or added, at any place. Compare finds it, although several connections read parts
// of the table.
func TestCompare(t *testing.T) {
	rig.Long(t)
	for _, flavour := range both {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			one, other := start(t, flavour), start(t, flavour)
			for _, s := range []*rig.Server{one, other} {
				fill(s, 40)
				s.Exec("ANALYZE TABLE big.items")
			}
			opens := func(s *rig.Server) restore.Open {
				return func() (*server.Conn, error) { return server.Connect(t.Context(), s.Options()) }
			}
			differs := func(want string) {
				t.Helper()
				d, err := restore.Compare(opens(one), opens(other))
				assert.NilError(t, err)
				assert.Equal(t, d.IsNone(), want == "", "%s", d)
				assert.Assert(t, strings.Contains(d.String(), want), "%s", d)
			}
			one.Exec("UPDATE big.items SET at = '2026-01-01'")
			other.Exec("UPDATE big.items SET at = '2026-01-01'")
			differs("")
			last := one.Ask("SELECT MAX(id) FROM big.items")
			for _, id := range []string{"1", "10000", last} {
				other.Exec("UPDATE big.items SET amount = amount + 1 WHERE id = " + id)
				differs("`big`.`items`")
				other.Exec("UPDATE big.items SET amount = amount - 1 WHERE id = " + id)
			}
			other.Exec("INSERT INTO big.items (id, at) VALUES (-5, NULL)")
			differs("`big`.`items`")
			other.Exec("DELETE FROM big.items WHERE id = -5")
			differs("")
		})
	}
}
