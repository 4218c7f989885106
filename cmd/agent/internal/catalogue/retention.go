// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"d3os.com/d3os-operator/cmd/agent/contract"
	"d3os.com/d3os-operator/cmd/agent/internal/binlog"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
)

// Rule says which backups stay.
type Rule struct {
	// Keep is the number of the newest good backups that stay; 0: any number.
	Keep int
	// KeepFor is the age from which on a backup may go; 0: any age. Where both are given, a backup goes when neither keeps it.
	KeepFor time.Duration
	// AtLeast good backups stay however old they are.
	AtLeast int
	// PointInTime is how far back each moment must be reachable: the newest backup that is older stays.
	PointInTime time.Duration
}

// Remove returns the backups that may go, of a catalogue with the newest first. Those stay always: the newest verified one and
// every newer one, the newest good ones (AtLeast of them), those that a point in time needs, and what this program cannot judge.
// A damaged backup takes no good one's place, and goes only when enough good ones are newer.
func (r Rule) Remove(entries []Entry, now time.Time) []Entry {
	var removed []Entry
	seen := counts{}
	known := newestVerified(entries)
	for i, e := range entries {
		if e.Manifest == nil || e.Err != nil && !e.IsDamaged() {
			continue // of a newer format, or not read
		}
		if !r.keeps(&seen, e, now.Sub(e.Manifest.Completed)) && i > known && !e.IsVerdictUnknown {
			removed = append(removed, e)
		}
	}
	return removed
}

// newestVerified returns the place of the newest backup that is known to be good; -1 for none. While none is surely known, it returns
// the oldest one that may be: each of those may be the only good one.
func newestVerified(entries []Entry) int {
	oldest := -1
	for i := range entries {
		if entries[i].isVerified() {
			return i
		}
		if entries[i].mayBeVerified() {
			oldest = i
		}
	}
	return oldest
}

// counts are of the good backups that are newer than one.
type counts struct {
	good int
	// base reports whether one is older than the time in which each moment must be reachable.
	base bool
}

// keeps reports whether a backup stays by the rule, and counts it.
func (r Rule) keeps(seen *counts, e Entry, old time.Duration) bool {
	young := r.KeepFor > 0 && old < r.KeepFor
	if e.IsDamaged() {
		return young || seen.good < max(r.AtLeast, r.Keep, 1)
	}
	needed := r.PointInTime > 0 && (old < r.PointInTime || !seen.base)
	seen.base = seen.base || old >= r.PointInTime
	seen.good++
	return young || needed || seen.good <= max(r.AtLeast, r.Keep, 1)
}

// Prune removes the backups that the rule does not keep and no restore reads, then the part of the archive that no backup needs. It
// deletes a manifest first: a backup without one does not count, wherever Prune is interrupted.
func Prune(ctx context.Context, s store.Store, rule Rule, now time.Time) ([]string, error) {
	entries, err := Backups(ctx, s)
	if err != nil {
		return nil, err
	}
	if now, err = sane(ctx, s, now); err != nil {
		return nil, err
	}
	var names []string
	gone := map[string]bool{}
	for _, e := range rule.Remove(entries, now) {
		if err := stillVerified(ctx, s, entries); err != nil {
			return names, fmt.Errorf("remove backup %s: %w", e.ID, err)
		}
		read, err := dropBackup(ctx, s, e.ID, now)
		if err != nil {
			return names, fmt.Errorf("remove backup %s: %w", e.ID, err)
		}
		if !read {
			gone[e.ID], names = true, append(names, e.ID)
		}
	}
	var kept []Entry
	for _, e := range entries {
		if !gone[e.ID] {
			kept = append(kept, e)
		}
	}
	segments, err := pruneArchive(ctx, s, kept)
	return append(names, segments...), err
}

// sane returns a time that is at most a day behind the newest object of a backup, by the store's clock. An agent whose clock is
// ahead must not take everything for old, and where no backup is made any more none of the last ones goes.
func sane(ctx context.Context, s store.Store, now time.Time) (time.Time, error) {
	infos, err := s.List(ctx, manifest.Backups)
	if err != nil {
		return now, err
	}
	newest := time.Time{}
	for _, info := range infos {
		if info.Modified.After(newest) {
			newest = info.Modified
		}
	}
	if limit := newest.Add(24 * time.Hour); !newest.IsZero() && now.After(limit) {
		return limit, nil
	}
	return now, nil
}

// stillVerified fails unless the newest verified backup, which lets Prune remove older ones, is verified and whole now.
func stillVerified(ctx context.Context, s store.Store, entries []Entry) error {
	i := newestVerified(entries)
	if i < 0 || !entries[i].isVerified() {
		return nil
	}
	now := Entry{ID: entries[i].ID}
	now.read(ctx, s, nil)
	if now.Err != nil {
		return fmt.Errorf("read backup %s, the newest verified one, again: %w", now.ID, now.Err)
	}
	if !now.isVerified() {
		return fmt.Errorf("backup %s was the newest verified one and is not verified any more: nothing older is removed in this run", now.ID)
	}
	return nil
}

// dropBackup removes a backup that no restore reads, and reports whether one reads it. It deletes the manifest first, and looks for
// readers again: Announce looks for the manifest after it has announced a reader, so one of the two sees the other.
func dropBackup(ctx context.Context, s store.Store, id string, now time.Time) (read bool, err error) {
	if read, err = isRead(ctx, s, id, now); err != nil || read {
		return read, err
	}
	folder := manifest.Folder(id)
	text, err := store.ReadAll(ctx, s, folder+manifest.Name)
	if err != nil {
		return false, err
	}
	if err := s.Delete(ctx, folder+manifest.Name); err != nil {
		return false, err
	}
	if read, err = isRead(ctx, s, id, now); err != nil || read {
		return read, errors.Join(err, s.Replace(ctx, folder+manifest.Name, text))
	}
	infos, err := s.List(ctx, folder)
	if err != nil {
		return false, err
	}
	for _, info := range infos {
		if err := s.Delete(ctx, info.Name); err != nil {
			return false, err
		}
	}
	return false, nil
}

// pruneArchive removes the files of the binary log that lie before each kept backup of their timeline. The newest timeline
// keeps all where no backup lies on it, because one may be on its way. Without any backup nothing goes.
func pruneArchive(ctx context.Context, s store.Store, kept []Entry) ([]string, error) {
	heads, err := binlog.Heads(ctx, s)
	if err != nil {
		return nil, err
	}
	var names []string
	newest := map[string]bool{} // sources whose newest timeline was seen
	for _, head := range heads {
		first, certain := firstNeeded(head, kept)
		latest := !newest[head.Source]
		newest[head.Source] = true
		if !certain || first == "" && latest {
			continue
		}
		removed, err := dropFiles(ctx, s, head, first)
		names = append(names, removed...)
		if err != nil {
			return names, fmt.Errorf("remove old files of timeline %s: %w", head.Timeline, err)
		}
	}
	return names, nil
}

// firstNeeded returns the oldest file of a timeline that a kept backup needs; "" for none. It is not certain where the head is lost, where
// there is no backup, or where one that cannot be read now may need more than all others.
func firstNeeded(head manifest.Head, kept []Entry) (string, bool) {
	first, found, unknown := "", false, head.Lost != nil
	for _, e := range kept {
		m := e.Manifest
		if m == nil {
			unknown = unknown || contract.ReasonOf(e.Err) != contract.ReasonDamaged // a damaged backup cannot be restored
			continue
		}
		if m.Source != head.Source || m.Position == nil {
			continue
		}
		found = true
		// Names of files do not say which timeline a backup lies on. One that may lie on it counts.
		if binlog.Older(head.Position.File, m.Position.File) {
			continue
		}
		if first == "" || binlog.Older(m.Position.File, first) {
			first = m.Position.File
		}
	}
	return first, found && !unknown
}

func dropFiles(ctx context.Context, s store.Store, head manifest.Head, first string) ([]string, error) {
	folder := manifest.TimelineFolder(head.Timeline)
	infos, err := s.List(ctx, folder)
	if err != nil {
		return nil, err
	}
	if first == "" {
		// The head goes last: without it, what is left of the timeline would belong to nothing.
		for _, info := range infos {
			if info.Name != folder+manifest.HeadName {
				if err := s.Delete(ctx, info.Name); err != nil {
					return nil, err
				}
			}
		}
		return []string{folder}, s.Delete(ctx, folder+manifest.HeadName)
	}
	var names []string
	for _, manifests := range []bool{true, false} { // what is described by none does not count
		for _, info := range infos {
			file, rest, ok := strings.Cut(strings.TrimPrefix(info.Name, folder), "/")
			if !ok || !binlog.Older(file, first) || strings.HasSuffix(rest, ".json") != manifests {
				continue
			}
			if err := s.Delete(ctx, info.Name); err != nil {
				return names, err
			}
			names = append(names, info.Name)
		}
	}
	return names, nil
}
