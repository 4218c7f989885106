// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package catalogue lists the backups of a store. It reads only their manifests and the store's listing.
package catalogue

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

// Entry describes a backup in the store.
type Entry struct {
	ID string
	// Manifest is nil if it cannot be read. Err then states the cause.
	Manifest *manifest.Backup
	// Verified is the last verification; nil for none.
	Verified *manifest.Verification
	// IsVerdictUnknown reports whether a verification exists that this agent cannot read: the backup may be verified.
	IsVerdictUnknown bool
	// Err names a missing object, a newer format, or a read error; nil for a good backup.
	Err error
	// Note is a warning about the selection of the backup; "" for none.
	Note string
}

// IsDamaged reports whether the backup differs from its manifest: an object is missing or has another size, or a check has proven damage.
func (e *Entry) IsDamaged() bool {
	return contract.ReasonOf(e.Err) == contract.ReasonDamaged || e.Verified != nil && e.Verified.Damaged
}

// isVerified reports whether a check has verified the backup, and no object is missing now.
func (e *Entry) isVerified() bool { return e.Err == nil && e.Verified != nil && e.Verified.OK }

// mayBeVerified reports whether the backup is verified, or may be: its verdict or its manifest cannot be read now.
func (e *Entry) mayBeVerified() bool {
	return !e.IsDamaged() && (e.IsVerdictUnknown || e.Verified != nil && e.Verified.OK)
}

// grace is the age up to which a backup's missing object does not count as missing: a store may list new objects late.
const grace = 15 * time.Minute

// Backups returns all backups with a manifest, newest first.
func Backups(ctx context.Context, s store.Store) ([]Entry, error) {
	infos, err := s.List(ctx, manifest.Backups)
	if err != nil {
		return nil, err
	}
	sizes := map[string]int64{}
	var entries []Entry
	for _, info := range infos {
		sizes[info.Name] = info.Size
		if id, ok := idOf(info.Name, manifest.Name); ok {
			entries = append(entries, Entry{ID: id})
		}
	}
	sort.Slice(entries, func(i, j int) bool { return entries[i].ID > entries[j].ID })
	_ = each(len(entries), func(i int) error { // each entry has its own error
		entries[i].read(ctx, s, sizes)
		return nil
	})
	return entries, unreadable(entries)
}

// unreadable returns the store's error if no backup can be read. One unreadable backup must not hide the others.
func unreadable(entries []Entry) error {
	var errs []error
	for _, e := range entries {
		switch contract.ReasonOf(e.Err) {
		case contract.ReasonStoreUnreachable, contract.ReasonStoreDenied, contract.ReasonStoreMissing, contract.ReasonFailed:
			if e.Err != nil && e.Manifest == nil {
				errs = append(errs, e.Err)
			}
		default: // only this backup is unreadable
		}
	}
	if len(errs) > 0 && len(errs) == len(entries) {
		return errs[0]
	}
	return nil
}

func idOf(name, end string) (string, bool) {
	id, ok := strings.CutSuffix(strings.TrimPrefix(name, manifest.Backups), "/"+end)
	return id, ok && manifest.IsID(id)
}

// read reads an entry's manifest and verification, and looks for its objects. It reads the verification even if the manifest cannot be
// read: the backup may be the newest verified one.
func (e *Entry) read(ctx context.Context, s store.Store, sizes map[string]int64) {
	e.readVerdict(ctx, s)
	name := manifest.Folder(e.ID) + manifest.Name
	text, err := store.ReadAll(ctx, s, name)
	if err != nil {
		e.Err = err
		return
	}
	if e.Manifest, e.Err = manifest.DecodeBackup(name, text); e.Err != nil {
		return
	}
	for _, o := range e.Manifest.Objects {
		if err := e.look(ctx, s, o, sizes); err != nil {
			e.Err = err
		}
	}
}

// look returns an error unless the object exists with the size in the manifest. A listing may lack an object that was just written.
// Therefore look requests the object by name, and an object counts as missing only if the backup is older than grace.
func (e *Entry) look(ctx context.Context, s store.Store, o manifest.Object, sizes map[string]int64) error {
	name := manifest.Folder(e.ID) + o.Name
	if sizes[name] == o.Bytes && o.Bytes > 0 {
		return nil
	}
	info, err := s.Stat(ctx, name)
	switch {
	case err == nil && info.Size == o.Bytes:
		return nil
	case err == nil:
		return contract.Errorf(contract.ReasonDamaged, "object %s of backup %s has %d bytes instead of %d", o.Name, e.ID, info.Size, o.Bytes)
	case !errors.Is(err, store.ErrNotFound):
		return err
	case time.Since(e.Manifest.Completed) < grace:
		return contract.Errorf(contract.ReasonStoreUnreachable, "object %s of backup %s is not in the store yet: the backup is younger than %s", o.Name, e.ID, grace)
	}
	return contract.Errorf(contract.ReasonDamaged, "object %s of backup %s is missing", o.Name, e.ID)
}

// readVerdict reads the verification by name: a listing may lack it.
func (e *Entry) readVerdict(ctx context.Context, s store.Store) {
	name := manifest.Folder(e.ID) + manifest.Verified
	text, err := store.ReadAll(ctx, s, name)
	if errors.Is(err, store.ErrNotFound) {
		return
	}
	if err == nil {
		e.Verified, err = manifest.DecodeVerification(name, text)
	}
	if err != nil {
		e.Verified, e.IsVerdictUnknown = nil, true
	}
}

// Find returns the backup with an ID, or for "latest" the newest one. It ignores verdicts of checks. It fails if an object is missing.
func Find(ctx context.Context, s store.Store, id string) (*Entry, error) {
	entries, err := Backups(ctx, s)
	if err != nil {
		return nil, err
	}
	for i := range entries {
		if id == entries[i].ID || id == "latest" {
			return &entries[i], entries[i].Err
		}
	}
	if id == "latest" {
		return nil, contract.Errorf(contract.ReasonNotFound, "%s has no backup", s)
	}
	return nil, contract.Errorf(contract.ReasonNotFound, "%s has no backup %s: `agent list` shows its backups", s, id)
}

// FindLatest returns the newest backup that a restore for a writer may use: complete, and not proven to be damaged. It fails if that backup
// cannot be read now, or if the store has backups of several other writers. writer may be empty.
func FindLatest(ctx context.Context, s store.Store, writer string) (*Entry, error) {
	entries, err := Backups(ctx, s)
	if err != nil {
		return nil, err
	}
	all, note, err := ofOneWriter(entries, writer)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if e := &all[i]; !e.IsDamaged() {
			e.Note = note
			return e, e.Err
		}
	}
	if len(entries) > 0 {
		return nil, contract.Errorf(contract.ReasonDamaged, "all %d backups of %s are damaged: `agent list` reports the damage of each", len(entries), s)
	}
	return nil, contract.Errorf(contract.ReasonNotFound, "%s has no backup", s)
}

// FindBefore returns the newest readable and undamaged backup that ended at or before a given time. It fails if there is none, or if the
// store has backups of several other writers. writer may be empty.
func FindBefore(ctx context.Context, s store.Store, writer string, moment time.Time) (*Entry, error) {
	entries, err := Backups(ctx, s)
	if err != nil {
		return nil, err
	}
	entries = slices.DeleteFunc(entries, func(e Entry) bool { return e.Err != nil || e.IsDamaged() || e.Manifest.Completed.After(moment) })
	all, note, err := ofOneWriter(entries, writer)
	if err != nil {
		return nil, err
	}
	if len(all) > 0 {
		all[0].Note = note
		return &all[0], nil
	}
	return nil, contract.Errorf(contract.ReasonNotFound, "%s has no good backup that had ended at %s: the time is before the first backup", s, moment.Format(time.RFC3339))
}

// Shrunk returns a warning if a new backup has too few rows: less than a tenth of the rows in the newest verified
// backup, from any writer. Otherwise, and if the store cannot be read, it returns "".
func Shrunk(ctx context.Context, s store.Store, rows int64) string {
	infos, err := s.List(ctx, manifest.Backups)
	if err != nil {
		return ""
	}
	sort.Slice(infos, func(i, j int) bool { return infos[i].Name > infos[j].Name })
	for _, info := range infos {
		id, ok := idOf(info.Name, manifest.Verified)
		if !ok {
			continue
		}
		e := Entry{ID: id}
		if e.read(ctx, s, nil); !e.isVerified() {
			continue
		}
		if before := e.Manifest.Rows(); rows*10 < before {
			return fmt.Sprintf("the database has %d rows now, and had %d in the newest verified backup: if it has lost data, restore backup %s", rows, before, id)
		}
		return ""
	}
	return ""
}

// Describe returns an entry in the form of the list command.
func (e *Entry) Describe() contract.Backup {
	b := contract.Backup{ID: e.ID}
	if e.Err != nil {
		b.Damaged = e.Err.Error()
	}
	if m := e.Manifest; m != nil {
		b.Started, b.Completed, b.Server, b.Tables, b.Rows = m.Started, m.Completed, m.Server.Version, len(m.Tables)+len(m.Shards), m.Rows()
		b.Encrypted, b.Position, b.Writer, b.Base = len(m.Recipients) > 0, m.Position, m.Writer, m.Base
		b.Bytes, b.StoredBytes = m.Totals()
	}
	if v := e.Verified; v != nil && v.OK {
		b.Verified = &v.Time
	} else if v != nil {
		b.Failed = v.Message
	}
	return b
}

// longestRun is the maximum duration of a backup: the deadline of its Job.
const longestRun = 24 * time.Hour

// Sweep removes the leftovers of failed runs: objects of backups without a manifest, and unfinished uploads. The caller must hold the
// server's lock, because a backup in progress also has objects without a manifest.
func Sweep(ctx context.Context, s store.Store, now time.Time) ([]string, error) {
	removed, err := s.Sweep(ctx, manifest.Backups)
	if err != nil {
		return removed, fmt.Errorf("remove leftovers: %w", err)
	}
	more, err := sweep(ctx, s, now, func(string) bool { return true })
	return append(removed, more...), err
}

// SweepOld removes the leftovers of failed runs without the server's lock. It skips runs that began less than longestRun ago, because
// these may not have ended.
func SweepOld(ctx context.Context, s store.Store, now time.Time) ([]string, error) {
	old := func(id string) bool {
		began, err := manifest.Time(id)
		return err == nil && now.Sub(began) > longestRun
	}
	removed, err := s.SweepIf(ctx, manifest.Backups, func(name string) bool {
		id, _, _ := strings.Cut(strings.TrimPrefix(name, manifest.Backups), "/")
		return manifest.IsID(id) && old(id)
	})
	if err != nil {
		return removed, fmt.Errorf("remove leftovers: %w", err)
	}
	more, err := sweep(ctx, s, now, old)
	return append(removed, more...), err
}

// sweep removes the objects of backups without a manifest. It keeps a backup if may(ID) is false, or if a restore reads
// the backup. A restore reads a backup without a manifest if a prune was killed between removing the manifest and
// noticing the restore.
func sweep(ctx context.Context, s store.Store, now time.Time, may func(id string) bool) (removed []string, err error) {
	infos, err := s.List(ctx, manifest.Backups)
	if err != nil {
		return nil, fmt.Errorf("remove leftovers: %w", err)
	}
	stays := map[string]bool{}
	for _, info := range infos {
		if id, ok := idOf(info.Name, manifest.Name); ok {
			stays[id] = true
		}
	}
	clock, err := readClock(ctx, s, now)
	if err != nil {
		return nil, fmt.Errorf("remove leftovers: %w", err)
	}
	for _, info := range infos {
		id, _, ok := strings.Cut(strings.TrimPrefix(info.Name, manifest.Backups), "/")
		if !ok || !manifest.IsID(id) || stays[id] || !may(id) {
			continue // the file of another program, or of a backup that stays or for which may(id) is false
		}
		stays[id], err = isUsed(ctx, s, id, clock)
		if err == nil && !stays[id] {
			err = s.Delete(ctx, info.Name)
			removed = append(removed, info.Name)
		}
		if err != nil {
			return removed, fmt.Errorf("remove leftovers: %w", err)
		}
	}
	return removed, nil
}

// isUsed reports whether a restore reads a backup, or the store has a manifest of the backup that the listing lacks.
func isUsed(ctx context.Context, s store.Store, id string, c clock) (bool, error) {
	if _, err := s.Stat(ctx, manifest.Folder(id)+manifest.Name); !errors.Is(err, store.ErrNotFound) {
		return err == nil, err
	}
	return c.isRead(ctx, s, id)
}

// each calls f for 0 to n-1, several calls in parallel, and joins the errors.
func each(n int, f func(int) error) error {
	errs := make([]error, n)
	var group sync.WaitGroup
	turn := make(chan struct{}, 16)
	for i := range n {
		turn <- struct{}{}
		group.Go(func() {
			errs[i] = f(i)
			<-turn
		})
	}
	group.Wait()
	return errors.Join(errs...)
}
