// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package cron

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Adopt makes this program the parent of orphaned processes, as the first process of a container is by default.
func Adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent of orphans: %w", err)
	}
	return nil
}

// reapTries bounds the rounds in which orphans are killed: killing a process may orphan further processes.
const reapTries = 100

// Reap collects the exit codes of orphans that have ended. While no run is active, it kills all other orphans, because they belong to
// finished runs.
func (c *Command) Reap() {
	for range reapTries {
		if c.reap() == 0 {
			return
		}
		time.Sleep(5 * time.Millisecond) // wait for the killed processes to end
	}
}

// reap runs one round. It returns the number of processes that it killed.
func (c *Command) reap() (killed int) {
	c.mu.Lock() // while Start holds the lock, c.runs does not contain the started process yet
	defer c.mu.Unlock()
	for _, child := range children() {
		switch {
		case c.runs[child.pid] != nil:
		case child.hasEnded:
			_, _ = syscall.Wait4(child.pid, nil, syscall.WNOHANG, nil)
		case len(c.runs) == 0:
			if syscall.Kill(child.pid, syscall.SIGKILL) == nil {
				killed++
			}
		}
	}
	return killed
}

type child struct {
	pid      int
	hasEnded bool
}

// children returns the child processes of this program.
func children() (found []child) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil // without /proc, orphans run until the container ends
	}
	self := []byte(strconv.Itoa(os.Getpid()))
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil {
			continue
		}
		// The name in parentheses may contain any character. The state and the parent follow it.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) > 1 && bytes.Equal(fields[1], self) {
			found = append(found, child{pid: pid, hasEnded: fields[0][0] == 'Z'})
		}
	}
	return found
}
