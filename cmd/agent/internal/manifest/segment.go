// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"fmt"
	"path"
	"regexp"
	"time"

	"d3os.com/d3os-operator/internal/contract"
)

// Segment describes a part of a binary log file: the bytes From to To of the server's file, which are complete events.
type Segment struct {
	Format int `json:"format"`
	// Timeline is the ID of the segment's timeline.
	Timeline string `json:"timeline"`
	File     string `json:"file"`
	From     uint64 `json:"from"`
	To       uint64 `json:"to"`
	// FileTime is the time at which the server began the file. It distinguishes files of the same name.
	FileTime time.Time `json:"fileTime"`
	// Continues is the end of the previous segment; nil in the first segment of a timeline.
	Continues *contract.Position `json:"continues,omitempty"`
	// Next is the next file if the segment is the last one in its file; otherwise empty.
	Next string `json:"next,omitempty"`
	// FirstTime and LastTime are the times of the first and the last event.
	FirstTime time.Time `json:"firstTime"`
	LastTime  time.Time `json:"lastTime"`
	// NotBefore and NotAfter bound the times at which the segment's transactions were committed, by the server's clock. Sessions can set the
	// times of events. Zero: not known.
	NotBefore time.Time `json:"notBefore,omitzero"`
	NotAfter  time.Time `json:"notAfter,omitzero"`
	// Transactions is the number of transactions that end in the segment.
	Transactions int64 `json:"transactions"`
	// Source names the data, as in a Backup; empty in segments of older agents.
	Source string `json:"source,omitempty"`
	// Recipients are the public keys to which the segment is encrypted; none for a segment without encryption.
	Recipients []string `json:"recipients,omitempty"`
	// Archived is the time at which the segment was written, by the agent's clock.
	Archived time.Time `json:"archived"`
	Object   Object    `json:"object"`

	// The following fields belong to a timeline by GTID. The archive itself creates the files of such a timeline, with transactions of
	// several servers. Before and Executed are the GTIDs of all transactions of the database before the segment, and at its end.
	Before   string `json:"before,omitempty"`
	Executed string `json:"executed,omitempty"`
	// CommittedBy is the latest commit time of the transactions before the segment.
	CommittedBy time.Time `json:"committedBy,omitzero"`
	// FirstCommit and LastCommit are the earliest and the latest commit time of the transactions that end in the segment.
	FirstCommit time.Time `json:"firstCommit,omitzero"`
	LastCommit  time.Time `json:"lastCommit,omitzero"`
	// Unclear are time spans with two possible states of the database, because the clock of a server was behind the clock of earlier
	// transactions; nil for none.
	Unclear *Span `json:"unclear,omitempty"`
}

// ClockSteps is the maximum difference between times in a log and true times while no clock is set: the clocks of agent and server differ,
// and a long transaction has an earlier time than transactions that were committed before it.
const ClockSteps = 10 * time.Minute

// lateCommit is the time for which a commit may wait after the start of its statement, such as for the lock of a backup.
const lateCommit = 10 * time.Second

// Latest returns a time after all commits of the segment, by the server's clock, or by the agent's clock if the segment has no such time.
func (s *Segment) Latest() time.Time {
	if s.NotAfter.IsZero() {
		return s.Archived.Add(ClockSteps)
	}
	return s.NotAfter
}

// IsPossible reports whether a transaction of the segment can have been committed at the time in its event.
func (s *Segment) IsPossible(at time.Time) bool {
	return !at.After(s.Latest()) && !at.Before(s.NotBefore.Truncate(time.Second).Add(-lateCommit))
}

// Committed returns the time of a transaction's event, or the bound if the time exceeds a bound.
func (s *Segment) Committed(at time.Time) time.Time {
	switch {
	case s.IsPossible(at):
		return at
	case at.Before(s.NotBefore):
		return s.NotBefore
	}
	return s.Latest()
}

// Span is the time after From, up to and including To.
type Span struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// Has reports whether a time is in the span.
func (s *Span) Has(t time.Time) bool { return s != nil && t.After(s.From) && !t.After(s.To) }

// Head records that everything up to a position was archived at a time, even if the server had no new events.
type Head struct {
	Format   int    `json:"format"`
	Timeline string `json:"timeline"`
	// Position is the end of the archive: segments contain all events before it.
	Position contract.Position `json:"position"`
	// Time is a time at which the server had no event after Position, by the server's clock.
	Time time.Time `json:"time"`
	// Source names the data, as in a Backup.
	Source string `json:"source,omitempty"`
	// Reason is the cause for which the timeline began: First, Gap, Reset, Damaged or Superseded.
	Reason string `json:"reason,omitempty"`

	// ByGTID: the timeline has the transactions of a replicated database, whichever member they were read from.
	ByGTID bool `json:"byGTID,omitempty"`
	// Begin are the GTIDs of all transactions before the timeline, and From is a time after the last one.
	Begin string    `json:"begin,omitempty"`
	From  time.Time `json:"from,omitzero"`
	// Epoch is the epoch of the last primary. Epochs of one Writer are counted together.
	Epoch  int64  `json:"epoch,omitempty"`
	Writer string `json:"writer,omitempty"`
	// Superseded: the end of the timeline has transactions that the database has lost; nil for none.
	Superseded *Superseded `json:"superseded,omitempty"`

	// Lost is the reason why the head cannot be read; nil for a readable head. If it is set, only Timeline and Source are known: the
	// segments have them.
	Lost error `json:"-"`
}

// Superseded describes the end of a timeline whose transactions the database has lost.
type Superseded struct {
	// At is the last moment before it.
	At time.Time `json:"at"`
	// GTIDs are the transactions that were lost, and Epoch is the epoch of the primary that lacks them.
	GTIDs string `json:"gtids"`
	Epoch int64  `json:"epoch"`
}

// HeadName is the name of a timeline's Head in its folder.
const HeadName = "head.json"

var timelinePattern = regexp.MustCompile(`^\d{8}T\d{6}Z-[0-9a-f]{8}$`)

// TimelineFolder returns where a timeline is, with a slash at its end.
func TimelineFolder(timeline string) string { return BinLogs + timeline + "/" }

// Stem returns the name of a segment's objects in its timeline's folder, without the ends of their names. Names sort by
// position within a file.
func Stem(file string, from, to uint64) string {
	return fmt.Sprintf("%s/%016d-%016d", file, from, to)
}

// Name returns the name of a segment's manifest in the store.
func (s *Segment) Name() string {
	return TimelineFolder(s.Timeline) + Stem(s.File, s.From, s.To) + ".json"
}

// End returns the position that the next segment continues.
func (s *Segment) End() contract.Position {
	if s.Next != "" {
		return contract.Position{File: s.Next, Offset: 4}
	}
	return contract.Position{File: s.File, Offset: s.To}
}

// DecodeSegment reads the manifest of a segment that the store has under a name.
func DecodeSegment(name string, text []byte) (*Segment, error) {
	s := &Segment{}
	if err := decode(name, text, FormatGTID, s); err != nil {
		return nil, err
	}
	if !timelinePattern.MatchString(s.Timeline) || s.File != path.Base(s.File) || s.From < 4 || s.To < s.From || s.Name() != name {
		return nil, contract.Errorf(contract.ReasonDamaged, "manifest %s is of another segment", name)
	}
	if s.Object.Name != path.Base(s.Object.Name) || len(s.Object.SHA256) != 64 {
		return nil, contract.Errorf(contract.ReasonDamaged, "manifest %s names an object %q that cannot be one", name, s.Object.Name)
	}
	return s, nil
}

// DecodeHead reads a timeline's Head.
func DecodeHead(name string, text []byte) (*Head, error) {
	h := &Head{}
	return h, decode(name, text, FormatGTID, h)
}
