// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

// The design depends on the facts F1 to F9 about the real server. If a test of a fact fails with a new version, the design does not work
// for that version.

// F1: without an acknowledgement, a commit waits and is invisible to other sessions. F3: after KILL, the client gets no OK for the commit;
// after SIGTERM, the client may get an OK. F4: super_read_only waits for the commit. F5: after a kill, the next start commits the
// transaction. The log's end includes waiting commits; executed GTIDs do not.
func TestCommitsWait(t *testing.T) {
	t.Parallel()
	p, a, b := cluster(t)
	ctx := t.Context()
	assert.NilError(t, a.Promise(ctx, 2))
	assert.NilError(t, b.Promise(ctx, 2))
	before := p.state(t)
	session, result := p.insert(t, 1)
	p.waits(t, 1)
	none(t, result)
	assert.Equal(t, p.rows(), "", "another session sees it")
	during := p.state(t)
	assert.Equal(t, during.Executed, before.Executed)
	if during.End.File != before.End.File || during.End.Offset <= before.End.Offset {
		t.Errorf("the log's end was %v, and is %v while a commit waits", before.End, during.End)
	}

	p.s.Exec("KILL QUERY " + session)
	none(t, result)
	p.s.Exec("KILL CONNECTION " + session)
	if err := <-result; err == nil {
		t.Error("the client got OK after KILL CONNECTION")
	}
	assert.Equal(t, p.state(t).Waiting, 1, "KILL CONNECTION ends the wait")

	// A demotion waits for the session. Therefore it needs a deadline.
	demoted := make(chan error, 1)
	go func() {
		_, err := p.s.Try("SET GLOBAL super_read_only = ON")
		demoted <- err
	}()
	select {
	case err := <-demoted:
		t.Errorf("super_read_only did not wait: %v", err)
	case <-time.After(time.Second): // on a busy machine the test may miss an error, but it never fails without one
	}

	_, second := p.insert(t, 2)
	none(t, second)
	p.s.Kill()
	if err := <-second; err == nil {
		t.Error("the client got OK after a kill")
	}
	p.again()
	assert.Equal(t, p.rows(), "1", "a restart commits the waiting transaction; the write after the demotion does not exist")
	if s := p.state(t); s.Writable || s.Role != "" {
		t.Errorf("the server started with the state %+v", s)
	}

	// This server has transactions that the other servers lack. It would follow another server without an error.
	assert.NilError(t, a.promote(ctx, mysqlmember.Order{Epoch: 2, Revision: 2}, 0))
	assert.NilError(t, a.Serve(ctx, mysqlmember.Order{Epoch: 2, Revision: 2}, 0, nil, nil, nil))
	a.s.Exec("INSERT INTO d.t VALUES (7)")
	assert.NilError(t, p.Follow(ctx, mysqlmember.Order{Epoch: 2, Revision: 2}, a.source(), false))
	until(t, "the old primary applies", func() bool { return p.rows() == "1 7" })
	if s := p.state(t); !s.Connected || s.Problem != "" {
		t.Errorf("surplus transactions cause an error: %+v", s)
	}

	// A graceful stop ends the wait, and the client may get OK. Only this server has the row.
	assert.NilError(t, a.Serve(ctx, mysqlmember.Order{Epoch: 2, Revision: 3}, 1, nil, []int{0, 2}, nil))
	_, result = a.insert(t, 8)
	a.waits(t, 1)
	a.s.Signal(syscall.SIGTERM)
	t.Logf("the client of the stopped server got the answer: %v", <-result)
	a.s.Kill()
	a.again()
	assert.Equal(t, a.rows(), "7 8")
	assert.Equal(t, p.rows(), "1 7")
}

// F8: while a replica has semi-sync on for the role of a source, its applier waits for acknowledgements of replicas that follow it. F9: a replica
// that does not acknowledge may show a row before the primary's commit is acknowledged. F7: after a kill, no unapplied transaction of the
// relay log is lost.
func TestReplicas(t *testing.T) {
	t.Parallel()
	p, a, b := cluster(t)
	ctx := t.Context()
	write := func(id int) {
		_, result := p.insert(t, id)
		assert.NilError(t, <-result)
	}
	until(t, "all is applied", func() bool { return a.s.Ask("SHOW TABLES IN d") == "t" })
	a.s.Exec("SET GLOBAL rpl_semi_sync_source_enabled = ON")
	write(0)
	time.Sleep(time.Second) // on a busy machine the test may miss a row, but it never fails
	assert.Equal(t, a.rows(), "")
	a.s.Exec("SET GLOBAL rpl_semi_sync_source_enabled = OFF")
	until(t, "the applier goes on", func() bool { return a.rows() == "0" })

	a.s.Exec("STOP REPLICA SQL_THREAD")
	assert.Equal(t, a.state(t).Problem, "the applier does not run")
	for id := 1; id < 20; id++ {
		write(id)
	}
	want := p.state(t).Executed
	until(t, "it is received", func() bool { return a.s.Ask("SELECT GTID_SUBSET('"+want+"', '"+a.state(t).Received+"')") == "1" })
	a.s.Kill()

	until(t, "it follows", func() bool { return b.Follow(ctx, mysqlmember.Order{Epoch: 1, Revision: 2}, p.source(), false) == nil })
	_, result := p.insert(t, 20)
	all := "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19"
	until(t, "the learner shows it", func() bool { return b.rows() == all+" 20" })
	none(t, result)
	assert.Equal(t, p.rows(), all)

	a.again()
	s := a.state(t)
	assert.Equal(t, a.s.Ask("SELECT GTID_SUBSET('"+want+"', '"+s.Received+"')"), "1", "received %s of %s", s.Received, want)
	assert.Equal(t, a.rows(), "0")
	assert.Equal(t, contract.ReasonOf(a.promote(ctx, mysqlmember.Order{Epoch: 2, Revision: 2}, 0)), contract.ReasonBusy) // refused until everything is applied
	a.s.Exec("STOP REPLICA SQL_THREAD")
	assert.NilError(t, a.Resume(ctx))
	until(t, "the applier goes on", func() bool { return a.rows() == all })
	assert.NilError(t, a.promote(ctx, mysqlmember.Order{Epoch: 2, Revision: 2}, 0))
	assert.Equal(t, a.rows(), all)
}
