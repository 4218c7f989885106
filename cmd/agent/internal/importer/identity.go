// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package importer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
	"d3os.com/d3os-operator/internal/contract"
)

var (
	// errReplaced reports that the address of the copied server now belongs to another server. The copy may be the only remaining data of
	// the copied server.
	errReplaced = errors.New("the source was replaced")
	// errOther reports that the source in the spec is not the source of the copy.
	errOther = errors.New("the copy on the volume was made of another server or of other databases")
)

// identityOf returns an ID of a server's data; "" if it cannot be read. MySQL stores such an ID with the data. For MariaDB, the ID is the
// creation time of the oldest system table.
func identityOf(conn *server.Conn) (string, error) {
	if conn.Version.Flavour == server.MySQL {
		return conn.Variable("server_uuid")
	}
	created, err := conn.Value("SELECT IFNULL(UNIX_TIMESTAMP(MIN(CREATE_TIME)), '') FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'mysql' AND ENGINE IN ('Aria', 'MyISAM')")
	if created != "" {
		created = "created " + created
	}
	return created, err
}

func (m *Import) identityFile() string { return filepath.Join(m.folder, "server") }

// readIdentity reads the recorded ID of the dumped server (see identityOf). Before the first complete dump, no ID is recorded, and any
// server is accepted.
func (m *Import) readIdentity() error {
	text, err := os.ReadFile(m.identityFile())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("read which server was copied: %w", err)
	}
	m.identity = string(text)
	return nil
}

// recordIdentity records the ID of the server after a complete dump.
func (m *Import) recordIdentity() error {
	if m.identity != "" {
		return nil
	}
	m.identity = m.seen
	if id := m.backup.Server.UUID; id != "" {
		m.identity = id
	}
	if err := os.WriteFile(m.identityFile(), []byte(m.identity), 0o600); err != nil {
		return fmt.Errorf("record which server was copied: %w", err)
	}
	return nil
}

// isCopied returns an error if the connected server is not the copied server.
func (m *Import) isCopied(conn *server.Conn) (err error) {
	if m.seen, err = identityOf(conn); err != nil || m.identity == "" || m.seen == "" || m.seen == m.identity {
		return err
	}
	return contract.Errorf(contract.ReasonRefused, "%w: the server at %s has the id %s, but the copy was made of the server %s, which may have lost its data. The copy is kept. "+
		"Bring that server back, or %s", errReplaced, m.Server.Address, m.seen, m.identity, m.consent())
}

// consent describes how a user puts the copy into use after the source was lost.
func (m *Import) consent() string {
	return fmt.Sprintf("take the copy into use as it is: set cutOver to true, and mysql.acceptLoss to %q", m.loss())
}

// loss returns the text that names the loss of the source. The user accepts the loss by repeating this text.
func (m *Import) loss() string { return "source " + m.identity }

// isLost reports whether a failure means that the source is lost, and the user has accepted the loss.
func (m *Import) isLost(err error) bool {
	return m.identity != "" && (errors.Is(err, errReplaced) || contract.ReasonOf(err) == contract.ReasonServerUnreachable) && m.CutOver() && m.Accepted != nil && m.Accepted() == m.loss()
}

// takeAsIs makes the copy the database although the source is lost. The copy contains the changes of all events that were received from the
// source's log.
func (m *Import) takeAsIs(ctx context.Context) (err error) {
	if m.store, err = store.NewFolder(filepath.Join(m.folder, "store")); err != nil {
		return err
	}
	if err := m.open(ctx); err != nil {
		return err
	}
	defer m.copied.Close(ctx)
	if m.copied.Position != nil {
		if _, err := m.copied.Follow(ctx); err != nil && (m.copied.Batch != nil || ctx.Err() != nil) { // without an unfinished batch, the copy is complete up to its position
			return fmt.Errorf("apply the rest of the source's log: %w", err)
		}
	}
	m.copied.Warnings = append(m.copied.Warnings, "the source was lost, and the copy was not compared with it")
	if err := m.copied.Finish(ctx); err != nil {
		return err
	}
	m.enter(contract.ImportDone)
	return nil
}

// beginAgain discards the copy and begins another one. It keeps the copy if the copy may have data that the source has lost.
func (m *Import) beginAgain(ctx context.Context, why error) error {
	if !errors.Is(why, errOther) {
		conn, err := m.connect(ctx)
		if err != nil {
			return err
		}
		conn.Close()
	}
	if err := m.discard(why.Error()); err != nil {
		return err
	}
	if begun := m.State().Begun; begun > 2 && !pause(ctx, min(firstDelay<<min(begun-3, 6), longestDelay)) {
		return ctx.Err()
	}
	return nil
}

// sameSource returns an error if the copy on the volume has another source.
func (m *Import) sameSource() error {
	text, err := os.ReadFile(m.sourceFile())
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("read the source of the copy: %w", err)
	case string(text) != m.source():
		return contract.Errorf(contract.ReasonRefused, "%w: %w", restore.ErrBeginAgain, errOther)
	}
	return nil
}

// recordSource records the source of the first copy.
func (m *Import) recordSource() error {
	if _, err := os.Stat(m.sourceFile()); err == nil {
		return nil
	}
	if err := os.WriteFile(m.sourceFile(), []byte(m.source()), 0o600); err != nil {
		return fmt.Errorf("record the source of the copy: %w", err)
	}
	return nil
}

func (m *Import) sourceFile() string { return filepath.Join(m.folder, "source") }

func (m *Import) source() string { return fmt.Sprintf("%s %q", m.Server.Address, m.Schemas) }
