// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

// An error counts as damage only if the applier can never continue. If the relay log was renewed already, damage of the
// log counts as damage of the data.
func TestDamage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		running, code string
		renewed       bool
		want          mysqlmember.Damage
	}{
		{"Yes", "0", false, ""}, {"No", "0", false, ""}, {"No", "1114", false, ""}, {"No", "1205", false, ""},
		{"No", "13121", false, mysqlmember.DamageLog}, {"No", "1594", false, mysqlmember.DamageLog}, {"No", "13121", true, mysqlmember.DamageData},
		{"No", "1032", false, mysqlmember.DamageData}, {"No", "1146", true, mysqlmember.DamageData}, {"Yes", "1032", false, ""},
	} {
		m := &Member{renewed: c.renewed}
		assert.Equal(t, m.damage(map[string]string{"Replica_SQL_Running": c.running, "Last_SQL_Errno": c.code}), c.want, "%+v", c)
	}
	assert.Equal(t, (&Member{}).damage(nil), mysqlmember.Damage(""))
}

// A member drops a damaged relay log, and receives again the transactions that it has not applied. It keeps a relay log that it can read.
func TestTornRelayLog(t *testing.T) {
	t.Parallel()
	p, a, b := cluster(t)
	ctx, o := t.Context(), mysqlmember.Order{Epoch: 1, Revision: 2}
	refused(t, a.Renew(ctx, mysqlmember.Order{Epoch: 1, Revision: 1}, p.source()))
	refused(t, p.Renew(ctx, mysqlmember.Order{Epoch: 1, Revision: 1}, b.source()))
	_, result := p.insert(t, 1)
	assert.NilError(t, <-result)
	until(t, "a has the row", func() bool { return a.rows() == "1" })
	a.s.Exec("STOP REPLICA SQL_THREAD")
	for id := range 20 {
		_, result := p.insert(t, id+2)
		assert.NilError(t, <-result)
	}
	until(t, "a has the log", func() bool { s := p.state(t); return !a.state(t).ReadTo.Before(s.End) })
	received := a.state(t).Received
	logs, err := filepath.Glob(filepath.Join(a.s.Data, "relay.0*"))
	assert.NilError(t, err)
	name, size := "", int64(0)
	for _, log := range logs {
		info, err := os.Stat(log)
		assert.NilError(t, err)
		if info.Size() > size {
			name, size = log, info.Size()
		}
	}
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	assert.NilError(t, err)
	_, err = file.WriteAt(make([]byte, 200), size/2)
	assert.NilError(t, errors.Join(err, file.Close()))
	a.s.Exec("START REPLICA SQL_THREAD")
	until(t, "the relay log is read", func() bool { return a.state(t).Problem != "" })
	t.Logf("%+v; %s", a.state(t), a.s.Ask("SELECT LAST_ERROR_NUMBER FROM performance_schema.replication_applier_status_by_coordinator"))
	until(t, "the damage is known", func() bool { return a.state(t).Damage == mysqlmember.DamageLog })
	until(t, "it drops the relay log", func() bool { return a.Renew(ctx, o, p.source()) == nil })
	until(t, "it has all rows", func() bool { return a.rows() == p.rows() && a.state(t).Damage == "" })
	assert.Equal(t, p.s.Ask("SELECT GTID_SUBSET('"+received+"', '"+a.state(t).Executed+"')"), "1")
	refused(t, a.Renew(ctx, o, p.source()))
}
