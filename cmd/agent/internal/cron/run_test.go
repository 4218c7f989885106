// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package cron

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"
)

// patience limits waits. Only a hang exceeds it.
var patience = poll.WithTimeout(5 * time.Minute)

// start starts a run of a shell script. The returned channel receives the outcome.
func start(c *Command, script string) chan Outcome {
	c.Argv = []string{"sh", "-c", script}
	outcomes := make(chan Outcome, 1)
	c.Start(time.Now(), func(o Outcome) { outcomes <- o })
	return outcomes
}

// The tests of this file are not parallel: an idle Command kills the children of this process.

func TestOutcomes(t *testing.T) {
	for _, row := range []struct {
		name, script, result, problem string
		code                          int
		command                       *Command
		isReady                       bool // the run's deadline passes after the run has created the file "ready"
	}{
		{name: "success", script: "exit 0", result: Succeeded},
		{name: "exit code", script: "exit 3", result: Failed, problem: "exit code 3", code: 3},
		{name: "a signal", script: "kill -SEGV $$", result: Failed, problem: "signal 11 (segmentation fault) ended the run", code: 139},
		{
			name: "a deadline", script: "exec sleep 100", result: Deadline, code: 143, problem: "it took longer than activeDeadlineSeconds, 1 s, and was ended",
			command: &Command{ActiveDeadline: time.Second, Grace: time.Hour},
		},
		{
			name: "a deadline, and SIGTERM is ignored", script: "trap '' TERM; touch ready; while :; do sleep 0.1; done", result: Deadline, code: 137, isReady: true,
			problem: "it took longer than activeDeadlineSeconds, 3600 s, and was ended", command: &Command{ActiveDeadline: time.Hour, Grace: 100 * time.Millisecond},
		},
		{
			name: "a deadline, and the command ends with success", script: "trap 'exit 0' TERM; touch ready; while :; do sleep 0.1; done", result: Deadline, isReady: true,
			problem: "it took longer than activeDeadlineSeconds, 3600 s, and was ended", command: &Command{ActiveDeadline: time.Hour, Grace: time.Hour},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := row.command
			if c == nil {
				c = &Command{}
			}
			folder := t.TempDir()
			outcomes := start(c, "cd "+folder+"; "+row.script)
			if row.isReady {
				poll.WaitOn(t, func(poll.LogT) poll.Result {
					if _, err := os.Stat(filepath.Join(folder, "ready")); err != nil {
						return poll.Continue("%v", err)
					}
					return poll.Success()
				}, patience)
				c.Stop(Deadline)
			}
			o := <-outcomes
			assert.Equal(t, o.Result, row.result)
			assert.Equal(t, o.Problem, row.problem)
			assert.Equal(t, o.Code, row.code)
			assert.Assert(t, !o.Ended.Before(o.Began))
		})
	}
}

func TestCommandsThatCannotStart(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	assert.NilError(t, os.WriteFile(text, []byte("no program"), 0o600))
	for command, code := range map[string]int{"there-is-none": 127, "/there/is/none": 127, text: 126} {
		c := &Command{Argv: []string{command}}
		outcomes := make(chan Outcome, 1)
		c.Start(time.Now(), func(o Outcome) { outcomes <- o })
		o := <-outcomes
		assert.Equal(t, o.Code, code, command)
		assert.Equal(t, o.Result, Failed)
		assert.ErrorContains(t, problem(o.Problem), "cannot start "+command)
	}
}

type problem string

func (p problem) Error() string { return string(p) }

// After the first process of a run has ended, no process of the run remains, as in a container: neither in its process group, nor in
// another session, nor as a zombie.
func TestNothingOfARunIsLeft(t *testing.T) {
	assert.NilError(t, Adopt())
	folder := t.TempDir()
	c := &Command{}
	o := <-start(c, `cd `+folder+`
		sleep 100 & echo $! > group
		setsid sh -c 'echo $$ > session; trap "" TERM HUP; while :; do sleep 100; done' &
		sh -c 'sleep 0.05 & exit 0'
		while ! test -s session; do sleep 0.01; done`)
	assert.Equal(t, o.Result, Succeeded, o.Problem)
	for _, name := range []string{"group", "session"} {
		pid := readPID(t, filepath.Join(folder, name))
		assert.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH, "the process in %s is left", name)
	}
	assert.Equal(t, len(children()), 0)
}

// An orphan that ends during its run is not left as a zombie.
func TestOrphansOfARunAreReaped(t *testing.T) {
	assert.NilError(t, Adopt())
	folder := t.TempDir()
	c := &Command{Grace: time.Minute}
	outcomes := start(c, `cd `+folder+`; sh -c 'sleep 0 & echo $! > new; mv new orphan'; exec sleep 100`)
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		text, err := os.ReadFile(filepath.Join(folder, "orphan"))
		if err != nil {
			return poll.Continue("%v", err)
		}
		c.Reap()
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil || syscall.Kill(pid, 0) == nil {
			return poll.Continue("orphan %d is there: %v", pid, err)
		}
		return poll.Success()
	}, patience)
	c.Stop(Replaced)
	assert.Equal(t, (<-outcomes).Result, Replaced, "the run itself was killed")
}

func readPID(t *testing.T, file string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	assert.NilError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	assert.NilError(t, err)
	return pid
}
