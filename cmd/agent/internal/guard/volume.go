// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"d3os.com/d3os-operator/internal/contract"
)

// markFile is the name of the Mark at the root of a volume.
const markFile = "d3os-data.json"

// memberFile is a file at the root of a volume. In it, a member of a MySQLCluster stores its promises (see package
// volume of member/mysql).
const memberFile = "d3os-mysql.json"

// ReadVolume reads a volume. root is the root folder, and data the data folder in it.
func ReadVolume(root, data string) (Volume, error) {
	volume := Volume{}
	text, err := os.ReadFile(filepath.Join(root, markFile))
	switch {
	case err == nil:
		volume.Mark = &Mark{}
		if json.Unmarshal(text, volume.Mark) != nil {
			volume.Mark = &Mark{} // format 0 makes Judge refuse the unreadable mark
		}
	case !errors.Is(err, fs.ErrNotExist):
		return volume, fmt.Errorf("read the mark of the volume: %w", err)
	}
	switch _, err := os.Stat(filepath.Join(root, memberFile)); {
	case err == nil:
		volume.OfMember = true
	case !errors.Is(err, fs.ErrNotExist):
		return volume, fmt.Errorf("check whether the volume belongs to a member of a MySQLCluster: %w", err)
	}
	data = filepath.Join(root, data)
	entries, err := os.ReadDir(data)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return volume, fmt.Errorf("read the data folder: %w", err)
	}
	for _, entry := range entries {
		// Every MySQL and MariaDB server stores its accounts in a folder with this name. It creates the folder in the first seconds of its
		// first start.
		volume.HasData = volume.HasData || entry.IsDir() && entry.Name() == "mysql"
	}
	volume.IsEmpty, volume.HasTables = len(entries) == 0, slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return mayBeTable(data, e) })
	volume.Data, volume.Others = evidence(data), others(data, entries)
	return volume, nil
}

// Remember records on the volume that a server may start on the data, and returns the new mark. If it cannot write the mark, it returns the
// old mark and an error, but the server may start. The write is atomic, even if the process or the node crashes.
func (v Volume) Remember(root string, server *Version, record Record) (*Mark, error) {
	mark := Mark{ID: newID()}
	if v.Mark != nil {
		mark = *v.Mark
	}
	mark.Format, mark.Initialising = markFormat, !record.Exists && (mark.Initialising || v.IsEmpty)
	if mark.Initialising {
		mark.Format = unfinishedFormat
	}
	if server != nil {
		mark.Server = server.Text
	}
	if v.Mark != nil && *v.Mark == mark {
		return v.Mark, nil
	}
	if err := write(root, mark); err != nil {
		return v.Mark, fmt.Errorf("mark the volume: %w", err)
	}
	return &mark, nil
}

// Restoring reports whether a restore to the volume has begun and is not complete.
func (v Volume) Restoring() bool { return v.Mark != nil && v.Mark.Restoring != "" }

// BeginRestore records on the volume that a restore of a backup begins. The caller calls it before any data exists.
func (v Volume) BeginRestore(root, backup string) (Volume, error) {
	mark := Mark{Format: unfinishedFormat, ID: newID(), Restoring: backup}
	v.Mark = &mark
	return v, write(root, mark)
}

// Restored records on the volume that the restore is complete, and the version of the server.
func (v Volume) Restored(root, server string) error {
	return write(root, Mark{Format: markFormat, ID: v.Mark.ID, Server: server, RestoredFrom: v.Mark.Restoring})
}

func newID() string {
	id := make([]byte, 12)
	_, _ = rand.Read(id) // cannot fail
	return hex.EncodeToString(id)
}

func write(root string, mark Mark) (err error) {
	text, err := json.Marshal(mark)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(root, "."+markFile+".")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	_, err = file.Write(append(text, '\n'))
	if err = errors.Join(err, file.Chmod(0o644), file.Sync(), file.Close()); err != nil {
		return err
	}
	if err = os.Rename(file.Name(), filepath.Join(root, markFile)); err != nil {
		return err
	}
	folder, err := os.Open(root)
	if err != nil {
		return nil // the mark was written, but a power failure may lose it
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// ReadRecord reads the operator's record: a ConfigMap that is mounted as a folder, with a file for each key. The record exists if it names
// a claim or a mark.
func ReadRecord(folder string) (Record, error) {
	record, claim := Record{}, ""
	for key, value := range map[string]*string{
		contract.RecordClaim: &claim, contract.RecordID: &record.ID, contract.RecordAllowServer: &record.AllowServer, contract.RecordReplacedBy: &record.ReplacedBy,
	} {
		text, err := os.ReadFile(filepath.Join(folder, key))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Record{}, fmt.Errorf("read the record: %w", err)
		}
		*value = strings.TrimSpace(string(text))
	}
	record.Exists = claim != "" || record.ID != ""
	return record, nil
}
