// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

// CheckTLS names the fault of a certificate that other members would refuse: it is missing, expired or not yet valid.
func TestCheckTLS(t *testing.T) {
	t.Parallel()
	authority, folder := rig.NewAuthority(t), t.TempDir()
	assert.ErrorContains(t, CheckTLS(folder, time.Now()), "read the certificate in "+folder)
	authority.Write(t, folder, "db-0")
	assert.NilError(t, CheckTLS(folder, time.Now()))
	assert.ErrorContains(t, CheckTLS(folder, time.Now().Add(24*time.Hour)), "is not valid at this time")
	assert.ErrorContains(t, CheckTLS(folder, time.Now().Add(-24*time.Hour)), "is not valid at this time")
	authority.Expired().Write(t, folder, "db-0")
	assert.ErrorContains(t, CheckTLS(folder, time.Now()), "is not valid at this time")
}

// While neither a voter nor the operator reaches a primary, the primary writes rows to prove that a voter follows it.
// It begins before it would be killed. In no other case does it write such rows.
func TestMustProve(t *testing.T) {
	t.Parallel()
	primary := mysqlmember.State{Role: mysqlmember.RolePrimary, Demands: 1}
	waiting, alone := primary, primary
	waiting.Waiting, alone.Demands = 1, 0
	for name, c := range map[string]struct {
		s               mysqlmember.State
		voter, operator time.Duration
		want            bool
	}{
		"all is well":   {primary, time.Second, time.Second, false},
		"no voter":      {primary, time.Minute, time.Second, false},
		"no operator":   {primary, time.Second, time.Minute, false},
		"neither":       {primary, 6 * time.Second, 6 * time.Second, true},
		"commits wait":  {waiting, 6 * time.Second, 6 * time.Second, false},
		"no demands":    {alone, time.Minute, time.Minute, false},
		"not a primary": {mysqlmember.State{Role: mysqlmember.RoleReplica, Demands: 1}, time.Minute, time.Minute, false},
	} {
		since := Silence{Voter: c.voter, Operator: c.operator}
		assert.Equal(t, MustProve(c.s, since), c.want, name)
		assert.Assert(t, !c.want || MustKill(c.s, since) == "", name)
	}
}
