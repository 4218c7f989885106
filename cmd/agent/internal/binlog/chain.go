// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package binlog

import (
	"context"
	"sort"
	"strings"
	"sync"
	"time"

	"d3os.com/d3os-operator/cmd/agent/contract"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
)

// Timeline is a part of the binary log that the store has.
type Timeline struct {
	Head manifest.Head
	// Segments follow one another without a gap, by file and offset.
	Segments []manifest.Segment
	// Broken says what is missing after the last of Segments, though there is more; nil for nothing.
	Broken error
}

// Older reports whether a file of the binary log comes before another. Names have a number that grows by one.
func Older(a, b string) bool {
	if len(a) != len(b) {
		return len(a) < len(b)
	}
	return a < b
}

// Before reports whether a position comes before another of the same timeline.
func Before(a, b contract.Position) bool {
	if a.File != b.File {
		return Older(a.File, b.File)
	}
	return a.Offset < b.Offset
}

// Chain puts segments in order. It takes those that follow one another from the first on, and says what is missing if
// that are not all of them. Where two archives have overlapped, it takes the one that reaches further.
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
			return nil, contract.Errorf(contract.ReasonDamaged, "the archive's first segment of %s begins at offset %d: the one before is missing", s.File, s.From)
		case len(chain) > 0 && Before(begin, at):
			continue // overlaps; another one begins where it is needed, or is found to be missing
		case len(chain) > 0 && begin != at:
			return chain, contract.Errorf(contract.ReasonDamaged, "the archive has no segment from %s:%d to %s:%d", at.File, at.Offset, s.File, s.From)
		}
		chain = append(chain, s)
		at = s.End()
	}
	if head.Position.File != "" && (len(chain) == 0 || Before(at, contract.Position{File: head.Position.File, Offset: head.Position.Offset})) {
		return chain, contract.Errorf(contract.ReasonDamaged, "the archive has no segment from %s:%d to %s:%d, where it says that it stands", at.File, at.Offset, head.Position.File, head.Position.Offset)
	}
	return chain, nil
}

// Heads returns the heads of all timelines, newest first.
func Heads(ctx context.Context, s store.Store) ([]manifest.Head, error) {
	infos, err := s.List(ctx, manifest.BinLogs)
	if err != nil {
		return nil, err
	}
	var heads []manifest.Head
	for _, info := range infos {
		timeline, ok := strings.CutSuffix(strings.TrimPrefix(info.Name, manifest.BinLogs), "/"+manifest.HeadName)
		if !ok || !manifest.IsID(timeline) {
			continue
		}
		text, err := store.ReadAll(ctx, s, info.Name)
		if err != nil {
			return nil, err
		}
		head, err := manifest.DecodeHead(info.Name, text)
		if err != nil {
			return nil, err
		}
		head.Timeline = timeline
		heads = append(heads, *head)
	}
	sort.Slice(heads, func(i, j int) bool { return heads[i].Timeline > heads[j].Timeline })
	return heads, nil
}

// Read reads a timeline's segments, from a file on; "" for all.
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
			return nil //nolint:nilerr // told of with the chain
		}
		folder := names[i][:strings.LastIndex(names[i], "/")+1]
		if size, ok := sizes[folder+segment.Object.Name]; !ok || size != segment.Object.Bytes {
			damaged[i] = contract.Errorf(contract.ReasonDamaged, "segment %s%s is missing, or has not its %d bytes", folder, segment.Object.Name, segment.Object.Bytes)
			return nil
		}
		segments[i] = *segment
		return nil
	})
	if err != nil {
		return nil, err
	}
	t := &Timeline{Head: head}
	good := segments[:0]
	var broken error
	for i, segment := range segments {
		if damaged[i] == nil {
			good = append(good, segment)
		} else if contract.ReasonOf(damaged[i]) == contract.ReasonNewerFormat || broken == nil {
			broken = damaged[i]
		}
	}
	t.Segments, t.Broken = Chain(good, head)
	if t.Broken != nil && broken != nil {
		t.Broken = broken // the cause of the hole
	}
	return t, nil
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

// Describe returns a timeline as the list shows it.
func (t *Timeline) Describe() contract.Timeline {
	d := contract.Timeline{Name: t.Head.Timeline, To: t.Head.Position, Reached: t.Head.Time}
	if t.Broken != nil {
		d.Damaged, d.Reached = t.Broken.Error(), time.Time{}
	}
	if n := len(t.Segments); n > 0 {
		d.From = contract.Position{File: t.Segments[0].File, Offset: t.Segments[0].From}
		d.To = t.Segments[n-1].End()
		if t.Broken != nil {
			d.Reached = t.Segments[n-1].LastTime
		}
	}
	return d
}

// For returns the timeline on which a backup lies.
func For(ctx context.Context, s store.Store, b *manifest.Backup) (*Timeline, error) {
	if b.Position == nil {
		return nil, contract.Errorf(contract.ReasonNotFound, "backup %s names no position, because its server kept no binary log: it can be restored as it is alone", b.ID)
	}
	heads, err := Heads(ctx, s)
	if err != nil {
		return nil, err
	}
	why := error(nil)
	for _, head := range heads {
		if head.Source != b.Source {
			continue
		}
		t, err := Read(ctx, s, head, b.Position.File)
		if err != nil {
			return nil, err
		}
		if t.holds(b) {
			return t, nil
		}
		if t.Broken != nil && !Older(head.Position.File, b.Position.File) {
			why = t.Broken
		}
	}
	if why != nil {
		return nil, why
	}
	return nil, contract.Errorf(contract.ReasonNotFound, "the archive does not reach position %s:%d of backup %s: it can be restored as it is alone", b.Position.File, b.Position.Offset, b.ID)
}

// holds reports whether a backup's position is in the timeline's segments, or at their end. A file of the same name that
// was begun after the backup is of another history.
func (t *Timeline) holds(b *manifest.Backup) bool {
	for _, segment := range t.Segments {
		if segment.File == b.Position.File {
			return !segment.FileTime.After(latest(b)) && !Before(t.end(), *b.Position)
		}
	}
	// The archive may stand at the begin of the file, of which it has nothing yet.
	return len(t.Segments) > 0 && t.end().File == b.Position.File && b.Position.Offset <= t.end().Offset
}

// latest is when the file of a backup's position had been begun at the latest, by the server's clock. Without that in the
// manifest, the clocks of agent and server may differ by a minute: then a database that was restored within it, and began its
// log again, looks the same.
func latest(b *manifest.Backup) time.Time {
	if !b.ServerTime.IsZero() {
		return b.ServerTime
	}
	return b.Completed.Add(time.Minute)
}

func (t *Timeline) end() contract.Position { return t.Segments[len(t.Segments)-1].End() }
