// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package binlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
	"d3os.com/d3os-operator/internal/contract"
)

// Timeline is an archived part of the binary log.
type Timeline struct {
	Head manifest.Head
	// Segments are consecutive segments without a gap, by file and offset.
	Segments []manifest.Segment
	// Earlier lists the segments of files before the backup's position that contain the XA transactions prepared at that position. Lacks names
	// the reason if the archive does not have all of these segments.
	Earlier []manifest.Segment
	Lacks   error
	// Broken describes a gap between Segments and later segments; nil if there is no gap.
	Broken error
}

// Older reports whether a file of the binary log comes before another one. The names of a log's files differ only in the number at their
// end, which grows by one.
func Older(a, b string) bool {
	if len(a) != len(b) {
		return len(a) < len(b)
	}
	return a < b
}

// Before reports whether a position comes before another one in the same timeline.
func Before(a, b contract.Position) bool {
	if a.File != b.File {
		return Older(a.File, b.File)
	}
	return a.Offset < b.Offset
}

// Chain sorts segments and returns the longest prefix without a gap, with an error that names the first gap. Where segments of two archives
// overlap, it uses the segment that ends later.
func Chain(segments []manifest.Segment, head manifest.Head) ([]manifest.Segment, error) {
	sort.Slice(segments, func(i, j int) bool {
		a, b := segments[i], segments[j]
		if a.File != b.File {
			return Older(a.File, b.File)
		}
		if a.From != b.From {
			return a.From < b.From
		}
		return a.To > b.To
	})
	var chain []manifest.Segment
	var at contract.Position
	for _, s := range segments {
		begin := contract.Position{File: s.File, Offset: s.From}
		switch {
		case len(chain) == 0 && s.From != FirstOffset:
			return nil, contract.Errorf(contract.ReasonDamaged, "the archive's first segment of %s begins at offset %d: the segment before is missing", s.File, s.From)
		case len(chain) > 0 && Before(begin, at):
			continue // overlaps; another segment continues the chain, or Chain reports a gap
		case len(chain) > 0 && begin != at:
			return chain, contract.Errorf(contract.ReasonDamaged, "the archive has no segment from %s:%d to %s:%d", at.File, at.Offset, s.File, s.From)
		}
		chain = append(chain, s)
		at = s.End()
	}
	if head.Position.File != "" && (len(chain) == 0 || Before(at, contract.Position{File: head.Position.File, Offset: head.Position.Offset})) {
		return chain, contract.Errorf(contract.ReasonDamaged, "the archive has no segment from %s:%d to %s:%d, which it records as its end", at.File, at.Offset, head.Position.File, head.Position.Offset)
	}
	return chain, nil
}

// Heads returns the heads of all timelines, newest first. It rebuilds a missing or unreadable head from the segments, so that a lost head
// does not hide a timeline.
func Heads(ctx context.Context, s store.Store) ([]manifest.Head, error) {
	infos, err := s.List(ctx, manifest.BinLogs)
	if err != nil {
		return nil, err
	}
	segments := map[string]string{} // timeline -> name of a segment's manifest
	for _, info := range infos {
		timeline, rest, _ := strings.Cut(strings.TrimPrefix(info.Name, manifest.BinLogs), "/")
		if manifest.IsID(timeline) && (segments[timeline] == "" || strings.Contains(rest, "/") && strings.HasSuffix(rest, ".json")) {
			segments[timeline] = info.Name
		}
	}
	var heads []manifest.Head
	for timeline, segment := range segments {
		if head := readHead(ctx, s, timeline, segment); head != nil {
			heads = append(heads, *head)
		}
	}
	sort.Slice(heads, func(i, j int) bool { return heads[i].Timeline > heads[j].Timeline })
	return heads, nil
}

// readHead reads a timeline's head, or rebuilds it from the manifest of a segment. It returns nil if neither can be read.
func readHead(ctx context.Context, s store.Store, timeline, segment string) *manifest.Head {
	name := manifest.TimelineFolder(timeline) + manifest.HeadName
	text, err := store.ReadAll(ctx, s, name)
	if err == nil {
		var head *manifest.Head
		if head, err = manifest.DecodeHead(name, text); err == nil {
			head.Timeline = timeline
			return head
		}
	}
	reason := contract.ReasonOf(err)
	if errors.Is(err, store.ErrNotFound) {
		reason = contract.ReasonDamaged
	}
	lost := &manifest.Head{Timeline: timeline, Lost: contract.Errorf(reason, "the head of timeline %s cannot be read: %w", timeline, err)}
	if text, err = store.ReadAll(ctx, s, segment); err != nil {
		return nil // a folder with neither a head nor a segment is not a timeline
	}
	described, err := manifest.DecodeSegment(segment, text)
	if err != nil {
		return nil
	}
	lost.Source, lost.ByGTID = described.Source, described.Format == manifest.FormatGTID
	return lost
}

// Read reads a timeline's segments, beginning with the file that from names. If from is "", it reads all segments.
func Read(ctx context.Context, s store.Store, head manifest.Head, from string) (*Timeline, error) {
	infos, err := s.List(ctx, manifest.TimelineFolder(head.Timeline))
	if err != nil {
		return nil, err
	}
	sizes, names := map[string]int64{}, []string{}
	for _, info := range infos {
		rest := strings.TrimPrefix(info.Name, manifest.TimelineFolder(head.Timeline))
		file, _, ok := strings.Cut(rest, "/")
		if !ok || from != "" && Older(file, from) {
			continue
		}
		sizes[info.Name] = info.Size
		if strings.HasSuffix(info.Name, ".json") {
			names = append(names, info.Name)
		}
	}
	look := func(name string) (int64, bool) { // a listing may lack existing objects
		if size, ok := sizes[name]; ok {
			return size, true
		}
		info, err := s.Stat(ctx, name)
		return info.Size, err == nil
	}
	segments := make([]manifest.Segment, len(names))
	damaged := make([]error, len(names))
	err = parallel(len(names), func(i int) error {
		text, err := store.ReadAll(ctx, s, names[i])
		if err != nil {
			return err
		}
		segment, err := manifest.DecodeSegment(names[i], text)
		if err != nil {
			damaged[i] = err
			return nil //nolint:nilerr // the result contains this error
		}
		folder := names[i][:strings.LastIndex(names[i], "/")+1]
		if size, ok := look(folder + segment.Object.Name); !ok || size != segment.Object.Bytes {
			damaged[i] = contract.Errorf(contract.ReasonDamaged, "segment %s%s is missing, or does not have %d bytes", folder, segment.Object.Name, segment.Object.Bytes)
			return nil
		}
		segments[i] = *segment
		return nil
	})
	if err != nil {
		return nil, err
	}
	t := &Timeline{Head: head}
	good, broken := whole(segments, damaged)
	if from != "" && Older(head.Position.File, from) {
		head.Position = contract.Position{} // the timeline ends before this position
	}
	t.Segments, t.Broken = Chain(good, head)
	if t.Broken != nil && broken != nil {
		t.Broken = broken // the cause of the gap
	}
	return t, nil
}

// whole returns the undamaged segments, and an error about the damaged ones: an error about a newer format if there is one, or else the
// first error.
func whole(segments []manifest.Segment, damaged []error) (good []manifest.Segment, broken error) {
	for i, segment := range segments {
		if damaged[i] == nil {
			good = append(good, segment)
		} else if contract.ReasonOf(damaged[i]) == contract.ReasonNewerFormat || broken == nil {
			broken = damaged[i]
		}
	}
	return good, broken
}

func parallel(n int, f func(int) error) error {
	var group sync.WaitGroup
	turn, errs := make(chan struct{}, 16), make(chan error, n)
	for i := range n {
		turn <- struct{}{}
		group.Go(func() {
			if err := f(i); err != nil {
				errs <- err
			}
			<-turn
		})
	}
	group.Wait()
	close(errs)
	return <-errs
}

// Describe returns a timeline in the form of the list command.
func (t *Timeline) Describe() contract.Timeline {
	d := contract.Timeline{Name: t.Head.Timeline, To: t.Head.Position, Reached: t.Head.Time}
	broken := t.Broken
	if broken == nil {
		broken = t.Head.Lost
	}
	if broken != nil {
		d.Damaged, d.Reached = broken.Error(), time.Time{}
	}
	if n := len(t.Segments); n > 0 {
		d.From = contract.Position{File: t.Segments[0].File, Offset: t.Segments[0].From}
		d.To = t.Segments[n-1].End()
		if broken != nil {
			d.Reached = t.Segments[n-1].Committed(t.Segments[n-1].LastTime)
		}
	}
	return d
}

// For returns the timeline that contains the file of the backup's position. It identifies the file by its name and by the time when the
// server began the file. If the archive has not reached the backup yet, it returns an error instead of another timeline.
func For(ctx context.Context, s store.Store, b *manifest.Backup) (*Timeline, error) {
	if b.HasGTIDs() {
		return forGTID(ctx, s, b)
	}
	if !b.IsOnLog() {
		return nil, contract.Errorf(contract.ReasonNotFound, "backup %s names no position of an archived binary log: only the backup itself can be restored", b.ID)
	}
	heads, err := Heads(ctx, s)
	if err != nil {
		return nil, err
	}
	var broken error
	for _, head := range heads {
		if head.Source != b.Source || head.ByGTID {
			continue
		}
		t, err := Read(ctx, s, head, b.Position.File)
		if err != nil {
			return nil, err
		}
		if t.Broken != nil && broken == nil && (head.Lost != nil || !Older(head.Position.File, b.Position.File)) {
			broken = t.Broken
		}
		mine, err := t.isOf(ctx, s, b)
		if err != nil {
			return nil, err
		}
		switch {
		case !mine:
		case len(t.Segments) > 0 && !Before(t.end(), contract.Position{File: b.Position.File, Offset: b.Position.Offset}):
			return t, t.before(ctx, s, b)
		case b.LogBegan.IsZero() && t.Broken != nil:
			return nil, t.Broken
		case t.Broken == nil:
			return nil, contract.Errorf(contract.ReasonNotFound, "the archive does not reach position %s:%d of backup %s yet: only the backup itself can be restored", b.Position.File, b.Position.Offset, b.ID)
		}
	}
	if broken != nil {
		return nil, broken
	}
	return nil, contract.Errorf(contract.ReasonNotFound, "the archive does not reach position %s:%d of backup %s: only the backup itself can be restored", b.Position.File, b.Position.Offset, b.ID)
}

// before sets Earlier to the segments of the files from PreparedFrom up to the file of the backup's position. These segments contain the XA
// transactions that are prepared at the position. If the archive lacks some of them, before sets Lacks.
func (t *Timeline) before(ctx context.Context, s store.Store, b *manifest.Backup) error {
	if b.PreparedFrom == "" {
		return nil
	}
	all, err := Read(ctx, s, t.Head, b.PreparedFrom)
	if err != nil {
		return err
	}
	n := 0
	for n < len(all.Segments) && Older(all.Segments[n].File, b.Position.File) {
		n++
	}
	if n == 0 || all.Segments[0].File != b.PreparedFrom || n == len(all.Segments) {
		t.Lacks = contract.Errorf(contract.ReasonNotFound, "backup %s needs the binary log from file %s on, in which XA transactions were prepared, but the archive does not have all of this log", b.ID, b.PreparedFrom)
		if all.Broken != nil {
			t.Lacks = fmt.Errorf("%w: %w", t.Lacks, all.Broken)
		}
		return nil
	}
	t.Earlier = all.Segments[:n]
	return nil
}

// isOf reports whether a timeline continues a backup. The caller must read the timeline from the backup's file on. An
// old manifest may lack the time at which that file began. Such a backup belongs to the newest timeline that began
// before the file, by the server's clock.
func (t *Timeline) isOf(ctx context.Context, s store.Store, b *manifest.Backup) (bool, error) {
	for _, segment := range t.Segments {
		if segment.File != b.Position.File {
			continue
		}
		if b.LogBegan.IsZero() {
			return !segment.FileTime.After(latest(b)), nil
		}
		return segment.FileTime.Equal(b.LogBegan), nil
	}
	if !b.LogBegan.IsZero() {
		return false, nil
	}
	all, err := Read(ctx, s, t.Head, "")
	if err != nil {
		return false, err
	}
	return len(all.Segments) > 0 && !all.Segments[0].FileTime.After(latest(b)), nil
}

// latest returns the latest possible time, by the server's clock, at which the file of a backup's position began. If the manifest lacks
// ServerTime, latest allows the clocks of agent and server to differ by one minute.
func latest(b *manifest.Backup) time.Time {
	if !b.ServerTime.IsZero() {
		return b.ServerTime
	}
	return b.Completed.Add(time.Minute)
}

// OpensWith reports whether one private key decrypts all segments and a backup that is encrypted to these public keys.
func (t *Timeline) OpensWith(keys []string) bool {
	common := keys
	for _, segment := range slices.Concat(t.Earlier, t.Segments) {
		switch {
		case len(segment.Recipients) == 0: // the segment is not encrypted, or an older agent wrote it
		case len(common) == 0:
			common = segment.Recipients
		default:
			both := slices.DeleteFunc(slices.Clone(common), func(key string) bool { return !slices.Contains(segment.Recipients, key) })
			if common = both; len(both) == 0 {
				return false
			}
		}
	}
	return true
}

func (t *Timeline) end() contract.Position { return t.Segments[len(t.Segments)-1].End() }
