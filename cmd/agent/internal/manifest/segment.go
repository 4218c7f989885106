// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"fmt"
	"path"
	"regexp"
	"time"

	"d3os.com/d3os-operator/cmd/agent/contract"
)

// Segment describes a part of a binary log file: the bytes From to To of it, whole events, as the server has them.
type Segment struct {
	Format int `json:"format"`
	// Timeline is the one that the segment belongs to.
	Timeline string `json:"timeline"`
	File     string `json:"file"`
	From     uint64 `json:"from"`
	To       uint64 `json:"to"`
	// FileTime is when the server began the file. It tells the file from another of the same name.
	FileTime time.Time `json:"fileTime"`
	// Continues is the end of the segment before this one; nil in the first of a timeline.
	Continues *contract.Position `json:"continues,omitempty"`
	// Next is the file that follows where the segment ends its file; else empty.
	Next string `json:"next,omitempty"`
	// FirstTime and LastTime are the times of the first and the last event.
	FirstTime time.Time `json:"firstTime"`
	LastTime  time.Time `json:"lastTime"`
	// Transactions counts those that end in the segment.
	Transactions int64 `json:"transactions"`
	// Source names the data, as in a Backup; empty in segments of older agents.
	Source string `json:"source,omitempty"`
	// Recipients are the public keys to which the segment is encrypted; none: it is not.
	Recipients []string `json:"recipients,omitempty"`
	// Archived is when the segment was written, by the agent's clock.
	Archived time.Time `json:"archived"`
	Object   Object    `json:"object"`
}

// Head is the archive's word that everything up to a position was archived at a time, also when nothing happens.
type Head struct {
	Format   int    `json:"format"`
	Timeline string `json:"timeline"`
	// Position is where the archive stands: all before it is in segments.
	Position contract.Position `json:"position"`
	// Time is when the server had nothing beyond Position, by the server's clock.
	Time time.Time `json:"time"`
	// Source names the data, as in a Backup.
	Source string `json:"source,omitempty"`
	// Reason says why the timeline was begun: First, Gap or Reset.
	Reason string `json:"reason,omitempty"`
	// Lost says why the head cannot be read; then only Timeline and Source are known, by the segments. nil for a good one.
	Lost error `json:"-"`
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
	if err := decode(name, text, s); err != nil {
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
	return h, decode(name, text, h)
}
