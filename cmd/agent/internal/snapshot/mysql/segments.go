// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"fmt"
	"strings"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/binlog"
	"d3os.com/d3os-operator/internal/contract"
)

// firstFile is the name of a timeline's first file.
const firstFile = "archive.000001"

// next ends the file, and begins another one with the format description of the member's log. A file may end with an incomplete
// transaction. In that case, the next file contains the complete transaction.
func (f *follower) next(ctx context.Context) error {
	f.isNew = false
	name := firstFile
	if f.name != "" {
		number := 0
		if _, err := fmt.Sscanf(strings.TrimPrefix(f.name, "archive."), "%d", &number); err != nil {
			return contract.Errorf(contract.ReasonDamaged, "the archive's last file has the name %q", f.name)
		}
		name = fmt.Sprintf("archive.%06d", number+1)
	}
	switch {
	case f.name == "":
	case f.buffer.Len() == 0 && f.offset == binlog.FirstOffset:
		name = f.name // the present file is empty, so its name is used again
	default:
		if f.buffer.Len() == 0 {
			f.start(time.Now().UTC().Truncate(time.Second))
		}
		f.segment.Next = name
		if err := f.write(ctx); err != nil {
			return err
		}
	}
	f.name, f.offset, f.began = name, binlog.FirstOffset, time.Now().UTC().Truncate(time.Second)
	f.put(f.format, f.began)
	previous, err := binlog.Previous(f.format, f.have, f.tracker.IsChecked())
	if err != nil {
		return contract.Errorf(contract.ReasonFailed, "begin a file of the archive: %w", err)
	}
	f.put(previous, f.began)
	return nil
}

// flush writes the received transactions as a segment.
func (f *follower) flush(ctx context.Context) error {
	if f.buffer.Len() == 0 {
		return nil
	}
	return f.write(ctx)
}

func (f *follower) write(ctx context.Context) error {
	f.segment.Executed = f.have.String()
	if err := binlog.Put(ctx, f.Store, f.Recipients, &f.segment, f.buffer.Bytes()); err != nil {
		return err
	}
	end := f.segment.End()
	f.last = &end
	f.buffer.Reset()
	return nil
}

// reach records that the aim is reached, if the archive has everything up to the aim.
func (f *follower) reach(ctx context.Context) error {
	a := f.aim
	if a == nil || f.tracker.IsOpen() {
		return nil
	}
	isThere := a.all != nil && f.have.Contains(a.all)
	if f.proof.primary.State.Demands == 0 || f.Unproven { // the primary's log alone is sufficient
		isThere = f.from.State.Server == f.proof.primary.State.Server && f.at.File != "" && !before(f.at, a.end)
	}
	if !isThere {
		return nil
	}
	f.aim = nil
	if err := f.flush(ctx); err != nil {
		return err
	}
	if a.at.After(f.head.Time) {
		f.head.Time = a.at
	}
	if a.at.After(f.high) {
		f.high = a.at
	}
	if f.last != nil {
		f.head.Position = *f.last
	}
	if err := f.save(ctx); err != nil {
		return err
	}
	if f.Archived != nil {
		f.Archived(f.head)
	}
	return nil
}
