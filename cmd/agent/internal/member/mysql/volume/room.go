// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"fmt"
	"syscall"
)

// least is the free space in bytes below which a volume counts as full. A server extends its files by up to 4 MiB at a time. It hangs while
// it cannot write its binary log.
const least = 16 << 20

// Full describes the free space of the volume if it is too small. It returns "" if the space is sufficient or unknown.
func (v *Volume) Full() string {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(v.Root, &stat); err != nil {
		return ""
	}
	return full(int64(stat.Bavail)*stat.Bsize, int64(stat.Blocks)*stat.Bsize) //nolint:gosec // the size of a volume fits into int64
}

// Kept returns the size in MiB of folders that were set aside.
func (v *Volume) Kept() int64 { return v.kept.MiB(v.folder()) }

func full(free, size int64) string {
	if free >= least {
		return ""
	}
	return fmt.Sprintf("no space left on the volume: %d of %d MiB", free>>20, size>>20)
}
