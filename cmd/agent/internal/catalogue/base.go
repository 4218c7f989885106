// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"context"

	"d3os.com/d3os-operator/cmd/agent/contract"
	"d3os.com/d3os-operator/cmd/agent/internal/binlog"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
)

// Base returns the ID of the newest good backup that lies on a timeline and that one private key restores together with what was
// archived behind it; "" for none. One that lacks prepared XA transactions does not count. Without one, the latest moments of the timeline cannot be restored.
func Base(ctx context.Context, s store.Store, head manifest.Head) (string, error) {
	entries, err := Backups(ctx, s)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if e.Err != nil || e.IsDamaged() || e.Manifest.Source != head.Source || e.Manifest.Position == nil {
			continue
		}
		t, err := binlog.For(ctx, s, e.Manifest)
		switch reason := contract.ReasonOf(err); {
		case err == nil && t.Head.Timeline == head.Timeline:
			if t.Lacks == nil && t.OpensWith(e.Manifest.Recipients) {
				return e.ID, nil
			}
		case err == nil && t.Head.Timeline < head.Timeline:
			return "", nil // and so do all older ones
		case err != nil && reason != contract.ReasonNotFound && reason != contract.ReasonDamaged:
			return "", err
		}
	}
	return "", nil
}
