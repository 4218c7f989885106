// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package cron

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// Command starts a program as a container does: a run ends when its first process ends, and the remaining processes of the run are killed.
type Command struct {
	Argv []string
	// ActiveDeadline is the maximum duration of a run; 0 for no limit.
	ActiveDeadline time.Duration
	// Grace is the time between SIGTERM and SIGKILL.
	Grace time.Duration

	mu   sync.Mutex
	runs map[int]*run // by process ID
}

// run is a run whose process exists.
type run struct {
	process *os.Process
	result  string        // the reason for which the agent ended the run; "" for none
	ended   chan struct{} // closed when the process has ended
}

// Start starts a run. The run writes directly to the output of this program.
func (c *Command) Start(tick time.Time, ended func(Outcome)) {
	cmd := exec.Command(c.Argv[0], c.Argv[1:]...) //nolint:noctx // the user's command in the user's container
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	o := Outcome{Tick: tick, Began: time.Now()}
	c.mu.Lock()
	err := cmd.Start()
	if err != nil {
		c.mu.Unlock()
		o.Ended, o.Result, o.Problem, o.Code = time.Now(), Failed, fmt.Sprintf("cannot start %s: %v", c.Argv[0], err), 126
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			o.Code = 127
		}
		go ended(o)
		return
	}
	if c.runs == nil {
		c.runs = map[int]*run{}
	}
	r := &run{process: cmd.Process, ended: make(chan struct{})}
	c.runs[cmd.Process.Pid] = r
	c.mu.Unlock()
	go c.watch(cmd, r, o, ended)
}

// watch waits for the end of a run.
func (c *Command) watch(cmd *exec.Cmd, r *run, o Outcome, ended func(Outcome)) {
	var deadline *time.Timer
	if c.ActiveDeadline > 0 {
		deadline = time.AfterFunc(c.ActiveDeadline, func() { c.end(r, Deadline) })
	}
	_ = cmd.Wait() // the process state has the exit code
	close(r.ended)
	if deadline != nil {
		deadline.Stop()
	}
	o.Ended = time.Now()
	killGroup(cmd.Process.Pid)
	c.mu.Lock()
	delete(c.runs, cmd.Process.Pid)
	result := r.result
	c.mu.Unlock()
	c.Reap()
	c.describe(&o, cmd.ProcessState, result)
	ended(o)
}

// describe sets the outcome of a process that has ended.
func (c *Command) describe(o *Outcome, state *os.ProcessState, result string) {
	o.Code = state.ExitCode()
	status, _ := state.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		o.Code = 128 + int(status.Signal())
	}
	switch o.Result = result; {
	case result == Deadline:
		o.Problem = fmt.Sprintf("it took longer than activeDeadlineSeconds, %d s, and was ended", int64(c.ActiveDeadline/time.Second))
	case result != "":
	case status.Signaled():
		o.Result, o.Problem = Failed, fmt.Sprintf("signal %d (%s) ended the run", status.Signal(), status.Signal())
	case o.Code != 0:
		o.Result, o.Problem = Failed, fmt.Sprintf("exit code %d", o.Code)
	default:
		o.Result = Succeeded
	}
}

// Stop ends all active runs. Their outcomes have the given result.
func (c *Command) Stop(result string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.runs {
		go c.end(r, result)
	}
}

// end sends SIGTERM to the process of a run, as a kubelet does. After the grace period it sends SIGKILL to the whole process group. A
// second call does not change the result.
func (c *Command) end(r *run, result string) {
	c.mu.Lock()
	isFirst := r.result == ""
	if isFirst {
		r.result = result
	}
	c.mu.Unlock()
	if !isFirst {
		return
	}
	_ = r.process.Signal(syscall.SIGTERM) // the process may have ended already
	select {
	case <-r.ended:
	case <-time.After(c.Grace):
		killGroup(r.process.Pid)
	}
}

// killGroup kills the remaining processes of a run.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }
