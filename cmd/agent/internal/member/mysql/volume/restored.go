// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"d3os.com/d3os-operator/internal/contract"
)

// marker is a file in the folder of restored data. It contains the name of the backup.
const marker = "d3os-restored"

// Restoring returns the folder in which a backup is being restored. A server never starts on data in this folder.
func (v *Volume) Restoring() string { return v.folder() + ".restoring" }

// restored returns the folder of complete restored data that is not yet a member's data.
func (v *Volume) restored() string { return v.folder() + ".restored" }

// MayRestore reports whether a backup may be restored to the volume: it has never had data, its member has promised nothing, and nothing
// was restored yet.
func (v *Volume) MayRestore() (bool, error) {
	c, err := v.Look()
	if err != nil || c.Kind != Empty || c.Notes.Promised != 0 || c.Notes.Revision != 0 {
		return false, err
	}
	_, isRestored, err := v.findRestored()
	return !isRestored, err
}

// Restore records that the data in the folder Restoring is complete, and the name of the backup. When it returns, data and record are on
// the disk.
func (v *Volume) Restore(backup string) error {
	if err := os.WriteFile(filepath.Join(v.Restoring(), marker), []byte(backup+"\n"), 0o640); err != nil {
		return fmt.Errorf("note that the data is restored: %w", err)
	}
	if err := syncTree(v.Restoring()); err != nil {
		return fmt.Errorf("write the restored data to the disk: %w", err)
	}
	at("restored data synced")
	if err := v.rename(v.Restoring(), v.restored()); err != nil {
		return fmt.Errorf("note that the data is restored: %w", err)
	}
	return nil
}

// findRestored returns the folder of complete restored data. After an interrupted Begin, this is the new folder.
func (v *Volume) findRestored() (folder string, is bool, err error) {
	for _, folder := range []string{v.restored(), v.New()} {
		_, err := os.Stat(filepath.Join(folder, marker))
		if err == nil {
			return folder, true, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", false, fmt.Errorf("read the restored data: %w", err)
		}
	}
	return "", false, nil
}

// Restored returns the folder for complete restored data, and whether the volume has such data. After an interrupted Begin, it first
// renames the new folder back to this folder.
func (v *Volume) Restored() (folder string, is bool, err error) {
	found, is, err := v.findRestored()
	if err != nil || !is || found == v.restored() {
		return v.restored(), is, err
	}
	return v.restored(), true, v.rename(found, v.restored())
}

// Begin makes restored data the data of a member that never had data. It fails with Refused if there is no restored data.
func (v *Volume) Begin(server, ticket string, revision int64) error {
	folder, is, err := v.Restored()
	if err == nil && !is {
		err = contract.Errorf(contract.ReasonRefused, "begin with restored data: the volume has no restored data")
	}
	if err != nil {
		return err
	}
	if err := v.Prepare(); err != nil {
		return err
	}
	if err := v.rename(folder, v.New()); err != nil {
		return fmt.Errorf("begin with restored data: %w", err)
	}
	at("restored data renamed")
	return v.Replace(server, ticket, revision)
}

// DropRestored removes restored data that is not needed, because the member has a copy of another member's data.
func (v *Volume) DropRestored() error {
	for _, folder := range []string{v.Restoring(), v.restored()} {
		if err := os.RemoveAll(folder); err != nil {
			return fmt.Errorf("remove restored data that is not used: %w", err)
		}
	}
	return nil
}
