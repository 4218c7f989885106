// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	// restoredFolder is the folder on a volume for the complete data of a backup. The first member moves the data out of this folder.
	restoredFolder = "restored"
	// restoredNote is the name of the file that records restored data on the pod's volume. Its folder lives as long as the pod.
	restoredNote = "restored"
)

// Restored returns the folder on a volume for a backup's data. The first member of a new cluster uses that data. The caller must create the
// folder atomically, and call NoteRestored.
func Restored(volume string) string { return filepath.Join(volume, restoredFolder) }

// IsFree reports whether a backup's data may be placed on a volume: no member of this pod and no other program has written to it.
func IsFree(volume, pod string, data Data) (bool, error) {
	mark, err := ReadMark(volume)
	if err != nil {
		return false, err
	}
	return !data.Exists && !data.Leftovers && (mark == nil || !mark.started() && mark.Pod == pod), nil
}

// NoteRestored records that the first member must use the data of a backup, and must not begin an empty cluster.
func NoteRestored(notes string) error {
	if err := WriteDurably(filepath.Join(notes, restoredNote), nil); err != nil {
		return fmt.Errorf("note that data was restored: %w", err)
	}
	return nil
}

// findRestored reports whether the volume has a backup's data that this pod's member must use.
func (a *Agent) findRestored() (bool, error) {
	_, err := os.Stat(filepath.Join(a.Notes, restoredNote))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		_, err = os.Stat(Restored(a.Volume))
	}
	if err != nil {
		return false, fmt.Errorf("read the restored data, without which no cluster is begun: delete the pod to have the backup restored again: %w", err)
	}
	return true, nil
}

// takeRestored moves the data of a backup to the member's data folder.
func (a *Agent) takeRestored(folder string) error {
	err := os.Rename(Restored(a.Volume), folder)
	if err == nil {
		err = syncFolder(a.Volume)
	}
	if err != nil {
		return fmt.Errorf("use the restored data: %w", err)
	}
	_, _ = fmt.Fprintln(a.Log, "the cluster begins with the data of a backup")
	return nil
}
