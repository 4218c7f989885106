// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"syscall"
)

// mostFiles bounds the files that the programs started by the agent may open. MySQL 5.7 and its tools reserve memory for each file that they
// may open: 24 MiB for these, many GiB on a node without a limit.
const mostFiles = 1 << 20

// limitsFile is a file for the image's entry point, a script of bash, which reads it first where BASH_ENV names it. It bounds the open files
// of the server, which no field of a pod does.
const (
	limitsFile   = "limits.sh"
	limitsScript = `case $(ulimit -n) in
unlimited | ???????? | ????????? | ??????????*) ulimit -n 1048576 ;;
esac
`
)

// limitFiles bounds the open files of this process, and so of all that it starts.
func limitFiles() {
	var limit syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	if bounded := boundFiles(limit); err == nil && bounded != limit {
		err = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &bounded)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error: bound the number of open files:", err)
	}
}

// boundFiles returns a limit that is at most mostFiles.
func boundFiles(limit syscall.Rlimit) syscall.Rlimit {
	return syscall.Rlimit{Cur: min(limit.Cur, mostFiles), Max: min(limit.Max, mostFiles)}
}
