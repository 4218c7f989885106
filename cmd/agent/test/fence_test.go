// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package test

import (
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/rig"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// fence runs agent fence.
func fence(t *testing.T, s *rig.Server, more ...string) contract.Result {
	t.Helper()
	cmd, out := agent(t, s.Flavour, nil, append([]string{"fence", "--server=" + s.Options().Address, "--user=" + rig.Account, "--report=", "--wait=2s"}, more...)...)
	_ = cmd.Run() // the result has the reason
	return result(t, out)
}

// A fenced server acknowledges no write of any account, and no write of a transaction that was open before the fence.
// The server of this test has no binary log. Its copy contains every write that was acknowledged before the fence.
func TestFence(t *testing.T) {
	t.Parallel()
	s := start(t, server.MySQL, "--skip-log-bin")
	s.Exec("GRANT ALL ON *.* TO " + rig.Account + "@'%'")
	r := fence(t, s)
	assert.DeepEqual(t, r.Fence, &contract.Fence{Server: r.Server})
	open, err := server.Connect(t.Context(), s.Root())
	assert.NilError(t, err)
	defer open.Close()
	assert.NilError(t, open.Do("BEGIN"))
	assert.NilError(t, open.Do("INSERT INTO shop.items VALUES (1000001, 1)"))
	load := s.Write(8, 4, time.Millisecond)
	rig.Until(t, "100 transactions", func() bool { return len(load.Acks()) >= 100 })

	locked, err := server.Connect(t.Context(), s.Root())
	assert.NilError(t, err)
	defer locked.Close()
	assert.NilError(t, locked.Do("LOCK TABLES shop.empty WRITE"))
	r = fence(t, s, "--close")
	assert.Equal(t, r.Reason, contract.ReasonLockWait, r.Message)
	assert.NilError(t, locked.Do("UNLOCK TABLES"))

	r = fence(t, s, "--close")
	assert.Assert(t, r.OK && r.Fence.SuperReadOnly, r.Message)
	fenced := len(load.Acks())
	assert.ErrorContains(t, open.Do("COMMIT"), "super-read-only")
	_, err = s.Try("INSERT INTO shop.items VALUES (1000002, 1)")
	assert.ErrorContains(t, err, "super-read-only")
	assert.Assert(t, fence(t, s, "--close").OK)
	i := newImport(t, s)
	i.start()
	i.reaches(contract.ImportWaiting)
	acks := load.Stop()
	assert.Assert(t, len(acks) <= fenced+1, "%d writes were acknowledged, %d of them before the end of the fence's command", len(acks), fenced) // one answer may still be in transit
	got, err := rig.Read(t.Context(), i.equal().Root())
	assert.NilError(t, err)
	assert.Equal(t, lostOf(got, acks, time.Now()), 0)

	r = fence(t, s, "--open")
	assert.Assert(t, r.OK && !r.Fence.SuperReadOnly && !r.Fence.ReadOnly, r.Message)
	s.Exec("INSERT INTO shop.items VALUES (1000003, 1)")
	s.Exec("XA START 'open'", "INSERT INTO shop.items VALUES (1000004, 1)", "XA END 'open'", "XA PREPARE 'open'")
	r = fence(t, s, "--close")
	assert.Equal(t, r.Reason, contract.ReasonBusy, r.Message)
	s.Exec("XA ROLLBACK 'open'")
	t.Log("MySQL lets an XA transaction that was begun before the fence be prepared and committed after it")
	assert.NilError(t, open.Do("XA START 'later'"))
	assert.NilError(t, open.Do("INSERT INTO shop.items VALUES (1000005, 1)"))
	r = fence(t, s, "--close")
	assert.Equal(t, r.Reason, contract.ReasonBusy, r.Message)
	s.Exec("INSERT INTO shop.items VALUES (1000006, 1)") // succeeds, because the server was not changed
	assert.NilError(t, open.Do("XA END 'later'"))
	assert.NilError(t, open.Do("XA PREPARE 'later'"))
	s.Exec("SET GLOBAL super_read_only = ON") // set by a user, or by a killed fence --close
	r = fence(t, s, "--close")
	assert.Equal(t, r.Reason, contract.ReasonBusy, r.Message)
	assert.NilError(t, open.Do("XA COMMIT 'later'"))
	assert.Assert(t, fence(t, s, "--close").OK)
	assert.Equal(t, fence(t, s, "--close", "--open").Reason, contract.ReasonUsage)
}

// Servers that cannot be fenced are refused and not changed. The message states the cause.
func TestFenceIsRefused(t *testing.T) {
	t.Parallel()
	t.Run("MariaDB", func(t *testing.T) {
		t.Parallel()
		s := start(t, server.MariaDB)
		r := fence(t, s, "--close")
		assert.Equal(t, r.Reason, contract.ReasonRefused, r.Message)
		assert.Assert(t, strings.Contains(r.Message, "copy its data by hand"), r.Message)
		s.Exec("INSERT INTO shop.items VALUES (1000001, 1)")
	})
	t.Run("a replica", func(t *testing.T) {
		t.Parallel()
		s := start(t, server.MySQL, "--server-id=77")
		s.Exec("GRANT ALL ON *.* TO "+rig.Account+"@'%'", "CHANGE REPLICATION SOURCE TO SOURCE_HOST='192.0.2.1'")
		r := fence(t, s, "--close")
		assert.Equal(t, r.Reason, contract.ReasonRefused, r.Message)
	})
}
