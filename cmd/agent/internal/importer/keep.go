// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package importer

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/binlog"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// keep applies the source's log until the cut-over has succeeded.
func (m *Import) keep(ctx context.Context) error {
	if m.copied.Refused == "" {
		m.enter(m.waits())
	}
	for {
		cut := m.CutOver()
		m.update(func(s *contract.Import) { s.CutOver = cut })
		done, err := m.step(ctx, cut)
		if done || err != nil {
			return err
		}
		if !pause(ctx, m.Interval/2) {
			return ctx.Err()
		}
	}
}

// waits returns the phase of a copy that waits for the cut-over.
func (m *Import) waits() contract.ImportPhase {
	if m.log == nil || m.backup.Position == nil {
		return contract.ImportWaiting
	}
	return contract.ImportFollowing
}

// step applies the received events. If cut is true, it then tries the cut-over. It returns true when the import is complete.
func (m *Import) step(ctx context.Context, cut bool) (bool, error) {
	if why := m.copied.Refused; why != "" {
		if !cut {
			return false, contract.Errorf(contract.ReasonMismatch, "%w: %s", restore.ErrBeginAgain, why)
		}
		m.update(func(s *contract.Import) {
			s.Phase, s.Reason, s.Message = contract.ImportRefused, contract.ReasonMismatch, why
		})
		return false, nil
	}
	if m.waits() == contract.ImportWaiting {
		if cut {
			return m.cutOverWithoutLog(ctx)
		}
		m.update(func(s *contract.Import) { s.Phase, s.Message = contract.ImportWaiting, m.noLog() })
		return false, nil
	}
	head, at, failed := m.log.now()
	if err := failure(failed); err != nil {
		return false, err
	}
	if err := m.apply(ctx, head, at, failed); err != nil {
		return false, err
	}
	if cut && head.Position.File != "" && failed == nil {
		return m.cutOver(ctx)
	}
	return false, nil
}

// noLog returns the message about a copy whose source has no log.
func (m *Import) noLog() string {
	return fmt.Sprintf("the source %s has no binary log in row format (log_bin=ON, binlog_format=ROW) that could be followed: the copy has the data as of %s. Set cutOver if nothing was written to the source since then; "+
		"otherwise stop the writes, and then set cutOver: a copy that differs from the source is refused", m.Server.Address, m.backup.Started.Format(time.RFC3339))
}

// apply applies the archived events, and reports by how much the copy lags behind the source.
func (m *Import) apply(ctx context.Context, head manifest.Head, at time.Time, failed error) error {
	if head.Position.File != "" {
		if _, err := m.copied.Follow(ctx); err != nil {
			return err
		}
		m.prune(ctx)
	}
	m.update(func(s *contract.Import) {
		behind := int64(math.Ceil(time.Since(at).Seconds()))
		s.Phase, s.Behind, s.Transactions = contract.ImportFollowing, &behind, m.copied.Transactions
		s.Position = &contract.Position{File: m.copied.Position.File, Offset: m.copied.Position.Offset, GTID: m.copied.GTID}
		if !s.CutOver {
			s.Reason, s.Message = "", ""
		}
		if failed != nil {
			s.Reason, s.Message = contract.ReasonOf(failed), "follow the source's binary log: "+failed.Error()
		}
	})
	return nil
}

// prune removes files of the log that the copy has applied completely. Files that it cannot remove now are removed by a later call.
func (m *Import) prune(ctx context.Context) {
	infos, err := m.store.List(ctx, manifest.TimelineFolder(m.copied.Timeline))
	if err != nil || m.copied.Timeline == "" {
		return
	}
	for _, info := range infos {
		if file := fileOf(info.Name, m.copied.Timeline); file != "" && binlog.Older(file, m.copied.Position.File) {
			_ = m.store.Delete(ctx, info.Name)
		}
	}
}

// cutOver completes the import if the source receives no writes (see atRest) and the copy equals the source.
func (m *Import) cutOver(ctx context.Context) (bool, error) {
	began := time.Now()
	end, err := m.reach(ctx)
	if err != nil || end == nil {
		return false, err
	}
	before := m.copied.Transactions
	if end, err = m.reach(ctx); err != nil || end == nil {
		return false, err
	}
	if m.copied.Transactions != before {
		m.disturbed(m.copied.Transactions - before)
		return false, nil
	}
	return m.compare(ctx, &rest{began})
}

// cutOverWithoutLog completes the import if the copy equals the source.
func (m *Import) cutOverWithoutLog(ctx context.Context) (bool, error) {
	conn, err := m.connect(ctx)
	if err != nil {
		return false, err
	}
	waits := m.isPrepared(conn)
	conn.Close()
	if waits {
		return false, nil
	}
	return m.compare(ctx, nil)
}

// rest is the time since which the source has received no writes.
type rest struct{ since time.Time }

// atRest is the time for which a source must receive no writes before the cut-over.
const atRest = 2 * time.Second

// disturbed reports that clients have written to the source.
func (m *Import) disturbed(n int64) {
	m.update(func(s *contract.Import) {
		s.Reason, s.Message = contract.ReasonBusy, fmt.Sprintf("the source %s is still written to (%d transactions while the copy was finished): stop the services and events that write to it", m.Server.Address, n)
	})
}

// reach applies all events up to the present position of the source. It returns that position, or nil if the archive has not reached the
// position yet.
func (m *Import) reach(ctx context.Context) (*contract.Position, error) {
	conn, err := m.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if m.isPrepared(conn) {
		return nil, nil
	}
	end, err := conn.Position()
	if err != nil {
		return nil, err
	}
	if end == nil {
		return nil, contract.Errorf(contract.ReasonNoBinaryLog, "%w: the source keeps no binary log any more", restore.ErrBeginAgain)
	}
	for limit := time.Now().Add(10 * m.Interval); ; {
		head, _, failed := m.log.now()
		if failed != nil {
			return nil, nil // the next step reports the failure
		}
		if head.Position.File != "" && !binlog.Before(head.Position, *end) {
			break
		}
		if time.Now().After(limit) || !pause(ctx, 20*time.Millisecond) {
			return nil, ctx.Err()
		}
	}
	_, err = m.copied.Follow(ctx)
	return end, err
}

// isPrepared reports whether the source has prepared XA transactions. The cut-over waits for their end: a commit after the cut-over would
// be lost. If the account may not list prepared transactions, only the log shows them.
func (m *Import) isPrepared(conn *server.Conn) bool {
	n := max(conn.Prepared(), len(m.copied.Prepared))
	if n > 0 {
		m.update(func(s *contract.Import) {
			s.Reason, s.Message = contract.ReasonBusy, isPrepared("the source "+m.Server.Address, n)
		})
	}
	return n > 0
}

// compare compares the copy with the source, and makes the copy the database if they are equal. r is nil for a source without a log.
func (m *Import) compare(ctx context.Context, r *rest) (bool, error) {
	m.enter(contract.ImportComparing)
	difference, err := m.difference(ctx)
	if err != nil {
		return false, err
	}
	if r != nil {
		before := m.copied.Transactions
		pause(ctx, atRest-time.Since(r.since))
		if now, err := m.reach(ctx); err != nil || now == nil {
			return false, err
		}
		if n := m.copied.Transactions - before; n > 0 {
			m.disturbed(n)
			return false, nil
		}
	}
	if !difference.IsNone() {
		why := fmt.Sprintf("the copy differs from the source %s and was not taken into use: %s. Stop all writes to the source, then set cutOver to false, which begins another copy", m.Server.Address, difference)
		return false, m.copied.Refuse(why)
	}
	for _, view := range difference.Views {
		m.copied.Warnings = append(m.copied.Warnings, view+" could not be made")
	}
	if err := m.copied.Finish(ctx); err != nil {
		return false, err
	}
	m.tables, m.rows = difference.Tables, difference.Total
	m.enter(contract.ImportDone)
	return true, nil
}

func (m *Import) difference(ctx context.Context) (*restore.Difference, error) {
	var mu sync.Mutex
	d, err := restore.Compare(func() (*server.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		conn, err := m.connect(ctx)
		if err != nil {
			return nil, err
		}
		if err := conn.Limit(time.Time{}); err != nil { // reading a large table takes long
			conn.Close()
			return nil, err
		}
		return conn, nil
	}, func() (*server.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		return m.copied.Connect(ctx)
	})
	if err != nil || m.waits() != contract.ImportWaiting {
		return d, err
	}
	changed, err := m.redefined(ctx)
	d.Objects = append(d.Objects, changed...)
	return d, err
}
