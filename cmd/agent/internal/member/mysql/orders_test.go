// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"os"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

func refused(t *testing.T, err error) {
	t.Helper()
	if contract.ReasonOf(err) != contract.ReasonRefused {
		t.Errorf("the order was not refused: %v", err)
	}
}

// Real servers execute the orders of a failover.
func TestOrders(t *testing.T) {
	t.Parallel()
	p, a, b := cluster(t)
	ctx := t.Context()
	_, result := p.insert(t, 1)
	assert.NilError(t, <-result)
	until(t, "b has the row", func() bool { return b.rows() == "1" })

	// The first order refuses b. The second order has the same revision, so it does not admit b: only a acknowledges.
	assert.NilError(t, p.Serve(ctx, mysqlmember.Order{Epoch: 1, Revision: 1}, 1, []int{2}, nil, nil))
	assert.NilError(t, p.Serve(ctx, mysqlmember.Order{Epoch: 1, Revision: 1}, 1, nil, nil, nil))
	_, result = p.insert(t, 2)
	assert.NilError(t, <-result)
	s := p.state(t)
	assert.DeepEqual(t, s.Cut, []int{2})
	if s.CutEnd.File != s.End.File || s.CutEnd.Offset >= s.End.Offset || s.Demands != 1 || s.Unprotected || !s.Writable {
		t.Errorf("%+v", s)
	}
	until(t, "b sees that it is cut off", func() bool { return !b.state(t).Connected })
	assert.Equal(t, b.rows(), "1")
	until(t, "a has the log", func() bool { read := a.state(t).ReadTo; return read.File == s.End.File && read.Offset >= s.End.Offset })
	refused(t, p.Promise(ctx, 2))
	refused(t, p.Follow(ctx, mysqlmember.Order{Epoch: 2, Revision: 2}, a.source(), true))

	// The next revision admits b as a reader that does not acknowledge. A delayed order has no effect.
	until(t, "b follows", func() bool { return b.Follow(ctx, mysqlmember.Order{Epoch: 2, Revision: 2}, p.source(), false) == nil })
	assert.NilError(t, p.Serve(ctx, mysqlmember.Order{Epoch: 2, Revision: 2}, 1, nil, nil, nil))
	until(t, "b has all", func() bool { return b.rows() == "1 2" })
	refused(t, b.Follow(ctx, mysqlmember.Order{Epoch: 2, Revision: 1}, p.source(), true))
	refused(t, p.Serve(ctx, mysqlmember.Order{Epoch: 2, Revision: 1}, 0, nil, nil, nil))
	if s := b.state(t); s.Acknowledges || s.Role != mysqlmember.RoleReplica || s.Source != 0 || s.Problem != "" {
		t.Errorf("%+v", s)
	}

	// a promises the epoch, and b does not acknowledge, so commits wait. The promise survives a kill.
	assert.NilError(t, a.Promise(ctx, 3))
	_, waiting := p.insert(t, 3)
	p.waits(t, 1)
	none(t, waiting)
	until(t, "commits wait", func() bool { s := p.state(t); return s.Commits == mysqlmember.CommitsWait && s.Stalled > 0 })
	if err := p.Demote(ctx, mysqlmember.Order{Epoch: 4, Revision: 2}, nil); contract.ReasonOf(err) != contract.ReasonBusy {
		t.Errorf("a primary was demoted while a commit waits: %v", err)
	}
	if s := p.state(t); !s.Writable || s.Waiting != 1 || s.Promised != 2 {
		t.Errorf("the refused demotion changed the primary: %+v", s)
	}
	a.s.Kill()
	a.again()
	refused(t, a.Follow(ctx, mysqlmember.Order{Epoch: 2, Revision: 3}, p.source(), true))
	if s := a.state(t); s.Promised != 3 || s.Role != "" || s.Connected || s.Writable {
		t.Errorf("%+v", s)
	}

	// From now on, b acknowledges. b already has the waiting row, and may not acknowledge it again. The acknowledgement of a heartbeat also
	// acknowledges this row.
	until(t, "b has the row that waits", func() bool { return b.rows() == "1 2 3" })
	until(t, "b follows", func() bool { return b.Follow(ctx, mysqlmember.Order{Epoch: 2, Revision: 3}, p.source(), true) == nil })
	assert.NilError(t, p.Serve(ctx, mysqlmember.Order{Epoch: 2, Revision: 3}, 1, nil, nil, nil))
	until(t, "b is connected", func() bool { return b.state(t).Connected })
	assert.NilError(t, p.Heartbeat(ctx, mysqlmember.Order{Epoch: 2, Revision: 3}))
	assert.NilError(t, <-waiting)

	// b is promoted. Its first commit waits until a follows and acknowledges.
	assert.NilError(t, b.Promise(ctx, 3))
	_, waiting = p.insert(t, 4)
	p.waits(t, 1)
	refused(t, b.Serve(ctx, mysqlmember.Order{Epoch: 3, Revision: 4}, 1, nil, nil, nil))
	refused(t, b.Heartbeat(ctx, mysqlmember.Order{Epoch: 3, Revision: 4}))
	until(t, "b is promoted", func() bool { return b.promote(ctx, mysqlmember.Order{Epoch: 3, Revision: 4}, 1) == nil })
	refused(t, b.promote(ctx, mysqlmember.Order{Epoch: 3, Revision: 4}, 1))
	_, result = b.insert(t, 5)
	b.waits(t, 1)
	none(t, result)
	until(t, "a follows", func() bool { return a.Follow(ctx, mysqlmember.Order{Epoch: 3, Revision: 4}, b.source(), true) == nil })
	none(t, result)
	assert.NilError(t, b.Serve(ctx, mysqlmember.Order{Epoch: 3, Revision: 4}, 1, nil, []int{0}, nil))
	assert.NilError(t, <-result)
	until(t, "a has all", func() bool { return a.rows() == "1 2 3 5" })

	// The old primary is killed while a commit waits. The client gets no OK. After the restart, the server has a surplus transaction.
	none(t, waiting)
	p.stop(t, syscall.SIGKILL)
	if err := <-waiting; err == nil {
		t.Error("the client got OK for a commit without an acknowledgement")
	}
	p.s.Kill()
	p.again()
	assert.Equal(t, p.s.Ask("SELECT GTID_SUBSET('"+p.state(t).Received+"', '"+b.state(t).Executed+"')"), "0")

	// An order demotes b. b refuses the old epoch also after a restart.
	refused(t, b.Demote(ctx, mysqlmember.Order{Epoch: 3, Revision: 4}, nil))
	assert.NilError(t, b.Demote(ctx, mysqlmember.Order{Epoch: 4, Revision: 4}, func(s os.Signal) error { b.s.Signal(s); return nil }))
	refused(t, b.Serve(ctx, mysqlmember.Order{Epoch: 4, Revision: 4}, 1, nil, nil, nil))
	b.s.Kill()
	b.again()
	refused(t, b.promote(ctx, mysqlmember.Order{Epoch: 3, Revision: 4}, 1))
	assert.Equal(t, b.rows(), "1 2 3 5")

	// A replica is stopped by SIGTERM, and then accepts no order.
	a.stop(t, syscall.SIGTERM)
	refused(t, a.Promise(ctx, 4))
}

// A commit waits for the number of acknowledgements in the order.
func TestDemands(t *testing.T) {
	t.Parallel()
	p, a, b := cluster(t)
	ctx := t.Context()
	assert.NilError(t, p.Serve(ctx, mysqlmember.Order{Epoch: 1, Revision: 2}, 2, nil, nil, nil))
	_, result := p.insert(t, 1)
	assert.NilError(t, <-result)
	assert.NilError(t, b.Promise(ctx, 2)) // after the promise, b no longer acknowledges
	_, result = p.insert(t, 2)
	until(t, "a has the row", func() bool { return a.rows() == "1 2" })
	p.waits(t, 1)
	none(t, result)
	assert.NilError(t, p.Serve(ctx, mysqlmember.Order{Epoch: 1, Revision: 3}, 1, nil, nil, nil))
	assert.NilError(t, <-result)
}

// stop sends a signal to a server and waits until it has stopped.
func (n *node) stop(t *testing.T, want syscall.Signal) {
	t.Helper()
	got, err := n.Stop(t.Context(), func(s os.Signal) error { n.s.Signal(s); return nil })
	assert.NilError(t, err)
	assert.Equal(t, got, want)
}
