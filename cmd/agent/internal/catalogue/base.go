// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"context"

	"d3os.com/d3os-operator/cmd/agent/internal/binlog"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
	"d3os.com/d3os-operator/internal/contract"
)

// Base returns the ID of the newest good backup that a timeline continues; "" for none. One private key must decrypt the backup and the
// archive after it, and the archive must have the XA transactions that were prepared at the backup's position. Without a base, the latest
// moments of the timeline cannot be restored.
func Base(ctx context.Context, s store.Store, head manifest.Head) (string, error) {
	entries, err := Backups(ctx, s)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if e.Err != nil || e.IsDamaged() || e.Manifest.Source != head.Source || !isOn(head, e.Manifest) {
			continue
		}
		t, err := binlog.For(ctx, s, e.Manifest)
		switch reason := contract.ReasonOf(err); {
		case err == nil && t.Head.Timeline == head.Timeline:
			if t.Lacks == nil && t.OpensWith(e.Manifest.Recipients) {
				return e.ID, nil
			}
		case err == nil && t.Head.Timeline < head.Timeline:
			return "", nil // all older backups are on earlier timelines, too
		case err != nil && reason != contract.ReasonNotFound && reason != contract.ReasonDamaged:
			return "", err
		}
	}
	return "", nil
}

// isOn reports whether the backup has the position that the timeline needs: GTIDs, or a position in the server's log.
func isOn(head manifest.Head, b *manifest.Backup) bool {
	if head.ByGTID {
		return b.HasGTIDs()
	}
	return b.IsOnLog()
}

// takeGTID adds the files that a backup needs from a timeline by GTID. The first of them has the oldest transaction
// that the backup lacks. If the backup is ahead of the archive, it needs the last file, which still grows.
func (n *need) takeGTID(t *binlog.Timeline, b *manifest.Backup) error {
	has, err := binlog.ParseSet(b.Position.GTID)
	if err != nil {
		return err
	}
	begin, _, err := t.Sets()
	if err != nil || !has.Contains(begin) {
		return err // the backup is older than the remaining timeline, or belongs to another database
	}
	segments, err := t.From(has)
	if err != nil {
		return err
	}
	var first string
	switch count := len(t.Segments); {
	case len(segments) > 0:
		first = segments[0].File
	case count > 0:
		first = t.Segments[count-1].File
	default:
		return nil // the timeline has no file
	}
	n.lies = true
	if n.first == "" || binlog.Older(first, n.first) {
		n.first = first
	}
	return nil
}
