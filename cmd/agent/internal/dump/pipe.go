// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package dump

import (
	"os"

	"golang.org/x/sys/unix"
)

// widen enlarges the buffer of a pipe to 1 MiB, so that both ends wait less often. If the kernel refuses, the buffer keeps its 64 KiB.
func widen(pipe *os.File) {
	if raw, err := pipe.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, 1<<20) })
	}
}
