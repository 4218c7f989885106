// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"errors"
	"os"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

// A refused demotion leaves a writable primary, even if the operator no longer runs. If the primary is still read-only, the next order
// Serve makes it writable.
func TestWritableAgain(t *testing.T) {
	t.Parallel()
	p, _, _ := cluster(t)
	o := mysqlmember.Order{Epoch: 1, Revision: 2}
	assert.NilError(t, p.Serve(t.Context(), o, 1, nil, nil, nil))
	c, err := server.Connect(t.Context(), p.Root)
	assert.NilError(t, err)
	defer c.Close()
	assert.NilError(t, c.Do("LOCK TABLES d.t WRITE")) // prevents the server from becoming read-only
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- p.Demote(ctx, mysqlmember.Order{Epoch: 2, Revision: 1}, nil) }()
	until(t, "the demotion is under way", func() bool {
		return p.s.Ask("SELECT COUNT(*) FROM performance_schema.processlist WHERE INFO LIKE 'SET GLOBAL super%'") == "1"
	})
	cancel()
	assert.NilError(t, c.Do("UNLOCK TABLES"))
	assert.ErrorContains(t, <-result, "the order is of revision 1")
	assert.Assert(t, p.state(t).Writable, "it only reads after a demotion that was refused")

	p.s.Exec("SET GLOBAL super_read_only = ON")
	assert.NilError(t, p.Serve(t.Context(), o, 1, []int{2}, nil, nil))
	assert.Equal(t, p.s.Ask("SELECT @@super_read_only, @@read_only"), "0|0")
	_, written := p.insert(t, 1)
	assert.NilError(t, <-written)
	assert.DeepEqual(t, p.state(t).Cut, []int{2})

	// The epoch has ended, but the server continues because the signal does not reach it.
	failed := errors.New("no signal")
	assert.ErrorIs(t, p.Demote(t.Context(), mysqlmember.Order{Epoch: 2, Revision: 2}, func(os.Signal) error { return failed }), failed)
	assert.Assert(t, !p.IsStopped())
	assert.NilError(t, p.Serve(t.Context(), mysqlmember.Order{Epoch: 2, Revision: 3}, 1, nil, nil, nil))
	assert.Assert(t, p.state(t).Writable)
}
