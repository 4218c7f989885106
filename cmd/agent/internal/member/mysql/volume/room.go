// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"fmt"
	"syscall"
)

// least is the room in bytes below which a volume counts as full: a server extends its files by up to 4 MiB at a time, and a binary log that it
// cannot write makes it wait without an answer.
const least = 16 << 20

// Full returns the remaining space of the volume if it is too small, or "" if it is enough or unknown.
func (v *Volume) Full() string {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(v.Root, &stat); err != nil {
		return ""
	}
	return full(int64(stat.Bavail)*stat.Bsize, int64(stat.Blocks)*stat.Bsize) //nolint:gosec // of a volume
}

func full(free, size int64) string {
	if free >= least {
		return ""
	}
	return fmt.Sprintf("no space left on the volume: %d of %d MiB", free>>20, size>>20)
}
