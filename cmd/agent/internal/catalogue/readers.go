// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
	"d3os.com/d3os-operator/internal/contract"
)

// readers is the folder of the objects by which readers announce themselves: readers/ID/UNTIL-RANDOM.
const readers = "readers/"

const untilLayout = "20060102T150405Z"

// Announce records that a backup and its part of the archive are being read. Prune then keeps both until done is called, or for a day if
// this agent is killed. With read-only credentials, or in a full store, nothing is recorded and Announce succeeds. It fails with
// NotFound if the backup was removed.
func Announce(ctx context.Context, s store.Store, id string, now time.Time) (done func(), err error) {
	random := [4]byte{}
	_, _ = rand.Read(random[:]) // cannot fail
	name := fmt.Sprintf("%s%s/%s-%x", readers, id, now.Add(longestRun).UTC().Format(untilLayout), random)
	done = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
		defer cancel()
		_ = s.Delete(ctx, name) // if this fails, the announcement expires
	}
	if err := s.Replace(ctx, name, []byte("{}\n")); err != nil {
		if contract.ReasonOf(err) != contract.ReasonStoreDenied && contract.ReasonOf(err) != contract.ReasonStoreFull {
			return nil, fmt.Errorf("announce a read of backup %s: %w", id, err)
		}
		done = func() {}
	}
	if _, err := s.Stat(ctx, manifest.Folder(id)+manifest.Name); errors.Is(err, store.ErrNotFound) {
		done()
		return nil, contract.Errorf(contract.ReasonNotFound, "backup %s has just been removed from %s: choose another one", id, s)
	}
	return done, nil
}

// clock holds now, the agent's time (see readClock), and newest, the time at which the store wrote the newest object of
// a backup.
type clock struct{ now, newest time.Time }

// readClock returns a time that is at most a day after the newest object of any backup, by the store's clock. So an agent whose clock is
// ahead does not treat every backup as old. If no more backups are made, this time stops, and the last backups are kept.
func readClock(ctx context.Context, s store.Store, now time.Time) (clock, error) {
	infos, err := s.List(ctx, manifest.Backups)
	c := clock{now: now}
	for _, info := range infos {
		if info.Modified.After(c.newest) {
			c.newest = info.Modified
		}
	}
	if limit := c.newest.Add(longestRun); !c.newest.IsZero() && now.After(limit) {
		c.now = limit
	}
	return c, err
}

// hasEnded reports whether the time UNTIL in the name of an announcement has passed. Both the agent's clock and the
// store's clock must show that: an agent whose clock is ahead must not end every reader. A name that cannot be parsed
// belongs to a newer agent, whose reader has not ended.
func (c clock) hasEnded(info store.Info) bool {
	stamp, _, _ := strings.Cut(path.Base(info.Name), "-")
	until, err := time.Parse(untilLayout, stamp)
	return err == nil && !c.now.Before(until) && c.newest.Sub(info.Modified) > longestRun
}

// readBackups returns the IDs of the backups below a prefix that are being read. It removes announcements that have expired.
func (c clock) readBackups(ctx context.Context, s store.Store, prefix string) (map[string]bool, error) {
	infos, err := s.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	read := map[string]bool{}
	for _, info := range infos {
		if !c.hasEnded(info) {
			id, _, _ := strings.Cut(strings.TrimPrefix(info.Name, readers), "/")
			read[id] = true
		} else if err := s.Delete(ctx, info.Name); err != nil {
			return nil, err
		}
	}
	return read, nil
}

// isRead reports whether a backup is being read.
func (c clock) isRead(ctx context.Context, s store.Store, id string) (bool, error) {
	read, err := c.readBackups(ctx, s, readers+id+"/")
	return read[id], err
}
