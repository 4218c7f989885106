// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/binlog"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/internal/contract"
)

// planByGTID plans the replay after a copy of files. The server skips transactions that the copy has, so the replay begins with the file of
// the first missing transaction. A time belongs to the newest timeline that began before the time.
func planByGTID(ctx context.Context, s Source, until Until) (*Plan, error) {
	if until.Position != nil {
		return nil, contract.Errorf(contract.ReasonRefused, "the archive of a MySQLCluster has no positions: give a time")
	}
	base, err := binlog.ParseSet(s.Backup.Position.GTID)
	if err != nil {
		return nil, err
	}
	all, err := binlog.Continuing(ctx, s.Store, s.Backup)
	if err != nil {
		return nil, err
	}
	timeline := all[len(all)-1]
	for _, t := range slices.Backward(all) {
		if until.Time.IsZero() || !until.Time.Before(t.Head.From) {
			timeline = t
		}
	}
	p := &Plan{source: s, until: until, timeline: timeline, base: base}
	if err := p.reachesByGTID(); err != nil {
		return nil, err
	}
	committed := timeline.CommittedBy()
	if timeline.Segments, err = timeline.From(base); err != nil {
		return nil, err
	}
	if len(timeline.Segments) > 0 {
		committed = timeline.Segments[0].CommittedBy
	}
	if !until.Time.IsZero() && !until.Time.After(committed) {
		return nil, p.olderBackup(committed)
	}
	if p.executed, _, err = timeline.Sets(); err != nil {
		return nil, err
	}
	b := *s.Backup
	b.Position = &contract.Position{Offset: binlog.FirstOffset, GTID: s.Backup.Position.GTID}
	if len(timeline.Segments) > 0 {
		b.Position.File = timeline.Segments[0].File
	} else {
		p.executed = base
	}
	p.source.Backup = &b
	return p, nil
}

// reachesByGTID returns an error unless exactly one state of the database belongs to the end time of the replay. It
// also returns an error if the timeline lacks an earlier transaction.
func (p *Plan) reachesByGTID() error {
	head, at := p.timeline.Head, p.until.Time
	over := head.Superseded
	switch {
	case over != nil && (at.IsZero() || at.After(over.At)):
		return contract.Errorf(contract.ReasonNotFound, "timeline %s of the archive is superseded after %s: the database has lost the later transactions, or was restored. Give a time up to that time, or a backup that was begun later",
			head.Timeline, over.At.Format(time.RFC3339Nano))
	case at.IsZero():
		return p.timeline.Broken
	case at.Before(head.From):
		return contract.Errorf(contract.ReasonNotFound, "timeline %s of the archive begins at %s, which is after %s", head.Timeline, head.From.Format(time.RFC3339Nano), at.Format(time.RFC3339Nano))
	}
	isThere := p.timeline.Broken == nil && !at.After(head.Time)
	for _, s := range p.timeline.Segments {
		if s.Unclear.Has(at) {
			return contract.Errorf(contract.ReasonRefused, "at %s, the archive has two states of the database, because the clock of a primary was behind. Give a time up to %s, or after %s",
				at.Format(time.RFC3339Nano), s.Unclear.From.Format(time.RFC3339Nano), s.Unclear.To.Format(time.RFC3339Nano))
		}
		isThere = isThere || !s.LastCommit.Before(at)
	}
	if !isThere {
		return p.short(at.Format(time.RFC3339))
	}
	return nil
}

func (p *Plan) olderBackup(committed time.Time) error {
	return contract.Errorf(contract.ReasonNotFound, "backup %s has transactions that were committed up to %s, which is not before %s: use an older backup", p.source.Backup.ID,
		committed.Format(time.RFC3339Nano), p.until.Time.Format(time.RFC3339Nano))
}

func (s *spool) isByGTID() bool { return s.plan.base != nil }

// note records the GTIDs of all transactions in a timeline by GTID.
func (s *spool) note(e binlog.Event) error {
	if !s.isByGTID() {
		return nil
	}
	if e.Opens {
		s.id = e.ID
	}
	if e.Ends && s.id != "" {
		_ = s.all.Add(s.id) // cannot fail: the tracker has parsed the GTID
	}
	if !s.tracker.IsOpen() {
		s.whole = s.tracker.Offset
	}
	if s.done && e.Ends && s.plan.base.Has(s.id) {
		return s.plan.olderBackup(e.Commit)
	}
	return nil
}

// byGTID processes the end of a transaction in a timeline by GTID. It fails if the copy of files has a transaction after the end of the
// replay. The server itself skips transactions that the copy has.
func (s *spool) byGTID(e binlog.Event, here contract.Position) error {
	isInBase, late := s.plan.base.Has(s.id), s.late(e, here)
	switch {
	case s.id == "" || !e.Exact:
		return contract.Errorf(contract.ReasonDamaged, "the transaction that ends at %s:%d of the archive has no GTID, or no exact time", here.File, here.Offset)
	case late && isInBase:
		return s.plan.olderBackup(e.Commit)
	case late:
		s.done = true
		s.behind(e)
		return nil
	}
	if err := s.executed.Add(s.id); err != nil {
		return err
	}
	if isInBase {
		return nil
	}
	s.stop, s.at, s.last = here, len(s.files)-1, e.Commit
	s.count++
	if concernsEvents(e.Statement) {
		s.events = append(s.events, eventStatement{e.Schema, e.Statement})
	}
	return nil
}

// compare returns an error unless a segment contains exactly the transactions that its manifest lists.
func (s *spool) compare(name string, segment manifest.Segment) error {
	if !s.isByGTID() {
		return nil
	}
	executed, err := binlog.ParseSet(segment.Executed)
	if err != nil {
		return err
	}
	if !executed.Equal(s.all) {
		return contract.Errorf(contract.ReasonDamaged, "segment %s does not have exactly the transactions in its manifest", name)
	}
	return nil
}

// cutPart removes an incomplete transaction at the end of a relay log: the next file of the archive has the complete transaction.
func (s *spool) cutPart() error {
	if n := len(s.files); s.isByGTID() && !s.dry && n > 0 && s.tracker.Offset > s.whole {
		return os.Truncate(filepath.Join(s.folder, s.files[n-1]), int64(s.whole)) //nolint:gosec // the size of a file
	}
	return nil
}

// isExact returns an error unless the server has exactly the transactions of the copy and the replay.
func (s *spool) isExact(ctx context.Context, i *Instance) error {
	has, err := i.Executed(ctx)
	if err != nil {
		return fmt.Errorf("compare transactions after the replay: %w", err)
	}
	if wants := s.executed.Union(s.plan.base); !has.Equal(wants) {
		return contract.Errorf(contract.ReasonMismatch, "after the restore of backup %s and the replay of the archive, the server has the transactions %s, not %s", s.plan.source.Backup.ID, has, wants)
	}
	return nil
}

// PlanFor returns the plan of the replay after a copy of files. It fails if the archive already shows that the replay cannot succeed.
func PlanFor(ctx context.Context, s Source, until Until) (*Plan, error) {
	p, err := MakePlan(ctx, s, until)
	if err == nil {
		err = p.opens(ctx)
	}
	if err != nil {
		return nil, OfArchive(err)
	}
	return p, nil
}

// Executed returns the transactions of the running server.
func (i *Instance) Executed(ctx context.Context) (binlog.Set, error) {
	c, err := i.Connect(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	text, err := c.Value("SELECT @@GLOBAL.gtid_executed")
	if err != nil {
		return nil, err
	}
	return binlog.ParseSet(text)
}
