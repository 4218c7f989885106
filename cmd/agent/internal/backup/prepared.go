// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	archived "d3os.com/d3os-operator/cmd/agent/internal/binlog"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// flight holds the XA transactions that are prepared before a dump begins. at is the end of the log at that time.
type flight struct {
	at *contract.Position
	// names identify the XA transactions, in the notation of archived.Event.
	names []string
	// refused is the error of reading the names, for example because the account lacks the right to list XA transactions.
	refused error
}

// logsPrepared reports whether a server logs an XA transaction when the transaction is prepared. Older servers log the transaction when it
// is committed.
func logsPrepared(v server.Version) bool {
	if v.Flavour == server.MariaDB {
		return v.Major > 10 || v.Major == 10 && v.Minor >= 5
	}
	return v.AtLeast(5, 7, 7)
}

// inFlight returns the XA transactions that are prepared, and the end of the log. It returns neither if there is no log, or if the log does
// not contain an XA transaction before its commit.
func (r *run) inFlight(hasLog bool) (f flight, err error) {
	if !hasLog || !logsPrepared(r.conn.Version) {
		return f, nil
	}
	if f.at, err = r.conn.Position(); err != nil || f.at == nil {
		return f, err
	}
	f.names, f.refused = prepared(r.conn)
	return f, nil
}

// prepared returns the names of the XA transactions that are prepared.
func prepared(conn *server.Conn) ([]string, error) {
	rows, err := conn.Rows("XA RECOVER")
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(rows))
	for _, row := range rows {
		global, err := strconv.Atoi(row[1])
		if err != nil || len(row) < 4 || global < 0 || global > len(row[3]) {
			return nil, fmt.Errorf("XA RECOVER returned %q", row)
		}
		names = append(names, fmt.Sprintf("x'%x',x'%x',%s", row[3][:global], row[3][global:], row[0]))
	}
	return names, nil
}

// findPrepared records in the manifest the first log file that contains the XA transactions prepared at the dump's position. The dump lacks
// the changes of these transactions.
func (r *run) findPrepared(ctx context.Context, before flight) error {
	m := &r.Manifest
	m.PreparedFrom = ""
	if before.at == nil || m.Position == nil {
		return nil
	}
	if before.refused != nil {
		return r.mayBePrepared(ctx)
	}
	m.PreparedFrom = before.at.File // the log may have grown since this position was read
	if len(before.names) > 0 {
		if err := r.search(ctx, before.names); err != nil {
			if ctx.Err() != nil {
				return err
			}
			m.Warnings = append(m.Warnings, fmt.Sprintf("the prepared XA transactions %s could not be searched for in the binary log, so it may be impossible to restore this backup to a point in time after these transactions end: %v",
				short(before.names), err))
		}
	}
	if !archived.Older(m.PreparedFrom, m.Position.File) {
		m.PreparedFrom = ""
	}
	return nil
}

// search finds the log files in which the XA transactions were prepared, and sets PreparedFrom to the oldest of them. It reads the newest
// file first. It ignores transactions that ended before the dump's position. It also ignores transactions that ended after that position
// without an entry in the log: these changed nothing.
func (r *run) search(ctx context.Context, names []string) error {
	m := &r.Manifest
	now, err := prepared(r.conn)
	if err != nil {
		return err
	}
	end, err := r.conn.Position()
	if err != nil || end == nil {
		return err
	}
	found, ended := map[string]bool{}, map[string]bool{}
	err = archived.Scan(ctx, r.conn, r.options.Server, m.Position.File, *end, func(at contract.Position, e archived.Event) {
		if archived.Before(*m.Position, at) {
			ended[e.Finished] = true
		} else {
			found[e.Prepared] = true
		}
	})
	if err != nil {
		return err
	}
	missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return found[name] || !ended[name] && !slices.Contains(now, name) })
	files, err := r.conn.BinaryLogs()
	if err != nil {
		return err
	}
	next := m.Position.File
	for _, file := range slices.Backward(files) {
		if len(missing) == 0 {
			return nil
		}
		if !archived.Older(file, next) {
			continue
		}
		err := archived.Scan(ctx, r.conn, r.options.Server, file, contract.Position{File: next, Offset: archived.FirstOffset}, func(_ contract.Position, e archived.Event) {
			if i := slices.Index(missing, e.Prepared); i >= 0 {
				missing = slices.Delete(missing, i, i+1)
				if archived.Older(file, m.PreparedFrom) {
					m.PreparedFrom = file
				}
			}
		})
		if err != nil {
			return err
		}
		next = file
	}
	if len(missing) > 0 {
		m.Warnings = append(m.Warnings, fmt.Sprintf("the binary log, which begins with %s, lacks the changes of these prepared XA transactions: %s. If they change rows, this backup cannot be restored to a "+
			"point in time after these transactions end: end these transactions, and make another backup", next, short(missing)))
	}
	return nil
}

// short joins at most ten names for a message.
func short(names []string) string { return strings.Join(names[:min(len(names), 10)], "; ") }

// mayBePrepared warns if any transaction began before the log file of the dump's position. The account lacks the right to list XA
// transactions, so this transaction may be a prepared one.
func (r *run) mayBePrepared(ctx context.Context) error {
	m := &r.Manifest
	began, err := r.conn.Began(ctx, m.Position.File)
	if err != nil {
		return nil //nolint:nilerr // identify warns of this error
	}
	n, err := r.conn.Value("SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_rows_modified > 0 AND trx_started <= FROM_UNIXTIME(" + strconv.FormatInt(began.Unix(), 10) + ")")
	if err != nil {
		return err
	}
	if n != "0" {
		m.Warnings = append(m.Warnings, n+" transactions were begun before file "+m.Position.File+" of the binary log, but the account may not see whether they are prepared XA transactions. "+
			"If they are, this backup cannot be restored to a point in time after these transactions end: grant the account XA_RECOVER_ADMIN")
	}
	return nil
}
