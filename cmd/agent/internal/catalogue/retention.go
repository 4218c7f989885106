// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package catalogue

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
	"d3os.com/d3os-operator/cmd/agent/internal/store"
	"d3os.com/d3os-operator/internal/contract"
)

// Rule selects the backups to keep.
type Rule struct {
	// Keep is the number of newest good backups that are kept; 0: any number.
	Keep int
	// KeepFor is the age at which a backup may be removed; 0: the age is ignored. If both Keep and KeepFor are set, a backup is removed
	// only if neither keeps it.
	KeepFor time.Duration
	// AtLeast is the number of good backups that are kept regardless of their age.
	AtLeast int
	// PointInTime is the window in which every time must be restorable. The newest backup before the window is kept.
	PointInTime time.Duration
	// Writer is the resource whose backups are pruned. Verified backups of all other writers are kept.
	Writer string
	// Former are other writers whose verified backups may be removed, too. Unnamed stands for backups without a writer.
	Former []string
}

// Unnamed is the name in Rule.Former for backups without a writer. Older agents recorded no writer.
const Unnamed = "unnamed"

// Remove returns the backups that may be removed, from a catalogue with the newest first. It never returns the newest
// verified backup or newer ones, the newest AtLeast good backups, backups that a point in time needs, or backups whose
// manifest or verdict cannot be read. It applies the rule to each writer separately, and keeps all verified backups of a
// former database. So empty backups of a recreated database with the same prefix do not replace the backups of the
// former database.
func (r Rule) Remove(entries []Entry, now time.Time) []Entry {
	var removed []Entry
	done := map[string]bool{}
	for _, e := range entries {
		if e.Manifest == nil || done[e.Manifest.Writer] {
			continue
		}
		writer := e.Manifest.Writer
		done[writer] = true
		former := r.isFormer(writer, entries)
		for _, old := range r.removeOf(ofWriter(entries, writer), now) {
			if !former || !old.isVerified() {
				removed = append(removed, old)
			}
		}
	}
	return removed
}

// isFormer reports whether backups of a writer may be of a former database. Backups without a writer may be of any
// database, unless neither the rule nor a backup in the store names a writer.
func (r Rule) isFormer(writer string, entries []Entry) bool {
	switch {
	case slices.Contains(r.Former, cmp.Or(writer, Unnamed)):
		return false
	case writer != "":
		return writer != r.Writer
	}
	return r.Writer != "" || slices.ContainsFunc(entries, func(e Entry) bool { return e.Manifest != nil && e.Manifest.Writer != "" })
}

// removeOf returns the backups of one writer that may be removed, from all backups of that writer with the newest first.
func (r Rule) removeOf(entries []Entry, now time.Time) []Entry {
	var removed []Entry
	seen := counts{}
	known := newestVerified(entries)
	for i, e := range entries {
		if e.Manifest == nil || e.Err != nil && !e.IsDamaged() {
			continue // of a newer format, or unreadable
		}
		if !r.keeps(&seen, e, now.Sub(e.Manifest.Completed)) && i > known && !e.IsVerdictUnknown {
			removed = append(removed, e)
		}
	}
	return removed
}

// newestVerified returns the index of the newest verified backup. If no backup is certainly verified, it returns the oldest one that may be
// verified, because each newer one may be bad; -1 for none.
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

// counts describes the good backups that are newer than the backup to judge.
type counts struct {
	good int
	// base reports whether a counted backup is older than the window in which every time must be restorable.
	base bool
}

// keeps reports whether the rule keeps a backup, and counts the backup.
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

// Prune removes the backups that the rule does not keep, unless a restore reads them. Then it removes the part of the
// archive that no backup needs. It deletes a manifest before the objects, so that no backup with missing objects
// remains if Prune is interrupted.
func Prune(ctx context.Context, s store.Store, rule Rule, now time.Time) ([]string, error) {
	entries, err := Backups(ctx, s)
	if err != nil {
		return nil, err
	}
	clock, err := readClock(ctx, s, now)
	if err != nil {
		return nil, err
	}
	var names []string
	gone := map[string]bool{}
	for _, e := range rule.Remove(entries, clock.now) {
		if err := stillVerified(ctx, s, ofWriter(entries, e.Manifest.Writer), gone); err != nil {
			return names, fmt.Errorf("remove backup %s: %w", e.ID, err)
		}
		if now := (Entry{ID: e.ID}); rule.isFormer(e.Manifest.Writer, entries) {
			if now.readVerdict(ctx, s); now.mayBeVerified() && !e.mayBeVerified() {
				continue // verified after the catalogue was read
			}
		}
		read, err := dropBackup(ctx, s, e.ID, clock)
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
	segments, err := pruneArchive(ctx, s, kept, clock)
	return append(names, segments...), err
}

// stillVerified checks again that Prune may remove backups of one writer. The newest verified backup, if there was one, must still be
// verified and complete. If there was none, no remaining backup may have been verified since then.
func stillVerified(ctx context.Context, s store.Store, entries []Entry, gone map[string]bool) error {
	i := newestVerified(entries)
	if i < 0 || !entries[i].isVerified() {
		return noneVerified(ctx, s, entries, gone)
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

// noneVerified returns an error if a backup has received a verdict since the catalogue was read.
func noneVerified(ctx context.Context, s store.Store, entries []Entry, gone map[string]bool) error {
	return each(len(entries), func(i int) error {
		now := Entry{ID: entries[i].ID}
		if gone[now.ID] {
			return nil
		}
		if now.readVerdict(ctx, s); now.mayBeVerified() && !entries[i].mayBeVerified() {
			return fmt.Errorf("backup %s was verified after the catalogue was read: nothing is removed in this run", now.ID)
		}
		return nil
	})
}

// dropBackup removes a backup unless a restore reads it. read reports whether a restore does. dropBackup deletes the manifest and then
// checks for readers again. Announce records a reader and then checks for the manifest. So at least one of the two detects the other.
func dropBackup(ctx context.Context, s store.Store, id string, c clock) (read bool, err error) {
	if read, err = c.isRead(ctx, s, id); err != nil || read {
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
	if read, err = c.isRead(ctx, s, id); err != nil || read {
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

// pruneArchive removes the log files that the kept backups of a timeline do not need. It removes nothing if there is no
// backup. It also removes nothing while a restore reads a backup whose manifest a killed prune has removed.
func pruneArchive(ctx context.Context, s store.Store, kept []Entry, c clock) ([]string, error) {
	read, err := c.readBackups(ctx, s, readers)
	if err != nil {
		return nil, err
	}
	for _, e := range kept {
		delete(read, e.ID)
	}
	heads, err := binlog.Heads(ctx, s)
	if err != nil || len(read) > 0 {
		return nil, err
	}
	var names []string
	newest := map[string]bool{} // sources whose newest timeline was visited
	for _, head := range heads {
		need, err := needOf(ctx, s, head, kept)
		if err != nil {
			return names, fmt.Errorf("find the files of timeline %s that backups need: %w", head.Timeline, err)
		}
		// A backup in progress may become the last backup of this timeline.
		need.mayGrow = !newest[head.Source] || c.newest.Sub(head.Time) < longestRun
		newest[head.Source] = true
		if !need.letsGo() {
			continue
		}
		removed, err := dropFiles(ctx, s, head, need.first)
		names = append(names, removed...)
		if err != nil {
			return names, fmt.Errorf("remove old files of timeline %s: %w", head.Timeline, err)
		}
	}
	return names, nil
}

// need stores the first file of a timeline that the kept backups need.
type need struct {
	// first is the oldest file that a kept backup needs; "" for none.
	first string
	// known reports whether all backups were read, and at least one is of this source.
	known bool
	// lies reports whether the timeline is known to continue one of the backups.
	lies bool
	// mayGrow reports whether the timeline may continue a backup in progress.
	mayGrow bool
}

// letsGo reports whether the files before first may be removed. A backup in progress could need them. It cannot need
// them if the timeline continues a finished backup, because backups of a timeline are made one after another.
func (n need) letsGo() bool { return n.known && (n.lies || !n.mayGrow) }

// needOf computes the first file of a timeline that the kept backups need. The result is unknown in three cases: the head is lost; there is
// no backup; a backup that cannot be read now may need an earlier file.
func needOf(ctx context.Context, s store.Store, head manifest.Head, kept []Entry) (need, error) {
	n, found, unknown := need{}, false, head.Lost != nil
	timeline := &binlog.Timeline{}
	if head.ByGTID {
		var err error
		if timeline, err = binlog.Read(ctx, s, head, ""); err != nil {
			return n, err
		}
		unknown = unknown || timeline.Broken != nil
	}
	for _, e := range kept {
		m := e.Manifest
		if m == nil {
			unknown = unknown || contract.ReasonOf(e.Err) != contract.ReasonDamaged // a damaged backup is never restored
			continue
		}
		if m.Source != head.Source || !isOn(head, m) {
			continue
		}
		found = true
		if head.ByGTID {
			if err := n.takeGTID(timeline, m); err != nil {
				return n, err
			}
			continue
		}
		place, err := binlog.PlaceOf(ctx, s, head, m)
		if err != nil {
			return n, err
		}
		n.lies = n.lies || place == binlog.On
		if place != binlog.Off && (n.first == "" || binlog.Older(m.FirstFile(), n.first)) {
			n.first = m.FirstFile()
		}
	}
	n.known = found && !unknown
	return n, nil
}

func dropFiles(ctx context.Context, s store.Store, head manifest.Head, first string) ([]string, error) {
	folder := manifest.TimelineFolder(head.Timeline)
	infos, err := s.List(ctx, folder)
	if err != nil {
		return nil, err
	}
	if first == "" {
		// Remove the head last: without a head, the remaining segments would belong to no timeline.
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
	for _, manifests := range []bool{true, false} { // manifests first: objects without a manifest are ignored
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
