// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/snapshot"
	"d3os.com/d3os-operator/internal/contract"
)

// The files that a restore writes to the data folder. Redis 7 loads an append-only file of an older version, and moves it to its new place.
// In all versions, such a file may begin with an RDB file and contain nothing else.
const (
	dataFile  = "appendonly.aof"
	nodesFile = "nodes.conf"
)

// marker is the folder in which a restore creates these files. While the folder exists, the restore is not complete.
const marker = "restoring"

// Target is the volume of the first server of a shard of a new cluster.
type Target struct {
	// Volume is the root of the volume. Data is the folder of the data on this volume.
	Volume, Data string
	// Shard is the number of the shard. Shards is the number of shards of the cluster.
	Shard, Shards int
}

func (t Target) path(name ...string) string {
	return filepath.Join(append([]string{t.Volume, t.Data}, name...)...)
}

// IsTaken reports whether nothing may be restored to a volume: a server has written to it, or a restore is complete. The files of an
// interrupted restore do not count.
func (t Target) IsTaken() (bool, error) {
	entries, err := os.ReadDir(t.path())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("read the data folder of the volume: %w", err)
	}
	own := map[string]bool{"lost+found": true, ".writable": true} // init.sh creates .writable to test the volume
	for _, e := range entries {
		if e.Name() == marker && e.IsDir() {
			own[marker], own[dataFile], own[nodesFile] = true, true, true
		}
	}
	for _, e := range entries {
		if !own[e.Name()] {
			return true, nil
		}
	}
	return false, nil
}

// Restore creates the data of a shard's first server from a backup: the keys, and a view of a cluster in which the server owns the shard's
// slots. A server that starts on this data owns the slots immediately. The caller must make the servers of all shards meet. Restore fails
// with NotEmpty if the volume is in use, and with Refused if the backup does not fit.
func Restore(ctx context.Context, s restore.Source, t Target) error {
	part, err := t.fits(ctx, s.Backup)
	if err != nil {
		return err
	}
	if taken, err := t.IsTaken(); err != nil {
		return err
	} else if taken {
		return contract.Errorf(contract.ReasonNotEmpty, "folder %s has data: give an empty volume", t.path())
	}
	if err := t.clear(); err != nil {
		return err
	}
	if err := t.make(ctx, s, part); err != nil {
		return errors.Join(err, t.clear())
	}
	return nil
}

// make runs the steps of a restore. The marker exists from the first step to the last one, so that an interrupted restore starts again.
func (t Target) make(ctx context.Context, s restore.Source, part slots) error {
	if err := os.MkdirAll(t.path(marker), 0o700); err != nil {
		return fmt.Errorf("make a folder for the restore: %w", err)
	}
	if err := snapshot.Flush(t.Volume); err != nil {
		return err
	}
	if err := write(t.path(marker, dataFile), func(w io.Writer) error { return s.Copy(ctx, s.Backup.Objects[t.Shard], w) }); err != nil {
		return err
	}
	if err := write(t.path(marker, nodesFile), func(w io.Writer) error { return t.writeNodes(w, part) }); err != nil {
		return err
	}
	if err := snapshot.Flush(t.Volume); err != nil {
		return err
	}
	for _, name := range []string{dataFile, nodesFile} {
		if err := os.Rename(t.path(marker, name), t.path(name)); err != nil {
			return fmt.Errorf("move the restored data into place: %w", err)
		}
	}
	if err := snapshot.Flush(t.Volume); err != nil {
		return err
	}
	if err := os.Remove(t.path(marker)); err != nil {
		return fmt.Errorf("end the restore: %w", err)
	}
	return snapshot.Flush(t.Volume)
}

// clear removes the files of an interrupted restore, and the marker last. On a volume without the marker, it removes nothing.
func (t Target) clear() error {
	if _, err := os.Lstat(t.path(marker)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, path := range []string{t.path(dataFile), t.path(nodesFile), t.path(marker, dataFile), t.path(marker, nodesFile)} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the leftovers of an earlier restore: %w", err)
		}
	}
	if err := snapshot.Flush(t.Volume); err != nil {
		return err
	}
	if err := os.Remove(t.path(marker)); err != nil {
		return fmt.Errorf("remove the leftovers of an earlier restore: %w", err)
	}
	return nil
}

// writeNodes writes a server's view of a cluster: only the server itself, and the slots of its shard. Each shard has a different config
// epoch, as masters of one cluster must have. The server adds its address.
func (t Target) writeNodes(w io.Writer, part slots) error {
	random := [20]byte{}
	_, _ = rand.Read(random[:]) // cannot fail
	_, err := fmt.Fprintf(w, "%x :6379@16379 myself,master - 0 0 %d connected", random, t.Shard+1)
	for _, one := range part {
		if err == nil {
			_, err = fmt.Fprintf(w, " %s", slots{one})
		}
	}
	if err == nil {
		_, err = fmt.Fprintf(w, "\nvars currentEpoch %d lastVoteEpoch 0\n", t.Shards)
	}
	return err
}

// write makes a file.
func write(path string, content func(io.Writer) error) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("make a file for the restored data: %w", err)
	}
	defer file.Close()
	if err := content(file); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("write the restored data: %w", err)
	}
	return nil
}
