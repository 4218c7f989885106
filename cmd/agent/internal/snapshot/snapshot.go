// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package snapshot contains code that is common to backups of clusters. Its subpackages back up etcd, MySQL and Redis.
package snapshot

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Flush writes all data of a volume to the disk.
func Flush(volume string) error {
	v, err := OpenVolume(volume)
	if err != nil {
		return err
	}
	defer v.Close()
	return v.Flush()
}

// Volume is a volume to which processes write.
type Volume struct{ folder *os.File }

// OpenVolume opens the volume that contains a folder.
func OpenVolume(folder string) (*Volume, error) {
	open, err := os.Open(folder)
	if err != nil {
		return nil, fmt.Errorf("flush volume %s: %w", folder, err)
	}
	return &Volume{folder: open}, nil
}

// Flush writes all data of the volume to the disk. It fails if a write of any process to the volume has failed since OpenVolume.
func (v *Volume) Flush() error {
	if err := unix.Syncfs(int(v.folder.Fd())); err != nil {
		return fmt.Errorf("flush volume %s: %w", v.folder.Name(), err)
	}
	return nil
}

// Close stops watching for failed writes.
func (v *Volume) Close() { _ = v.folder.Close() } // nothing was written

// Series returns a number for comparing the release series of versions; 0 for an invalid version.
func Series(version string) int {
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return 0
	}
	return major<<16 + minor
}
