// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"d3os.com/d3os-operator/cmd/agent/contract"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
)

// readers is the folder of the objects that announce readers: readers/ID/UNTIL-RANDOM.
const readers = "readers/"

const untilLayout = "20060102T150405Z"

// Announce writes that a backup, and what of the archive it needs, is being read: Prune leaves it alone until done is called, or
// for a day where this agent is killed. Credentials that may only read cannot announce anything, which fails no restore. It fails
// with NotFound where the backup has been removed.
func Announce(ctx context.Context, s store.Store, id string, now time.Time) (done func(), err error) {
	random := [4]byte{}
	_, _ = rand.Read(random[:]) // never fails
	name := fmt.Sprintf("%s%s/%s-%x", readers, id, now.Add(longestRun).UTC().Format(untilLayout), random)
	done = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
		defer cancel()
		_ = s.Delete(ctx, name) // else it ends by itself
	}
	if err := s.Replace(ctx, name, []byte("{}\n")); err != nil {
		if contract.ReasonOf(err) != contract.ReasonStoreDenied && contract.ReasonOf(err) != contract.ReasonStoreFull {
			return nil, fmt.Errorf("announce that backup %s is read: %w", id, err)
		}
		done = func() {}
	}
	if _, err := s.Stat(ctx, manifest.Folder(id)+manifest.Name); errors.Is(err, store.ErrNotFound) {
		done()
		return nil, contract.Errorf(contract.ReasonNotFound, "backup %s has just been removed from %s: choose another one", id, s)
	}
	return done, nil
}

// isRead reports whether a backup is being read. It removes what readers that were killed have left.
func isRead(ctx context.Context, s store.Store, id string, now time.Time) (bool, error) {
	infos, err := s.List(ctx, readers+id+"/")
	if err != nil {
		return false, err
	}
	for _, info := range infos {
		stamp, _, _ := strings.Cut(strings.TrimPrefix(info.Name, readers+id+"/"), "-")
		if until, err := time.Parse(untilLayout, stamp); err != nil || now.Before(until) {
			return true, nil //nolint:nilerr // a name that this agent cannot read is one of a newer agent
		}
		if err := s.Delete(ctx, info.Name); err != nil {
			return false, err
		}
	}
	return false, nil
}
