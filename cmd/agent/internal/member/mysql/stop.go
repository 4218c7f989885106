// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

const (
	// unheard bounds how long a primary serves while neither a voter nor the operator reaches it. It may have been replaced. No
	// acknowledgement depends on that: the kill frees clients and ends stale reads.
	unheard = 10 * time.Second
	// unanswered bounds how long a primary that needs acknowledgements does not answer its agent. A statement that changes accounts and waits
	// for one blocks all logins: those of voters that return, too. It is longer than any order.
	unanswered = 20 * time.Second
	// demotion bounds the time that writes have to end before a stop.
	demotion = 2 * time.Second
)

// Silence holds how long ago a primary was last reached: by a voter, by the operator, and by its agent.
type Silence struct{ Voter, Operator, Agent time.Duration }

// MustKill returns the cause for which a server must be killed at once, or "". A stop by SIGTERM would acknowledge the waiting commits.
func MustKill(s State, since Silence) string {
	switch {
	case s.Unprotected:
		return "the primary is not protected by semi-sync"
	case s.Role == mysqlmember.RolePrimary && s.Demands > 0 && since.Voter > unheard && since.Operator > unheard:
		return fmt.Sprintf("the primary hears neither a voter nor the operator for %s", unheard)
	case s.Role == mysqlmember.RolePrimary && s.Demands > 0 && since.Agent > unanswered:
		return fmt.Sprintf("the primary does not answer its agent for %s", unanswered)
	}
	return ""
}

// Stop ends the server. One that is no primary is stopped in order. MySQL answers OK to commits that wait when it is stopped, so
// a primary is stopped in order only after it has become read-only and no commit waits or may come; otherwise it is killed, which
// loses nothing that was acknowledged. No order is taken from then on.
func (m *Member) Stop(ctx context.Context, signal func(os.Signal) error) (syscall.Signal, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopped = true
	with := syscall.SIGTERM
	if m.primary == 0 && !m.unfinished {
		_ = m.session(ctx, func(c *server.Conn) error { // a server that does not answer is stopped all the same
			err := run(c, "STOP REPLICA IO_THREAD")
			if err == nil {
				err = drained(c)
			}
			if err == nil {
				err = leavePart(c) // or MySQL waits a minute for the rest of it
			}
			return err
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

// IsStopped reports whether an order or the end of the pod has ended the server, or ends it.
func (m *Member) IsStopped() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stopped
}

// End is called after the process of the server has ended, and before another one starts: an order for this one must not reach that.
func (m *Member) End() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopped, m.ended = true, true
}

// Demote has the primary give its epoch up: it becomes read-only, promises the epoch of the order, and its server is stopped.
// Where a commit still waits after two seconds, it stays the primary, and is writable, also if the operator has gone. If that fails, or the
// signal, Serve lets it be written.
func (m *Member) Demote(ctx context.Context, o Order, signal func(os.Signal) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.Volume.Notes()
	if err != nil {
		return err
	}
	if m.stopped || m.primary == 0 || o.Epoch <= n.Promised {
		return contract.Errorf(contract.ReasonRefused, "this member does not give epoch %d up for epoch %d", m.primary, o.Epoch)
	}
	with, err := m.quiet(ctx)
	if err == nil {
		err = m.Volume.Take(o, "")
	}
	if err != nil {
		return errors.Join(contract.Errorf(contract.ReasonBusy, "give epoch %d up: %w", m.primary, err), m.writable(context.WithoutCancel(ctx)))
	}
	if err := signal(with); err != nil {
		return fmt.Errorf("send %s to the server: %w", with, err)
	}
	m.stopped = true
	return nil
}

// writable takes back what quiet did.
func (m *Member) writable(ctx context.Context) error {
	return m.session(ctx, func(c *server.Conn) error {
		return wrap(run(c, "SET GLOBAL super_read_only = OFF", "SET GLOBAL read_only = OFF"), "let the primary be written again")
	})
}

// quiet makes the primary read-only, and returns the signal that ends it. It fails when a commit waits: making it read-only waits behind that.
func (m *Member) quiet(ctx context.Context) (syscall.Signal, error) {
	c, err := server.Connect(ctx, m.Root)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	session, err := c.Value("SELECT CONNECTION_ID()")
	if err != nil {
		return 0, fmt.Errorf("ask for the session: %w", err)
	}
	if err := c.Limit(time.Now().Add(demotion)); err != nil {
		return 0, err
	}
	if err := run(c, "SET GLOBAL super_read_only = ON"); err != nil {
		end := m.session(context.WithoutCancel(ctx), func(c *server.Conn) error { return run(c, "KILL CONNECTION "+session) })
		return 0, errors.Join(fmt.Errorf("make the server read-only: %w", err), end)
	}
	// Before the look at commits that wait: what is committed in between waits.
	writing, err := c.WritingXA()
	if err != nil {
		return 0, fmt.Errorf("look for XA transactions: %w", err)
	}
	with := syscall.SIGTERM
	if len(writing) > 0 || c.Prepared() > 0 {
		with = syscall.SIGKILL // XA COMMIT passes, and would be acknowledged without a voter
	}
	waiting, err := waitingSessions(c)
	if err == nil && waiting > 0 {
		err = contract.Errorf(contract.ReasonBusy, "%d sessions wait for an acknowledgement", waiting)
	}
	return with, err
}
