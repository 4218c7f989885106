// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

// writes inserts rows at full speed until stop is called. Each transaction has 32 events, one for each row, and a
// receiver syncs each event. So a receiver that stops is usually within a transaction.
func (n *node) writes(t *testing.T, table string) (stop func()) {
	t.Helper()
	c, err := server.Connect(t.Context(), n.Root)
	assert.NilError(t, err)
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		defer c.Close()
		for {
			select {
			case <-end:
				return
			default:
			}
			if err := c.Do("INSERT INTO " + table + " (b) VALUES (REPEAT('x', 8192))" + strings.Repeat(", (REPEAT('x', 8192))", 31)); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	return func() {
		close(end)
		<-done
	}
}

// within calls a function until it succeeds. It fails the test if one call takes long: MySQL would wait a minute for the rest of a
// transaction.
func within(t *testing.T, what string, do func() error) {
	t.Helper()
	until(t, what, func() bool {
		began := time.Now()
		err := do()
		if took := time.Since(began); took > 5*time.Second {
			t.Fatalf("%s took %s: %v", what, took, err)
		}
		return err == nil
	})
}

// A receiver that stops while the primary writes often stops within a transaction. Orders do not wait for the rest of that transaction.
// Nothing is lost, and the server stops immediately.
func TestOrdersWithinATransaction(t *testing.T) {
	t.Parallel()
	p, _, b := cluster(t)
	ctx, o := t.Context(), mysqlmember.Order{Epoch: 1, Revision: 2}
	for _, table := range []string{"d.wide", "d.other"} {
		p.s.Ask("CREATE TABLE " + table + " (i INT AUTO_INCREMENT PRIMARY KEY, b LONGBLOB)")
	}
	stop := p.writes(t, "d.wide")
	for i := range 6 {
		o.Revision++
		within(t, "a voter becomes a reader, or a reader becomes a voter", func() error { return b.Follow(ctx, o, p.source(), i%2 == 1) })
	}
	parts := 0
	for range 20 {
		until(t, "a transaction is received", func() bool {
			return b.s.Ask("SELECT QUEUEING_TRANSACTION FROM performance_schema.replication_connection_status") != ""
		})
		o.Epoch++
		within(t, "a promise", func() error { return b.Promise(ctx, o.Epoch) })
		until(t, "the relay log is applied", func() bool {
			return b.s.Ask("SELECT GTID_SUBSET(RECEIVED_TRANSACTION_SET, @@GLOBAL.gtid_executed) FROM performance_schema.replication_connection_status") == "1"
		})
		if b.s.Ask("SELECT PROCESSING_TRANSACTION FROM performance_schema.replication_applier_status_by_coordinator") != "" {
			parts++
		}
		source := p.source()
		source.Host = []string{"127.0.0.1", "localhost"}[o.Epoch%2] // the agent treats this name as another source
		within(t, "following another member", func() error { return b.Follow(ctx, o, source, true) })
		if parts > 2 {
			break
		}
	}
	if parts == 0 {
		t.Error("the receiver never stopped within a transaction: the test shows nothing")
	}
	until(t, "it is connected", func() bool { return b.state(t).Connected && b.s.Ask("SELECT COUNT(*) FROM d.wide") != "0" })
	stop()
	// The last transaction stops within, and the one before it is not applied yet.
	busy, err := server.Connect(ctx, b.Root)
	assert.NilError(t, err)
	assert.NilError(t, busy.Do("LOCK TABLES d.wide READ"))
	p.s.Ask("INSERT INTO d.wide (b) VALUES (1)")
	stop = p.writes(t, "d.other")
	until(t, "a transaction is received while the applier waits for another one", func() bool {
		return b.s.Ask("SELECT COUNT(*) FROM performance_schema.replication_connection_status c JOIN performance_schema.replication_applier_status_by_coordinator a "+
			"WHERE a.PROCESSING_TRANSACTION <> '' AND c.QUEUEING_TRANSACTION = a.PROCESSING_TRANSACTION AND NOT GTID_SUBSET(c.RECEIVED_TRANSACTION_SET, @@GLOBAL.gtid_executed)") == "1"
	})
	began := time.Now()
	_, err = b.Stop(ctx, func(s os.Signal) error { busy.Close(); b.s.Signal(s); return nil })
	assert.NilError(t, err)
	<-b.s.Ended()
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the stop took %s", took)
	}
	stop()
}

// A primary ends its epoch when all connected voters have its whole log. It does not wait long for a voter that does not answer.
func TestDemotionSendsTheLog(t *testing.T) {
	t.Parallel()
	p, _, b := cluster(t)
	const needed = "SELECT @@rpl_semi_sync_source_wait_for_replica_count"
	b.s.Signal(syscall.SIGSTOP)
	_, written := p.insert(t, 1) // the other voter acknowledges it
	assert.NilError(t, <-written)
	failed := errors.New("no signal")
	assert.ErrorIs(t, p.Demote(t.Context(), mysqlmember.Order{Epoch: 2, Revision: 2}, func(os.Signal) error {
		assert.Equal(t, p.s.Ask(needed), "1")
		return failed
	}), failed)
	assert.NilError(t, p.Serve(t.Context(), mysqlmember.Order{Epoch: 2, Revision: 3}, 1, nil, nil, nil))

	go func() {
		for p.s.Ask(needed) != "2" {
			time.Sleep(time.Millisecond) // the primary asks for a second
		}
		b.s.Signal(syscall.SIGCONT)
	}()
	assert.NilError(t, p.Demote(t.Context(), mysqlmember.Order{Epoch: 3, Revision: 3}, func(os.Signal) error {
		all := p.s.Ask("SELECT @@GLOBAL.gtid_executed")
		assert.Equal(t, b.s.Ask("SELECT GTID_SUBSET('"+all+"', CONCAT(RECEIVED_TRANSACTION_SET, ',', @@GLOBAL.gtid_executed)) FROM performance_schema.replication_connection_status"), "1")
		return nil
	}))
}
