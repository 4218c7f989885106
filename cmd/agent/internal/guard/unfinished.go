// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// asideSuffix follows the original name of a folder that StartOver has renamed. A number follows the suffix.
const asideSuffix = "-unfinished-"

// neverServed reports whether the first start of a server was interrupted before a database existed. Three conditions must hold: the guard
// let the server start on an empty folder; the operator has never recorded that the database became ready; no file can be a user's table.
func (v Volume) neverServed(record Record) bool {
	m := v.Mark
	return m != nil && m.Initialising && m.Format == unfinishedFormat && m.Restoring == "" && m.ReplacedBy == "" && m.RestoredFrom == "" &&
		!record.Exists && record.ReplacedBy == "" && !v.IsEmpty && !v.HasTables
}

// StartOver handles a first start that was interrupted. It renames the data folder and creates an empty one: on an incomplete database, a
// server fails to start, or starts without the accounts. StartOver deletes nothing. It does nothing while a server uses the folder. It
// returns the volume, and the new name of the renamed folder; "" for none.
func (v Volume) StartOver(root, data string, record Record) (Volume, string, error) {
	folder := filepath.Join(root, data)
	if !v.neverServed(record) || isLocked(folder) {
		return v, "", nil
	}
	info, err := os.Stat(folder)
	if err != nil {
		return v, "", fmt.Errorf("start over with folder %s after an interrupted first start: %w", folder, err)
	}
	for n := 1; ; n++ {
		aside := fmt.Sprintf("%s%s%d", folder, asideSuffix, n)
		if _, err := os.Lstat(aside); err == nil {
			continue
		}
		if err := os.Rename(folder, aside); err != nil {
			return v, "", fmt.Errorf("start over with folder %s after an interrupted first start: %w", folder, err)
		}
		if err := os.Mkdir(folder, info.Mode().Perm()); err != nil {
			return v, "", fmt.Errorf("create folder %s again after an interrupted first start: %w", folder, err)
		}
		return Volume{Mark: v.Mark, IsEmpty: true}, aside, os.Chmod(folder, info.Mode())
	}
}

// systemFolders are the folders that a server creates for itself.
var systemFolders = []string{"mysql", "performance_schema", "sys", "lost+found"}

// mayBeTable reports whether an entry of a data folder may be, or contain, a user's table.
func mayBeTable(data string, entry fs.DirEntry) bool {
	name := entry.Name()
	switch {
	case strings.HasPrefix(name, "#innodb_"), slices.Contains(systemFolders, name) && entry.IsDir():
		return false
	case entry.Type().IsRegular():
		return strings.HasSuffix(name, ".ibd") && name != "mysql.ibd" // may be a tablespace with several tables
	case !entry.IsDir():
		return true // a symbolic link
	}
	files, err := os.ReadDir(filepath.Join(data, name))
	return err != nil || slices.ContainsFunc(files, func(f fs.DirEntry) bool { return f.Name() != "db.opt" })
}

// isLocked reports whether a server holds the lock of its system tablespace.
func isLocked(folder string) bool {
	file, err := os.Open(filepath.Join(folder, "ibdata1"))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer file.Close()
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	return unix.FcntlFlock(file.Fd(), unix.F_GETLK, &lock) != nil || lock.Type != unix.F_UNLCK
}
