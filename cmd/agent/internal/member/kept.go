// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Kept measures the folders of former data that a volume keeps until a user removes them. It measures again when the names of these folders
// change.
type Kept struct {
	mu    sync.Mutex
	names []string
	bytes int64
}

// MiB returns the size in MiB of the folders that were set aside next to a data folder. It returns 0 if the size is unknown or less than 1
// MiB.
func (k *Kept) MiB(folder string) int64 {
	root, prefix := filepath.Dir(folder), filepath.Base(folder)+setAsideInfix
	entries, err := os.ReadDir(root)
	if err != nil {
		return 0
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() && strings.HasPrefix(entry.Name(), prefix) {
			names = append(names, entry.Name())
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !slices.Equal(names, k.names) {
		k.names, k.bytes = names, 0
		for _, name := range names {
			k.bytes += sizeOf(filepath.Join(root, name))
		}
	}
	return k.bytes >> 20
}

// sizeOf returns the size of the files in a folder, in bytes. It skips files that it cannot read.
func sizeOf(folder string) (bytes int64) {
	_ = filepath.WalkDir(folder, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			if info, err := entry.Info(); err == nil {
				bytes += info.Size()
			}
		}
		return nil
	})
	return bytes
}
