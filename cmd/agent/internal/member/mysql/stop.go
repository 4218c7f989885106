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

	"d3os.com/d3os-operator/cmd/agent/contract"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
)

const (
	// unheard is how long a primary serves that neither a voter nor the operator reaches. It may have been replaced. No
	// acknowledgement depends on that: the kill frees clients and ends stale reads.
	unheard = 10 * time.Second
	// demotion is how long writes may take to end before a stop.
	demotion = 2 * time.Second
)

// MustKill says why a server must be killed at once, or nothing. A stop by SIGTERM would acknowledge what waits.
func MustKill(s State, sinceVoter, sinceOperator time.Duration) string {
	switch {
	case s.Unprotected:
		return "the primary is not protected by semi-sync"
	case s.Role == RolePrimary && s.Demands > 0 && sinceVoter > unheard && sinceOperator > unheard:
		return fmt.Sprintf("the primary hears neither a voter nor the operator for %s", unheard)
	}
	return ""
}

// Stop ends the server. One that is no primary is stopped in order. MySQL answers OK to commits that wait when it is stopped, so
// a primary is stopped in order only after it has become read-only and no commit waits; otherwise it is killed, which loses
// nothing that was acknowledged. No order is taken from then on.
func (m *Member) Stop(ctx context.Context, signal func(os.Signal) error) (syscall.Signal, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopped = true
	with := syscall.SIGTERM
	if (m.primary != 0 || m.unfinished) && m.quiet(ctx) != nil {
		with = syscall.SIGKILL
	}
	if err := signal(with); err != nil {
		return with, fmt.Errorf("send %s to the server: %w", with, err)
	}
	return with, nil
}

// Demote has the primary give its epoch up: it becomes read-only, promises the epoch of the order, and its server is stopped.
// Where a commit still waits after two seconds, it stays the primary, and is writable.
func (m *Member) Demote(ctx context.Context, o Order, signal func(os.Signal) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.load(); err != nil {
		return err
	}
	if m.stopped || m.primary == 0 || o.Epoch <= m.notes.Promised {
		return contract.Errorf(contract.ReasonRefused, "this member does not give epoch %d up for epoch %d", m.primary, o.Epoch)
	}
	err := m.quiet(ctx)
	if err == nil {
		err = m.notes.take(m.Volume, o)
	}
	if err != nil {
		return errors.Join(contract.Errorf(contract.ReasonBusy, "give epoch %d up: %w", m.primary, err), m.writable(ctx))
	}
	m.stopped = true
	if err := signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop the server: %w", err)
	}
	return nil
}

// writable takes back what quiet did.
func (m *Member) writable(ctx context.Context) error {
	return m.session(ctx, func(c *server.Conn) error {
		return wrap(run(c, "SET GLOBAL super_read_only = OFF", "SET GLOBAL read_only = OFF"), "let the primary be written again")
	})
}

// quiet makes the primary read-only. It fails when a commit waits: making it read-only waits behind that.
func (m *Member) quiet(ctx context.Context) error {
	c, err := server.Connect(ctx, m.Root)
	if err != nil {
		return err
	}
	defer c.Close()
	session, err := c.Value("SELECT CONNECTION_ID()")
	if err != nil {
		return fmt.Errorf("ask for the session: %w", err)
	}
	if err := c.Limit(time.Now().Add(demotion)); err != nil {
		return err
	}
	if err := run(c, "SET GLOBAL super_read_only = ON"); err != nil {
		end := m.session(ctx, func(c *server.Conn) error { return run(c, "KILL CONNECTION "+session) })
		return errors.Join(fmt.Errorf("make the server read-only: %w", err), end)
	}
	waiting, err := status(c, "Rpl_semi_sync_source_wait_sessions")
	if err == nil && waiting != "0" {
		err = contract.Errorf(contract.ReasonBusy, "%s sessions wait for an acknowledgement", waiting)
	}
	return err
}
