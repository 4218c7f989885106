// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/binlog"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// relay is the prefix of the names of relay logs.
const relay = "d3os-relay"

// spool writes segments as relay logs, until the end of the replay.
type spool struct {
	plan    *Plan
	folder  string
	file    *os.File
	out     *bufio.Writer
	files   []string
	tracker binlog.Tracker
	// binary is the binary log file whose events are being read. stop is the end of the replay.
	binary string
	stop   contract.Position // position in the binary log
	at     int               // index of the relay log that contains stop
	done   bool
	gtid   bool
	// present is the segment that is being read.
	present manifest.Segment
	count   int64
	last    time.Time
	// prepared holds the XA transactions that were prepared before the replay and end in it. The replay begins with them.
	prepared prepared
	// The replay starts at the offset from in the relay log with the index first. shift is the offset of an event in
	// the first relay log minus its offset in the binary log.
	first       int
	from, shift uint64
	// copying is the state of the copy of a running server that the replay continues; nil for a replay after a backup.
	copying *following
	// later describes the part of the archive after the end of the replay.
	later contract.Later
	// events holds the replayed statements that may create, change or drop scheduled events.
	events []eventStatement
	// The following fields are for a timeline by GTID. executed holds the transactions up to the end of the replay. all
	// holds the transactions of all segments that were read. id is the GTID of the current transaction. whole is the
	// end of the last complete transaction in the relay log.
	executed, all binlog.Set
	id            string
	whole         uint64
	// dry makes the spool write nothing and count the transactions after the end.
	dry bool
	// bound is the size in bytes at which a batch ends. A batch that reaches bound still includes the rest of the current file. bytes is the
	// size of the batch so far. read is the number of segments that were read.
	bound, bytes uint64
	read         int
	// statuses are the statuses of scheduled events before the replay.
	statuses statuses
}

// defaultBound is the default of bound. The server applies the relay logs of a batch, and the agent removes them. Then
// the agent writes the next batch.
const defaultBound = 512 << 20

// batch writes the next relay logs, one for each file of the binary log, and reports whether they have a transaction.
// The batch ends with the archive. It ends earlier, at the end of a file, if the logs have a transaction and reach the
// bound. The first batch begins with the prepared transactions.
func (s *spool) batch(ctx context.Context) (applies bool, err error) {
	s.later.Reached = s.plan.timeline.Describe().Reached
	if s.read == 0 && !s.dry {
		for _, segment := range s.plan.timeline.Earlier {
			if err := s.segment(ctx, segment); err != nil {
				return false, err
			}
		}
	}
	before := s.count
	s.files, s.bytes = nil, 0
	if s.read > 0 {
		s.from, s.shift = binlog.FirstOffset, 0
	}
	for ; !s.isRead(); s.read++ {
		segment := s.plan.timeline.Segments[s.read]
		if s.done {
			s.later.Transactions += segment.Transactions
			continue
		}
		if !s.dry && segment.File != s.binary && s.bytes >= s.bound && s.count > before {
			break
		}
		if err := s.segment(ctx, segment); err != nil {
			return false, errors.Join(err, s.close())
		}
		s.bytes += segment.To - segment.From
	}
	if err := s.close(); err != nil || s.dry || s.count == before {
		return false, err
	}
	return true, s.cut()
}

// isRead reports whether all segments were read.
func (s *spool) isRead() bool { return s.read == len(s.plan.timeline.Segments) }

// cut removes everything after the last transaction of a batch, so that the server does not apply it. cut also writes the index of the relay
// logs.
func (s *spool) cut() error {
	for _, name := range s.files[s.at+1:] {
		if err := os.Remove(filepath.Join(s.folder, name)); err != nil {
			return err
		}
	}
	s.files = s.files[:s.at+1]
	if err := os.Truncate(filepath.Join(s.folder, s.files[s.at]), int64(s.end())); err != nil { //nolint:gosec // the size of a file
		return err
	}
	index := ""
	for _, name := range s.files {
		index += "./" + name + "\n"
	}
	return os.WriteFile(filepath.Join(s.folder, relay+".index"), []byte(index), 0o640)
}

// segment appends a segment to the relay log of its file.
func (s *spool) segment(ctx context.Context, segment manifest.Segment) error {
	if segment.File != s.binary {
		if err := s.next(segment.File); err != nil {
			return err
		}
	}
	if s.copying.skips(s, segment) {
		return nil
	}
	name := segment.Name()
	if s.tracker.Offset != segment.From {
		return contract.Errorf(contract.ReasonDamaged, "segment %s begins at offset %d, but the previous segment ends at %d", name, segment.From, s.tracker.Offset)
	}
	// After the last event, read the rest of the segment to verify its hash.
	s.present = segment
	if err := readSegment(ctx, s.plan.source, segment, s.event); err != nil {
		return err
	}
	if s.tracker.Offset != segment.To {
		return contract.Errorf(contract.ReasonDamaged, "segment %s ends at offset %d, but at offset %d by its manifest", name, s.tracker.Offset, segment.To)
	}
	return s.compare(name, segment)
}

// next begins the relay log for a file of the binary log.
func (s *spool) next(file string) error {
	if at := *s.plan.source.Backup.Position; s.file != nil && s.binary == at.File && s.tracker.Offset == at.Offset { // the backup's position is the end of this file, so s.event has not begun the replay
		if err := s.begin(at.Offset); err != nil {
			return err
		}
	}
	if err := errors.Join(s.close(), s.cutPart()); err != nil {
		return err
	}
	s.binary, s.tracker = file, binlog.Tracker{Offset: binlog.FirstOffset, Original: s.isByGTID()}
	if s.dry || s.isEarlier() { // of earlier files, only the prepared transactions are needed
		s.out = bufio.NewWriter(io.Discard)
		return nil
	}
	s.files = append(s.files, fmt.Sprintf("%s.%06d", relay, len(s.files)+1))
	var err error
	if s.file, err = os.Create(filepath.Join(s.folder, s.files[len(s.files)-1])); err != nil {
		return err
	}
	s.out = bufio.NewWriterSize(s.file, 1<<20)
	_, err = s.out.Write(binlog.Magic)
	return err
}

// isEarlier reports whether the file is older than the file of the backup's position.
func (s *spool) isEarlier() bool { return binlog.Older(s.binary, s.plan.source.Backup.Position.File) }

// event appends an event, unless the replay ends before the event.
func (s *spool) event(raw []byte) error {
	backup := *s.plan.source.Backup.Position
	if s.binary == backup.File && s.tracker.Offset == backup.Offset {
		if err := s.begin(backup.Offset); err != nil {
			return err
		}
	}
	e, err := s.tracker.Next(raw)
	if err != nil {
		return err
	}
	if err := s.note(e); err != nil {
		return err
	}
	if s.done {
		if e.Ends {
			s.behind(e)
		}
		return nil
	}
	if s.plan.source.Backup.Server.Flavour == server.MySQL {
		inDataFolder(raw, s.tracker.IsChecked())
	}
	if _, err := s.out.Write(raw); err != nil {
		return err
	}
	here := contract.Position{File: s.binary, Offset: s.tracker.Offset}
	after := binlog.Before(backup, here)
	s.gtid = s.gtid || after && e.GTID
	if !after {
		s.prepared.take(raw, e, s.tracker.Offset)
	} else {
		s.copying.take(raw, e, len(s.files)-1, s.tracker.Offset, s.shift)
	}
	if !e.Ends || s.isEarlier() {
		return nil
	}
	if s.isByGTID() {
		return s.byGTID(e, here)
	}
	return s.ended(e, here, after)
}

// ended processes the end of a transaction in a replay after a dump. after reports whether the transaction ends after the backup's
// position.
func (s *spool) ended(e binlog.Event, here contract.Position, after bool) error {
	late := s.late(e, here)
	switch {
	case late && !after:
		return contract.Errorf(contract.ReasonNotFound, "backup %s has transactions that were committed at %s: use an older backup", s.plan.source.Backup.ID, e.Commit.Format(time.RFC3339))
	case late:
		s.done = true
		s.behind(e)
	case after:
		if name := s.prepared.follow(e); name != "" {
			return s.lacks(name, here)
		}
		s.stop, s.at, s.last = here, len(s.files)-1, s.present.Committed(e.Commit)
		s.count++
		if concernsEvents(e.Statement) {
			s.events = append(s.events, eventStatement{e.Schema, e.Statement})
		}
	}
	return nil
}

// behind counts a transaction after the end of the replay.
func (s *spool) behind(e binlog.Event) {
	s.later.Transactions++
	if s.later.First != nil {
		return
	}
	at := e.Commit
	if !s.isByGTID() {
		at = s.present.Committed(at)
	}
	s.later.First = &at
}

// late reports whether a transaction is after the end of the replay. The end is a position or, in a plan by GTID, a
// time.
func (s *spool) late(e binlog.Event, here contract.Position) bool {
	until := s.plan.until
	if until.Position != nil {
		return binlog.Before(*until.Position, here)
	}
	if until.Time.IsZero() {
		return false
	}
	return !e.Commit.Before(until.Time)
}

func (s *spool) close() error {
	if s.file == nil {
		return nil
	}
	err := errors.Join(s.out.Flush(), s.file.Close())
	s.file = nil
	return err
}

// remove removes the files of the replay from the server's folder.
func (s *spool) remove() {
	found, _ := filepath.Glob(filepath.Join(s.folder, relay+"*")) // cannot fail: the pattern is valid
	for _, file := range found {
		_ = os.Remove(file)
	}
}
