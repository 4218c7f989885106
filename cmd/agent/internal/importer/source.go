// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package importer

import (
	"context"
	"fmt"
	"slices"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/backup"
	"d3os.com/d3os-operator/cmd/agent/internal/draft"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// silence is the maximum time for which the source may not answer.
const silence = time.Minute

// connect opens a connection to the source, and sets the schemas to copy.
func (m *Import) connect(ctx context.Context) (*server.Conn, error) {
	conn, err := server.Connect(ctx, m.Server)
	if err != nil {
		return nil, err
	}
	conn.Only(m.Schemas)
	if err := conn.Limit(time.Now().Add(silence)); err != nil {
		conn.Close()
		return nil, err
	}
	if err := m.isCopied(conn); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// look reads the version and settings of the source. It refuses a source that cannot be copied. It returns the source's log; nil if there
// is no log to follow.
func (m *Import) look(ctx context.Context) (*log, error) {
	conn, err := m.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	m.update(func(s *contract.Import) { s.Server = conn.Version.Text })
	like := restore.Source{Backup: &manifest.Backup{ID: "of " + m.Server.Address, Server: manifest.Server{Version: conn.Version.Text, Flavour: conn.Version.Flavour}}}
	if err := restore.Compatible(like, m.Programs); err != nil {
		return nil, contract.Errorf(contract.ReasonRefused, "the source cannot be copied to this server: %w", err)
	}
	schemas, err := conn.Schemas()
	if err != nil {
		return nil, err
	}
	for _, name := range m.Schemas {
		if !slices.Contains(schemas, name) {
			return nil, contract.Errorf(contract.ReasonRefused, "the source %s has no database %s that account %s may read: correct databases, or grant the account the rights", m.Server.Address, name, m.Server.User)
		}
	}
	return m.lookAtLog(conn)
}

// lookAtLog returns the log of the source; nil if the source has none, or if its log lacks the changes of rows.
func (m *Import) lookAtLog(conn *server.Conn) (*log, error) {
	if has, err := hasLog(conn); !has || err != nil {
		return nil, err
	}
	end, err := conn.Position()
	if err != nil {
		return nil, grants(m.Server.User, err)
	}
	if end == nil {
		return nil, nil
	}
	if _, err := conn.BinaryLogs(); err != nil {
		return nil, grants(m.Server.User, err)
	}
	return &log{first: end.File}, nil
}

// hasLog reports whether a server has a binary log with the changes of rows.
func hasLog(conn *server.Conn) (bool, error) {
	has, err := conn.Variable("log_bin")
	if err != nil {
		return false, err
	}
	format, err := conn.Variable("binlog_format")
	return has == "ON" && (format == "" || format == "ROW"), err // newer servers may lack the variable binlog_format
}

// isPrepared returns a text about prepared XA transactions.
func isPrepared(where string, n int) string {
	return fmt.Sprintf("%s has %d XA transactions that are prepared: commit or roll back these transactions on that server (XA RECOVER lists them)", where, n)
}

// grants appends the list of required rights to an AccessDenied error of the server.
func grants(user string, err error) error {
	if contract.ReasonOf(err) != contract.ReasonAccessDenied {
		return err
	}
	return contract.Errorf(contract.ReasonAccessDenied, "%w: account %s needs SELECT, SHOW VIEW, TRIGGER, EVENT, LOCK TABLES, RELOAD, PROCESS, REPLICATION SLAVE, REPLICATION CLIENT on *.* of the source "+
		"(on MariaDB also BINLOG MONITOR)", err, user)
}

// dump dumps the source.
func (m *Import) dump(ctx context.Context) (*manifest.Backup, error) {
	made, _, err := backup.Run(ctx, backup.Options{Options: draft.Options{Store: m.store, Progress: m.progress}, Server: m.Server, SkipAccounts: m.SkipAccounts, MaxLockWait: m.MaxLockWait, Tries: 3,
		DumpProgram: m.DumpProgram, Schemas: m.Schemas, Lock: m.name + "-dump", LeavesLog: true})
	if err != nil {
		return nil, grants(m.Server.User, err)
	}
	return made, nil
}
