// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

func TestParseTicket(t *testing.T) {
	t.Parallel()
	const uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
	for text, want := range map[string]Ticket{
		"":                 {},
		"none":             {},
		"seed\n":           {Text: "seed", Verb: Seed},
		"fence":            {Text: "fence", Verb: Fence},
		"primary:4:9:0":    {Text: "primary:4:9:0", Verb: Primary, Order: mysqlmember.Order{Epoch: 4, Revision: 9}},
		"primary:4:9:2":    {Text: "primary:4:9:2", Verb: Primary, Order: mysqlmember.Order{Epoch: 4, Revision: 9}, Demands: 2},
		"join:9:0:" + uuid: {Text: "join:9:0:" + uuid, Verb: Join, Order: mysqlmember.Order{Revision: 9}, Server: uuid},
	} {
		got, err := ParseTicket(text)
		assert.NilError(t, err, text)
		assert.DeepEqual(t, got, want)
	}
	for _, text := range []string{"primary", "primary:4", "primary:4:9", "primary:0:9:1", "primary:4:0:1", "primary:4:9:-1", "primary:4:9:+1", "primary:4:9:1:1", "primary:99999999999:9:1",
		"join:9:0:", "join:9:0:x", "join:9:-1:" + uuid, "join:0:1:" + uuid, "seed:1", "fence:1", "Seed", "force:1"} {
		_, err := ParseTicket(text)
		assert.ErrorContains(t, err, "read the ticket", text)
	}
}

func TestMustKill(t *testing.T) {
	t.Parallel()
	primary := mysqlmember.State{Role: mysqlmember.RolePrimary, Demands: 1}
	for name, c := range map[string]struct {
		s               mysqlmember.State
		voter, operator time.Duration
		kill            bool
		agent           time.Duration
	}{
		"all is well":                 {primary, time.Second, time.Second, false, 0},
		"no voter":                    {primary, time.Hour, time.Second, false, 0},
		"no operator":                 {primary, time.Second, time.Hour, false, 0},
		"neither":                     {primary, 11 * time.Second, 11 * time.Second, true, 0},
		"neither, not long enough":    {primary, 11 * time.Second, 9 * time.Second, false, 0},
		"neither, no demands":         {mysqlmember.State{Role: mysqlmember.RolePrimary}, time.Hour, time.Hour, false, 0},
		"neither, a replica":          {mysqlmember.State{Role: mysqlmember.RoleReplica}, time.Hour, time.Hour, false, 0},
		"semi-sync is off":            {mysqlmember.State{Role: mysqlmember.RolePrimary, Demands: 1, Unprotected: true}, 0, 0, true, 0},
		"no answer":                   {primary, 0, 0, true, 21 * time.Second},
		"no answer, not long enough":  {primary, 0, 0, false, 19 * time.Second},
		"no answer, no demands":       {mysqlmember.State{Role: mysqlmember.RolePrimary}, 0, 0, false, time.Hour},
		"no answer, a replica":        {mysqlmember.State{Role: mysqlmember.RoleReplica}, 0, 0, false, time.Hour},
		"a promotion failed half-way": {mysqlmember.State{Unprotected: true}, 0, 0, true, 0},
	} {
		if why := MustKill(c.s, Silence{c.voter, c.operator, c.agent}); (why != "") != c.kill {
			t.Errorf("%s: %q", name, why)
		}
	}
}
