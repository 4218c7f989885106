// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"syscall"
)

// mostFiles bounds the number of files that the agent and the programs that it starts may open. MySQL 5.7 and its tools reserve memory for
// each file that they may open: 24 MiB with this limit, many GiB on a node without a limit.
const mostFiles = 1 << 20

// limitsFile is a script that bounds the number of files that the server may open, because a pod has no field for this limit. The image's
// entry point, a bash script, runs the script first if BASH_ENV names it.
const (
	limitsFile   = "limits.sh"
	limitsScript = `case $(ulimit -n) in
unlimited | ???????? | ????????? | ??????????*) ulimit -n 1048576 ;;
esac
`
)

// limitFiles bounds the open files of this process and of the processes that it starts.
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
