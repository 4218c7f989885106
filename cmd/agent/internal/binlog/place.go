// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package binlog

import (
	"context"
	"errors"
	"strings"

	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
	"d3os.com/d3os-operator/internal/contract"
)

// Place reports whether a backup belongs to a timeline.
type Place int

// The results of PlaceOf: the timeline does not continue the backup (Off), may continue it (MayLie), or continues it (On). PlaceOf returns
// MayLie if the store has no readable segment of the backup's file.
const (
	Off Place = iota
	MayLie
	On
)

// PlaceOf determines whether a timeline continues a backup. It compares the times when the server began the file, because a server uses the
// same file names again after a reset of its log. It reads only one segment.
func PlaceOf(ctx context.Context, s store.Store, head manifest.Head, b *manifest.Backup) (Place, error) {
	infos, err := s.List(ctx, manifest.TimelineFolder(head.Timeline)+b.Position.File+"/")
	if err != nil {
		return MayLie, err
	}
	for _, info := range infos {
		if !strings.HasSuffix(info.Name, ".json") {
			continue
		}
		text, err := store.ReadAll(ctx, s, info.Name)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return MayLie, err
		}
		segment, err := manifest.DecodeSegment(info.Name, text)
		switch {
		case contract.ReasonOf(err) == contract.ReasonDamaged && err != nil:
		case err != nil:
			return MayLie, nil //nolint:nilerr // the content of a newer format is unknown
		case b.LogBegan.IsZero() && !segment.FileTime.After(latest(b)), segment.FileTime.Equal(b.LogBegan):
			return On, nil
		default:
			return Off, nil
		}
	}
	if Older(head.Position.File, b.Position.File) {
		return Off, nil // the timeline ends before the backup's file
	}
	return MayLie, nil
}
