// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package snapshot is what backups of clusters have in common; below it are those of etcd and of Redis.
package snapshot

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Flush has what was written to a volume on the disk.
func Flush(volume string) error {
	folder, err := os.Open(volume)
	if err == nil {
		err = unix.Syncfs(int(folder.Fd()))
		_ = folder.Close() // only read
	}
	if err != nil {
		return fmt.Errorf("flush volume %s: %w", volume, err)
	}
	return nil
}

// Series returns a number by which the release series of versions are compared; 0 for what is no version.
func Series(version string) int {
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return 0
	}
	return major<<16 + minor
}
