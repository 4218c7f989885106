// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/binlog"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/seal"
	"d3os.com/d3os-operator/internal/contract"
)

// moment finds the position that corresponds to a time in the log of one server. Sessions can set the times of their events (SET
// timestamp), so only the bounds of segments are reliable. moment reads events only in segments that may have transactions on both sides of
// the time.
type moment struct {
	plan  *Plan
	until time.Time
	// last is the end of the last transaction that was committed before the time.
	last contract.Position
	// stop is a position in the first transaction after the time: the end of this transaction, or the first byte of its segment.
	// stop is nil until it is found. isProven reports whether the bounds of a segment prove that the position is after the time.
	stop     *contract.Position
	isProven bool
	// doubts are the transactions between last and stop whose events have impossible times.
	doubts []doubt
	// floor is NotBefore of the previous segment. It replaces a NotBefore that a segment lacks.
	floor time.Time
}

// doubt is a transaction that was committed at an unknown time within the bounds of its segment.
type doubt struct {
	end     contract.Position
	at      time.Time
	segment manifest.Segment
}

// locate replaces the time of a plan by a position. It fails unless the archive proves exactly one position.
func (p *Plan) locate(ctx context.Context) error {
	if p.until.Time.IsZero() || p.until.Position != nil || p.base != nil {
		return nil
	}
	m := &moment{plan: p, until: p.until.Time}
	for i, segment := range p.timeline.Segments {
		if segment.Transactions == 0 {
			continue
		}
		if segment.NotBefore.IsZero() {
			segment.NotBefore = m.floor
		}
		if err := m.take(ctx, i, segment); err != nil {
			return err
		}
		m.floor = segment.NotBefore
	}
	return m.settle()
}

// take processes a segment with transactions.
func (m *moment) take(ctx context.Context, i int, segment manifest.Segment) error {
	isBefore, isAfter := segment.Latest().Before(m.until.Truncate(time.Second)), !segment.NotBefore.Before(m.until)
	switch {
	case isBefore && isAfter, !isAfter && m.isProven, isBefore && m.stop != nil:
		return m.twice(contract.Position{File: segment.File, Offset: segment.From})
	case isAfter && m.stop == nil:
		m.stop, m.isProven = &contract.Position{File: segment.File, Offset: segment.From + 1}, true
	case isAfter:
		m.isProven = true
	case isBefore:
		m.last, m.doubts = contract.Position{File: segment.File, Offset: segment.To}, nil
	case m.stop != nil && segment.NotBefore.IsZero(): // written by an older agent; not read, because there may be many such segments
		if segment.LastTime.Before(m.until.Add(-manifest.ClockSteps)) {
			return m.twice(contract.Position{File: segment.File, Offset: segment.From})
		}
	default:
		return m.read(ctx, i, segment)
	}
	return nil
}

// read reads the events of a segment. The first transaction may begin in an earlier segment. Therefore read starts at the last earlier
// segment in which a transaction ends.
func (m *moment) read(ctx context.Context, i int, segment manifest.Segment) error {
	segments, tracker, first := m.plan.timeline.Segments, binlog.Tracker{Offset: binlog.FirstOffset}, i
	for segments[first].From != binlog.FirstOffset && (first == i || segments[first].Transactions == 0) {
		first--
	}
	begin := first
	for segments[begin].From != binlog.FirstOffset {
		begin--
	}
	if begin < first {
		if err := describe(ctx, m.plan.source, segments[begin], &tracker); err != nil {
			return err
		}
		tracker.Offset = segments[first].From
	}
	for j := first; j <= i; j++ {
		err := readSegment(ctx, m.plan.source, segments[j], func(raw []byte) error {
			e, err := tracker.Next(raw)
			if err != nil || !e.Ends || j < i {
				return err
			}
			return m.ended(e, contract.Position{File: segment.File, Offset: tracker.Offset}, segment)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ended processes the end of a transaction.
func (m *moment) ended(e binlog.Event, here contract.Position, segment manifest.Segment) error {
	limit := m.until
	if !e.Exact {
		limit = limit.Truncate(time.Second) // the server's times have whole seconds
	}
	switch {
	case !segment.IsPossible(e.Commit):
		if m.stop == nil {
			m.doubts = append(m.doubts, doubt{here, e.Commit, segment})
		}
	case m.stop == nil && !e.Commit.Before(limit):
		m.stop = &here
	case m.stop == nil:
		m.last, m.doubts = here, nil
	case e.Commit.Before(limit.Add(-manifest.ClockSteps)):
		return m.twice(here)
	}
	return nil
}

// twice returns the error for a time that fits two positions, because later transactions in the log have earlier times.
func (m *moment) twice(later contract.Position) error {
	return contract.Errorf(contract.ReasonRefused, "the log reaches the time %s twice: after it, near %s:%d, the log has earlier times again, because the server's clock or the timestamp of a session was set. %s",
		m.until.Format(time.RFC3339), later.File, later.Offset, m.choose("the first occurrence of the time", "a later occurrence", &later))
}

// choose names the positions that a user can set instead of the time.
func (m *moment) choose(before, after string, end *contract.Position) string {
	last := m.last
	if backup := *m.plan.source.Backup.Position; last.File == "" || binlog.Before(last, backup) {
		last = backup
	}
	return fmt.Sprintf("Restore backup %s to a position (backup and toPosition of a DataRestore, --backup and --to-position of the agent): %s:%d for %s, %s:%d for %s", m.plan.source.Backup.ID, last.File, last.Offset, before, end.File, end.Offset, after)
}

// settle stores the found position in the plan.
func (m *moment) settle() error {
	p, backup := m.plan, *m.plan.source.Backup.Position
	if m.stop == nil && (p.timeline.Broken != nil || m.until.After(p.timeline.Head.Time)) {
		return p.short(m.until.Format(time.RFC3339))
	}
	for _, d := range m.doubts {
		if binlog.Before(backup, d.end) {
			return contract.Errorf(contract.ReasonRefused, "the transaction that ends at %s:%d has the time %s, but was committed between %s and %s: a session has set its timestamp, or the transaction took long. So it may belong before or after %s. %s",
				d.end.File, d.end.Offset, d.at.Format(time.RFC3339), d.segment.NotBefore.Format(time.RFC3339), d.segment.Latest().Format(time.RFC3339), m.until.Format(time.RFC3339),
				m.choose("the state without this transaction", "the state with this transaction", &d.end))
		}
	}
	if m.stop != nil && !binlog.Before(backup, *m.stop) {
		return contract.Errorf(contract.ReasonNotFound, "backup %s has transactions that were committed at %s or later: use an older backup", p.source.Backup.ID, m.until.Format(time.RFC3339))
	}
	if m.last.File == "" || binlog.Before(m.last, backup) {
		m.last = backup
	}
	p.until.Position = &m.last
	return nil
}

// errEnough ends the reading of a segment early.
var errEnough = errors.New("the rest is not needed")

// describe reads the first event of a file into a tracker. This event shows whether the events of the file have
// checksums.
func describe(ctx context.Context, source Source, segment manifest.Segment, tracker *binlog.Tracker) error {
	err := readSegment(ctx, source, segment, func(raw []byte) error {
		_, err := tracker.Next(raw)
		return cmp.Or(err, errEnough)
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// readSegment calls visit with each event of a segment. Then it verifies the segment's hash.
func readSegment(ctx context.Context, source Source, segment manifest.Segment, visit func(raw []byte) error) error {
	name := manifest.TimelineFolder(segment.Timeline) + segment.File + "/" + segment.Object.Name
	content, err := source.Store.Get(ctx, name, 0)
	if err != nil {
		return missing(err)
	}
	defer content.Close()
	r, err := seal.NewReader(content, segment.Object, source.Identities)
	if err != nil {
		return err
	}
	defer r.Close()
	in := bufio.NewReaderSize(r, 1<<20)
	for {
		raw, err := readEvent(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = visit(raw)
		}
		if errors.Is(err, errEnough) {
			return err
		}
		if err != nil {
			return damagedSegment(name, err)
		}
	}
}
