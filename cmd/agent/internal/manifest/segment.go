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

// Segment describes a part of a binary log file: the bytes From to To of the server's file. It contains only complete events.
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
	// Next is the next file if this segment ends its file; otherwise empty.
	Next string `json:"next,omitempty"`
	// FirstTime and LastTime are the times of the first and the last event.
	FirstTime time.Time `json:"firstTime"`
	LastTime  time.Time `json:"lastTime"`
	// NotBefore and NotAfter bound the commit times of the segment's transactions, by the server's clock. (Event times are unreliable:
	// sessions can set them.) Zero: unknown.
	NotBefore time.Time `json:"notBefore,omitzero"`
	NotAfter  time.Time `json:"notAfter,omitzero"`
	// Transactions is the number of transactions whose end is in the segment.
	Transactions int64 `json:"transactions"`
	// Source names the data, as in a Backup; empty in segments of older agents.
	Source string `json:"source,omitempty"`
	// Recipients are the public keys for which the segment is encrypted; none if it is not encrypted.
	Recipients []string `json:"recipients,omitempty"`
	// Archived is the time at which the agent wrote the segment, by the agent's clock.
	Archived time.Time `json:"archived"`
	Object   Object    `json:"object"`

	// Before and the following fields belong to a timeline by GTID. The archive itself creates the files of such a timeline, with
	// transactions of several servers. Before lists the GTIDs of all transactions before the segment. Executed lists the GTIDs of
	// all transactions up to the segment's end.
	Before   string `json:"before,omitempty"`
	Executed string `json:"executed,omitempty"`
	// CommittedBy is the latest commit time of the transactions before the segment.
	CommittedBy time.Time `json:"committedBy,omitzero"`
	// FirstCommit and LastCommit are the earliest and the latest commit time among the transactions that end in the segment.
	FirstCommit time.Time `json:"firstCommit,omitzero"`
	LastCommit  time.Time `json:"lastCommit,omitzero"`
	// Unclear is a time span in which the state of the database is ambiguous, because the clock of a server was behind
	// the times of earlier transactions; nil for none.
	Unclear *Span `json:"unclear,omitempty"`
}

// ClockSteps is the maximum difference between times in a log and true times while no clock is set. The clocks of agent
// and server may differ. A long transaction has an earlier time than transactions that were committed before it.
const ClockSteps = 10 * time.Minute

// lateCommit is the maximum delay of a commit after the start of its statement, for example because of the lock of a backup.
const lateCommit = 10 * time.Second

// Latest returns a time after all commits of the segment, by the server's clock. If the segment has no such time, Latest uses the
// agent's clock.
func (s *Segment) Latest() time.Time {
	if s.NotAfter.IsZero() {
		return s.Archived.Add(ClockSteps)
	}
	return s.NotAfter
}

// IsPossible reports whether the time in an event can be the commit time of a transaction of the segment.
func (s *Segment) IsPossible(at time.Time) bool {
	return !at.After(s.Latest()) && !at.Before(s.NotBefore.Truncate(time.Second).Add(-lateCommit))
}

// Committed returns the time in a transaction's event, limited to the segment's bounds.
func (s *Segment) Committed(at time.Time) time.Time {
	switch {
	case s.IsPossible(at):
		return at
	case at.Before(s.NotBefore):
		return s.NotBefore
	}
	return s.Latest()
}

// Span is a time span that excludes From and includes To.
type Span struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// Has reports whether a time is in the span.
func (s *Span) Has(t time.Time) bool { return s != nil && t.After(s.From) && !t.After(s.To) }

// Head records the position up to which the archive was complete at a certain time. It is updated even if the server has no new events.
type Head struct {
	Format   int    `json:"format"`
	Timeline string `json:"timeline"`
	// Position is the end of the archive: the segments contain all earlier events.
	Position contract.Position `json:"position"`
	// Time is a time at which the server had no event after Position, by the server's clock.
	Time time.Time `json:"time"`
	// Source names the data, as in a Backup.
	Source string `json:"source,omitempty"`
	// Reason is the reason for which the timeline began: First, Gap, Reset, Damaged or Superseded.
	Reason string `json:"reason,omitempty"`

	// ByGTID: the timeline contains the transactions of a replicated database, read from any of its members.
	ByGTID bool `json:"byGTID,omitempty"`
	// Begin lists the GTIDs of all transactions before the timeline. From is a time after the last of these transactions.
	Begin string    `json:"begin,omitempty"`
	From  time.Time `json:"from,omitzero"`
	// Epoch is the epoch of the last primary. All timelines of a Writer use the same sequence of epochs.
	Epoch  int64  `json:"epoch,omitempty"`
	Writer string `json:"writer,omitempty"`
	// Superseded describes transactions at the end of the timeline that the database has lost; nil for none.
	Superseded *Superseded `json:"superseded,omitempty"`

	// Lost is the reason why the head cannot be read; nil for a readable head. If it is set, only Timeline and Source are known, from the
	// segments.
	Lost error `json:"-"`
}

// Superseded describes transactions at the end of a timeline that the database has lost.
type Superseded struct {
	// At is the latest time to which the timeline can be restored: none of these transactions was committed before.
	At time.Time `json:"at"`
	// GTIDs are the GTIDs of these transactions. Epoch is the epoch of the primary that lacks them.
	GTIDs string `json:"gtids"`
	Epoch int64  `json:"epoch"`
}

// HeadName is the name of a timeline's Head in its folder.
const HeadName = "head.json"

var timelinePattern = regexp.MustCompile(`^\d{8}T\d{6}Z-[0-9a-f]{8}$`)

// TimelineFolder returns the folder of a timeline, with a trailing slash.
func TimelineFolder(timeline string) string { return BinLogs + timeline + "/" }

// Stem returns the name of a segment's objects in the timeline's folder, without suffixes. Names sort by position within a file.
func Stem(file string, from, to uint64) string {
	return fmt.Sprintf("%s/%016d-%016d", file, from, to)
}

// Name returns the name of a segment's manifest in the store.
func (s *Segment) Name() string {
	return TimelineFolder(s.Timeline) + Stem(s.File, s.From, s.To) + ".json"
}

// End returns the position at which the next segment begins.
func (s *Segment) End() contract.Position {
	if s.Next != "" {
		return contract.Position{File: s.Next, Offset: 4}
	}
	return contract.Position{File: s.File, Offset: s.To}
}

// DecodeSegment reads the manifest of a segment. name is its name in the store.
func DecodeSegment(name string, text []byte) (*Segment, error) {
	s := &Segment{}
	if err := decode(name, text, FormatGTID, s); err != nil {
		return nil, err
	}
	if !timelinePattern.MatchString(s.Timeline) || s.File != path.Base(s.File) || s.From < 4 || s.To < s.From || s.Name() != name {
		return nil, contract.Errorf(contract.ReasonDamaged, "manifest %s is invalid, or describes another segment", name)
	}
	if s.Object.Name != path.Base(s.Object.Name) || len(s.Object.SHA256) != 64 {
		return nil, contract.Errorf(contract.ReasonDamaged, "manifest %s has an invalid entry for object %q", name, s.Object.Name)
	}
	return s, nil
}

// DecodeHead reads a timeline's Head.
func DecodeHead(name string, text []byte) (*Head, error) {
	h := &Head{}
	return h, decode(name, text, FormatGTID, h)
}
