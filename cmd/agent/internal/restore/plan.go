// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/binlog"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/seal"
	"d3os.com/d3os-operator/internal/contract"
)

// Until is the end of a replay. The replay stops before the first transaction that was committed at or after Time, or that ends after
// Position. If neither is set, the replay ends with the archive.
type Until struct {
	Time     time.Time
	Position *contract.Position
}

// Plan describes a replay before it starts.
type Plan struct {
	source   Source
	until    Until
	timeline *binlog.Timeline
	// base holds the transactions in a copy of files; nil for a dump. executed holds the transactions before the first segment.
	base, executed binlog.Set
}

// MakePlan returns the plan of a replay. It fails if the archive does not have every segment from the backup to the end of the replay. It
// reads only manifests. If the end is a time and the plan is not by GTID, the caller must also call locate.
func MakePlan(ctx context.Context, s Source, until Until) (*Plan, error) {
	if !until.Time.IsZero() && until.Time.Before(s.Backup.Started) {
		return nil, contract.Errorf(contract.ReasonNotFound, "backup %s was begun at %s, which is after %s: use an older backup", s.Backup.ID,
			s.Backup.Started.Format(time.RFC3339), until.Time.Format(time.RFC3339))
	}
	if s.Backup.HasGTIDs() {
		return planByGTID(ctx, s, until)
	}
	timeline, err := binlog.For(ctx, s.Store, s.Backup)
	if err != nil {
		return nil, err
	}
	p := &Plan{source: s, until: until, timeline: timeline}
	return p, p.reaches()
}

// reaches returns an error if the segments cannot extend to the end of the replay.
func (p *Plan) reaches() error {
	segments, end := p.timeline.Segments, p.end()
	switch {
	case p.until.Position != nil:
		if binlog.Before(end, *p.until.Position) {
			return p.short(fmt.Sprintf("position %s:%d", p.until.Position.File, p.until.Position.Offset))
		}
		return nil
	case p.until.Time.IsZero():
		return p.timeline.Broken
	}
	mayReach := slices.ContainsFunc(segments, func(s manifest.Segment) bool {
		return !s.LastTime.Before(p.until.Time) || !s.NotBefore.Before(p.until.Time)
	})
	if !mayReach && (p.timeline.Broken != nil || p.until.Time.After(p.timeline.Head.Time)) {
		return p.short(p.until.Time.Format(time.RFC3339))
	}
	return nil
}

// end returns the end of the last segment.
func (p *Plan) end() contract.Position {
	last := p.timeline.Segments[len(p.timeline.Segments)-1]
	return contract.Position{File: last.File, Offset: last.To}
}

func (p *Plan) short(wanted string) error {
	if p.timeline.Broken != nil {
		return contract.Errorf(contract.ReasonDamaged, "the archive does not reach %s: %w", wanted, p.timeline.Broken)
	}
	return contract.Errorf(contract.ReasonNotFound, "the archive does not reach %s: it ends at %s", wanted, p.timeline.Head.Time.Format(time.RFC3339))
}

// Transactions reports whether the replay may have transactions.
func (p *Plan) Transactions() bool { return true }

// Beyond counts the archived transactions after a backup, for a restore without a replay.
func Beyond(ctx context.Context, source Source) (*contract.Later, error) {
	p, err := MakePlan(ctx, source, Until{Position: source.Backup.Position})
	if err != nil {
		return nil, err
	}
	s := &spool{plan: p, dry: true, stop: *source.Backup.Position}
	if _, err := s.batch(ctx); err != nil {
		return nil, err
	}
	return &s.later, nil
}

// opens returns an error unless the private keys decrypt the segments. It reads only the beginning of one segment for each set of keys.
func (p *Plan) opens(ctx context.Context) error {
	seen := map[string]bool{}
	for _, segment := range slices.Concat(p.timeline.Earlier, p.timeline.Segments) {
		keys := cmp.Or(strings.Join(segment.Recipients, " "), segment.Name()) // older agents recorded no Recipients: check each of their segments
		if seen[keys] || !strings.HasSuffix(segment.Object.Name, ".age") {
			continue
		}
		seen[keys] = true
		name := manifest.TimelineFolder(segment.Timeline) + segment.File + "/" + segment.Object.Name
		content, err := p.source.Store.Get(ctx, name, 0)
		if err != nil {
			return missing(err)
		}
		r, err := seal.NewReader(content, segment.Object, p.source.Identities)
		if err == nil {
			r.Close()
		}
		if err = errors.Join(err, content.Close()); err != nil {
			return err
		}
	}
	return nil
}
