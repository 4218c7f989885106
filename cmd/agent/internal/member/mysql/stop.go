// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

const (
	// unheard is the maximum time for which a primary serves while neither a voter nor the operator reaches it. Such a
	// primary may have been replaced. Acknowledged transactions are safe even without the kill. The kill disconnects
	// clients, so that they no longer read outdated rows.
	unheard = 10 * time.Second
	// unanswered is the maximum time in which a primary that needs acknowledgements must answer its agent. A statement that changes
	// accounts and waits for an acknowledgement blocks all logins, including those of voters that reconnect. Every order takes less time.
	unanswered = 20 * time.Second
	// demotion is the maximum time that a stop waits for the primary to become read-only. Running commits end before that.
	demotion = 2 * time.Second
)

// Silence holds the times since a voter, the operator and the agent last reached a primary.
type Silence struct{ Voter, Operator, Agent time.Duration }

// MustKill returns the reason why a server must be killed immediately, or "". SIGTERM would make the server acknowledge the waiting
// commits.
func MustKill(s mysqlmember.State, since Silence) string {
	switch {
	case s.Unprotected:
		return "the primary is not protected by semi-sync"
	case s.Role == mysqlmember.RolePrimary && s.Demands > 0 && since.Voter > unheard && since.Operator > unheard:
		return fmt.Sprintf("neither a voter nor the operator has reached the primary for %s", unheard)
	case s.Role == mysqlmember.RolePrimary && s.Demands > 0 && since.Agent > unanswered:
		return fmt.Sprintf("the primary has not answered its agent for %s", unanswered)
	}
	return ""
}

// MustProve reports whether a primary must write a row, whose acknowledgement proves that a voter still follows it. It
// must do so while neither a voter nor the operator reaches it. While commits wait, it writes no row, because the
// acknowledgement of a commit proves the same.
func MustProve(s mysqlmember.State, since Silence) bool {
	return s.Role == mysqlmember.RolePrimary && s.Demands > 0 && s.Waiting == 0 && since.Voter > unheard/2 && since.Operator > unheard/2
}

// Stop ends the server, and refuses all further orders. On SIGTERM, MySQL answers OK to commits that wait for an
// acknowledgement. So a primary gets SIGTERM only if it is read-only and no commit waits or may follow. Otherwise Stop
// kills it, which loses no acknowledged transaction. A server that is not a primary gets SIGTERM. Transactions that it has received and not
// applied stay in its relay log.
func (m *Member) Stop(ctx context.Context, signal func(os.Signal) error) (syscall.Signal, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopped = true
	with := syscall.SIGTERM
	if m.primary == 0 && !m.unfinished {
		_ = m.session(ctx, func(c *server.Conn) error { // a server that does not answer is stopped anyway
			if err := run(c, "STOP REPLICA IO_THREAD"); err != nil {
				return err
			}
			return endApplier(c) // otherwise MySQL waits a minute for the rest of the transaction
		})
	}
	if m.primary != 0 || m.unfinished {
		var err error
		if with, err = m.quiet(ctx); err != nil {
			with = syscall.SIGKILL
		}
	}
	if err := signal(with); err != nil {
		return with, fmt.Errorf("send %s to the server: %w", with, err)
	}
	return with, nil
}

// IsStopped reports whether the server was stopped, or is being stopped, by an order or by the end of the pod.
func (m *Member) IsStopped() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stopped
}

// End records that the server's process has ended. The agent calls it before the next start, so that no order for the ended server
// reaches the next one.
func (m *Member) End() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopped, m.ended = true, true
}

// Demote ends the primary's epoch: all connected voters get the log, the server becomes read-only, promises the epoch of the order, and is
// stopped. If a commit still waits after two seconds, the server remains the primary and becomes writable again, even without the operator.
// If that step or the signal fails, a later Serve makes the server writable.
func (m *Member) Demote(ctx context.Context, o mysqlmember.Order, signal func(os.Signal) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.Volume.Notes()
	if err != nil {
		return err
	}
	if m.stopped || m.primary == 0 || o.Epoch <= n.Promised {
		return contract.Errorf(contract.ReasonRefused, "this member is not a primary that can give up epoch %d for epoch %d", m.primary, o.Epoch)
	}
	recorded := m.demands
	if recorded > 0 {
		_ = m.askAll(ctx, recorded) // the epoch also ends without a voter that does not answer
	}
	with, err := m.quiet(ctx)
	if err == nil {
		err = m.Volume.Take(o, "")
	}
	if err != nil {
		return errors.Join(contract.Errorf(contract.ReasonBusy, "give up epoch %d: %w", m.primary, err), m.writable(context.WithoutCancel(ctx), recorded))
	}
	if err := signal(with); err != nil {
		return fmt.Errorf("send %s to the server: %w", with, err)
	}
	m.stopped = true
	return nil
}

// askAll makes commits need the acknowledgements of all connected voters, and writes a row. So each voter has the log up to this row. A voter
// without the end of the log would be no voter of the next primary, whose commits would wait until that voter has caught up. If a voter does
// not acknowledge within a second, commits need the recorded number again.
func (m *Member) askAll(ctx context.Context, recorded int) error {
	return m.session(ctx, func(c *server.Conn) error {
		clients, err := status(c, "Rpl_semi_sync_source_clients")
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(clients)
		if err != nil || n <= recorded {
			return err
		}
		return m.session(ctx, func(spare *server.Conn) error { // a statement that changes accounts and waits for a voter blocks all logins
			err := m.demand(c, n)
			if err == nil {
				err = heartbeat(c, m.primary)
			}
			if err != nil {
				err = errors.Join(err, m.demand(spare, recorded))
			}
			return err
		})
	})
}

// writable makes the primary writable again, after quiet made it read-only. Its commits need the recorded number of acknowledgements.
func (m *Member) writable(ctx context.Context, recorded int) error {
	return m.session(ctx, func(c *server.Conn) error {
		if err := m.demand(c, recorded); err != nil {
			return err
		}
		return wrap(run(c, "SET GLOBAL super_read_only = OFF", "SET GLOBAL read_only = OFF"), "make the primary writable again")
	})
}

// quiet makes the primary read-only, and returns the signal that ends it. It fails if a commit waits, because setting super_read_only waits
// for that commit.
func (m *Member) quiet(ctx context.Context) (syscall.Signal, error) {
	c, err := server.Connect(ctx, m.Root)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	session, err := c.Value("SELECT CONNECTION_ID()")
	if err != nil {
		return 0, fmt.Errorf("read the session: %w", err)
	}
	if err := c.Limit(time.Now().Add(demotion)); err != nil {
		return 0, err
	}
	if err := run(c, "SET GLOBAL super_read_only = ON"); err != nil {
		end := m.session(context.WithoutCancel(ctx), func(c *server.Conn) error { return run(c, "KILL CONNECTION "+session) })
		return 0, errors.Join(fmt.Errorf("make the server read-only: %w", err), end)
	}
	// Look for XA transactions before waiting commits, so that a commit between the two queries is found.
	writing, err := c.WritingXA()
	if err != nil {
		return 0, fmt.Errorf("list XA transactions: %w", err)
	}
	with := syscall.SIGTERM
	if len(writing) > 0 || c.Prepared() > 0 {
		with = syscall.SIGKILL // XA COMMIT is still accepted, and after SIGTERM it would be acknowledged without a voter
	}
	waiting, err := waitingSessions(c)
	if err == nil && waiting > 0 {
		err = contract.Errorf(contract.ReasonBusy, "%d sessions wait for an acknowledgement", waiting)
	}
	return with, err
}
