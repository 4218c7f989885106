// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
)

// start starts a program that ends with the test process. The returned channel is closed when the program has ended.
// The kernel kills the program (Pdeathsig) when the thread that started it ends. Go ends a thread only if a goroutine
// ends while it is locked to the thread. Such a goroutine would kill all programs that its thread has started.
func start(t testing.TB, cmd *exec.Cmd) <-chan struct{} {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	assert.NilError(t, cmd.Start())
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // ProcessState has the exit code
		close(done)
	}()
	return done
}

// KilledAt returns a function for a test's hook between writes. The function kills the process at its call with that
// number: for "3", at the third call.
func KilledAt(number string) (at func(string), err error) {
	last, err := strconv.Atoi(number)
	calls := 0
	return func(string) {
		if calls++; calls == last {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}, err
}
