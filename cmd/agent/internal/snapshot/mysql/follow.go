// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-mysql-org/go-mysql/replication"

	"d3os.com/d3os-operator/cmd/agent/internal/binlog"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

// stream is a connection to a member, and the position up to which it was read.
type stream struct {
	from    member
	login   server.Options
	version server.Version
	syncer  *replication.BinlogSyncer
	tracker binlog.Tracker
	at      mysqlmember.Position // position in the member's log
	format  []byte               // the event that must begin each file
	id      string               // GTID of the current transaction
	looked  time.Time            // when the members were last queried
	proved  time.Time            // when the members last proved a position
	since   time.Time            // when this connection began
	aim     *aim
}

// file is the archive's current file.
type file struct {
	name    string
	offset  uint64
	isNew   bool // the next transaction begins a new file
	buffer  bytes.Buffer
	segment manifest.Segment
	first   time.Time // when the first event was added to the buffer
	began   time.Time
}

func (f *follower) close() {
	if f.syncer != nil {
		f.syncer.Close()
	}
}

// pace returns the interval between queries of the members: a tenth of Interval, at least 200 ms and at most 2 s.
func (f *follower) pace() time.Duration {
	return min(max(f.Interval/10, 200*time.Millisecond), 2*time.Second)
}

// follow reads transactions until the context ends, a request fails, or the archive must read from another member.
func (f *follower) follow(ctx context.Context) error {
	f.isNew, f.since, f.proved = true, time.Now(), time.Now()
	if f.tracker.Original = true; f.last != nil {
		f.name, f.offset = f.last.File, f.last.Offset
	}
	var events *replication.BinlogStreamer
	var err error
	f.syncer, events, err = binlog.Follow(binlog.Options{Server: f.login, Interval: f.Interval}, f.version, f.have)
	if err != nil {
		return err
	}
	for {
		wait, cancel := context.WithTimeout(ctx, f.pace())
		event, err := events.GetEvent(wait)
		cancel()
		switch {
		case err == nil:
			if err := f.take(ctx, event.RawData); err != nil {
				return err
			}
		case ctx.Err() != nil:
			return ctx.Err()
		case !errors.Is(err, context.DeadlineExceeded):
			return binlog.Failed(f.login, err)
		}
		if time.Since(f.looked) >= f.pace() {
			if err := f.lookAgain(ctx); err != nil {
				return err
			}
		}
		if err := f.reach(ctx); err != nil {
			return err
		}
		if f.buffer.Len() > 0 && !f.tracker.IsOpen() && time.Since(f.first) >= f.Interval/2 {
			if err := f.flush(ctx); err != nil {
				return err
			}
		}
	}
}

// lookAgain queries the members for safe transactions. It fails with errMoved if the archive must read from another member.
func (f *follower) lookAgain(ctx context.Context) error {
	members, problem := f.look(ctx)
	f.looked = time.Now()
	p, err := f.prove(members)
	if err != nil {
		if time.Since(f.proved) > 3*f.Interval {
			return errors.Join(err, problem)
		}
		f.aim = nil
		return nil // the failure may be temporary
	}
	f.proved = time.Now()
	if !p.isOf(f.proof) {
		return errMoved
	}
	f.proof = p
	_, isVoter := p.voter(f.from.State.Server)
	isPrimary := p.primary.State.Server == f.from.State.Server
	switch {
	case !isVoter && !isPrimary:
		return errMoved
	case isPrimary && p.primary.State.Demands > 0 && time.Since(f.since) > f.Interval && !f.Unproven && !f.tracker.IsOpen():
		return errMoved
	}
	if f.aim == nil {
		f.aim = &aim{at: p.primary.State.Clock, end: p.primary.State.End}
		return nil
	}
	return f.aim.take(p)
}

// take processes an event. Before a transaction's first event, it waits until the transaction is safe.
func (f *follower) take(ctx context.Context, raw []byte) error {
	f.tracker.Jump(raw)
	e, err := f.tracker.Next(raw)
	if errors.Is(err, binlog.ErrUnknownType) {
		return errors.Join(contract.Errorf(contract.ReasonRefused, "archive the log of member %d: %w", f.from.ordinal, err), f.flush(ctx))
	}
	if err != nil {
		return contract.Errorf(contract.ReasonServerUnreachable, "archive the log of member %d: %w", f.from.ordinal, err)
	}
	switch {
	case e.Format:
		f.format, f.isNew = slices.Clone(raw), true
	case e.Opens:
		if err := f.open(ctx, e); err != nil {
			return err
		}
		fallthrough
	case f.id != "":
		if err := f.add(ctx, raw, e); err != nil {
			return err
		}
	case !e.Artificial && !binlog.IsOutside(raw):
		return errors.Join(contract.Errorf(contract.ReasonRefused, "archive the log of member %d: an event of type %d at offset %d belongs to no transaction with a GTID", f.from.ordinal, raw[4], f.tracker.Offset), f.flush(ctx))
	}
	if e.Next != "" && e.Next != f.at.File {
		f.at = mysqlmember.Position{File: e.Next, Offset: binlog.FirstOffset}
	} else {
		f.at.Offset = max(f.at.Offset, binlog.EndOf(raw)) // a heartbeat reports the end of skipped events
	}
	return nil
}

// open begins a transaction when the transaction is safe.
func (f *follower) open(ctx context.Context, e binlog.Event) error {
	switch {
	case e.ID == "":
		return errors.Join(contract.Errorf(contract.ReasonRefused, "archive the log of member %d: the transaction at offset %d has no GTID, or one with a tag, which this agent does not support", f.from.ordinal, f.tracker.Offset), f.flush(ctx))
	case f.have.Has(e.ID):
		return contract.Errorf(contract.ReasonServerUnreachable, "member %d sent transaction %s, which the archive already has", f.from.ordinal, e.ID)
	case len(f.format) == 0:
		return contract.Errorf(contract.ReasonServerUnreachable, "member %d sent a transaction before it described its log", f.from.ordinal)
	}
	for !f.Unproven && !f.proof.safe.Has(e.ID) {
		if wait := f.pace()/2 - time.Since(f.looked); wait > 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(wait):
			}
		}
		if err := f.lookAgain(ctx); err != nil {
			return err
		}
	}
	f.id = e.ID
	if f.isNew || f.offset >= uint64(f.MaxFile) { //nolint:gosec // a size
		return f.next(ctx)
	}
	return nil
}

// add appends an event of a transaction to the file.
func (f *follower) add(ctx context.Context, raw []byte, e binlog.Event) error {
	f.put(raw, e.Time)
	if e.Ends {
		if err := f.have.Add(f.id); err != nil {
			return contract.Errorf(contract.ReasonFailed, "%w", err)
		}
		f.id = ""
		f.count(e.Commit)
	}
	if f.buffer.Len() >= f.MaxBytes {
		return f.flush(ctx)
	}
	return nil
}

// count records the commit time of a transaction. If this time is before the commit time of a previous transaction, or before a time that
// the archive has reached, the state of the database between the two times is ambiguous.
func (f *follower) count(commit time.Time) {
	s := &f.segment
	s.Transactions++
	if s.FirstCommit.IsZero() || commit.Before(s.FirstCommit) {
		s.FirstCommit = commit
	}
	if commit.After(s.LastCommit) {
		s.LastCommit = commit
	}
	if commit.After(f.latest) {
		f.latest = commit
	}
	if commit.Before(f.high) {
		if s.Unclear == nil {
			s.Unclear = &manifest.Span{From: commit, To: f.high}
		}
		if commit.Before(s.Unclear.From) {
			s.Unclear.From = commit
		}
		if f.high.After(s.Unclear.To) {
			s.Unclear.To = f.high
		}
		return
	}
	f.high = commit
}

// put appends an event to the file.
func (f *follower) put(raw []byte, at time.Time) {
	moved := binlog.Moved(raw, f.offset, f.tracker.IsChecked())
	if f.buffer.Len() == 0 {
		f.first = time.Now()
		f.start(at)
	}
	_, _ = f.buffer.Write(moved) // cannot fail
	f.offset += uint64(len(moved))
	f.segment.To, f.segment.LastTime = f.offset, at
}

// start begins a segment.
func (f *follower) start(at time.Time) {
	f.segment = manifest.Segment{
		Format: manifest.FormatGTID, Timeline: f.head.Timeline, File: f.name, From: f.offset, To: f.offset, FileTime: f.began, Continues: f.last, FirstTime: at, LastTime: at,
		Source: f.Source, Recipients: f.Keys, Before: f.have.String(), CommittedBy: f.latest,
	}
}
