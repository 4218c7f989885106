// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"d3os.com/d3os-operator/test/harness/process"
)

// backoff is the wait before the second restart of a container. Each further restart doubles the wait, up to 30 times backoff. (A kubelet
// begins with 10 s.)
const backoff = 200 * time.Millisecond

// container runs one container of a pod, and restarts it by the restart policy.
type container struct {
	pod  *pod
	spec *corev1.Container
	init bool
}

// again reports whether the restart policy restarts a container that has ended with this exit code.
func (c *container) again(code int) bool {
	policy := c.pod.spec.RestartPolicy
	return !c.init && policy == corev1.RestartPolicyAlways || code != 0 && policy != corev1.RestartPolicyNever
}

// sleep waits, and reports whether the context was still valid at the end.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// run runs the container, and restarts it until the restart policy allows no further restart. It returns the last exit code.
func (c *container) run() int {
	wait := time.Duration(0) // the first restart is immediate, as with a kubelet
	for {
		v := c.prepare()
		if v == nil {
			return 137
		}
		began := time.Now()
		code := c.execute(v)
		if c.pod.alive.Err() != nil || !c.again(code) {
			return code
		}
		if time.Since(began) > 60*backoff {
			wait = 0
		}
		if wait > 0 {
			c.waiting("CrashLoopBackOff", fmt.Sprintf("back-off %s restarting failed container=%s", wait, c.spec.Name))
			if !sleep(c.pod.alive, wait) {
				return code
			}
		}
		wait = min(max(backoff, 2*wait), 30*backoff)
		c.restarting()
	}
}

// prepare waits until everything that the container needs exists. It returns nil if the pod must end during the wait.
func (c *container) prepare() *view {
	for c.pod.alive.Err() == nil {
		if c.isHeld() {
			sleep(c.pod.alive, often)
			continue
		}
		reason := "ErrImagePull"
		image, err := c.pod.emulator.image(c.spec)
		if err == nil {
			reason = "CreateContainerConfigError"
			var v *view
			if v, err = c.pod.see(c.pod.ctx, c.spec, image); err == nil {
				return v
			}
		}
		c.waiting(reason, err.Error())
		sleep(c.pod.alive, often)
	}
	return nil
}

// execute runs the container once and returns its exit code.
func (c *container) execute(v *view) int {
	p := c.pod
	id := "emulator://" + string(uuid.NewUUID())
	printed := size(p.logFile(c.spec.Name))
	run, err := c.launch(v)
	if err != nil {
		c.terminated(id, 128, "StartError", err.Error(), now())
		return 128
	}
	p.mu.Lock()
	p.runs[c.spec.Name] = run
	p.mu.Unlock()
	c.change(func(s *corev1.ContainerStatus) {
		s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: run.Began}}
		s.ContainerID = id
	})
	ctx, ended := context.WithCancel(p.ctx)
	go func() {
		<-run.Done
		ended()
	}()
	healthy, sick := context.WithCancel(ctx)
	var probing sync.WaitGroup
	probing.Go(func() { c.watchHealth(ctx, v, sick) })
	select {
	case <-healthy.Done():
	case <-p.alive.Done():
	}
	c.terminate(ctx, v, run)
	probing.Wait()
	p.mu.Lock()
	delete(p.runs, c.spec.Name)
	starved := p.starved[c.spec.Name] == run
	p.mu.Unlock()
	reason := "Completed"
	switch {
	case starved:
		reason = "OOMKilled"
	case run.Code != 0:
		reason = "Error"
	}
	c.terminated(id, run.Code, reason, c.lastWords(v, run.Code, printed), run.Began)
	return run.Code
}

// lastWords returns the termination message of a program: the contents of its file or, if the file is empty and the policy allows, the end
// of this run's output. The size limits are those of the kubelet.
func (c *container) lastWords(v *view, code int, printed int64) string {
	text, _ := os.ReadFile(v.lastWords) // a missing file counts as an empty one
	if len(text) > 0 || code == 0 || c.spec.TerminationMessagePolicy != corev1.TerminationMessageFallbackToLogsOnError {
		containers := len(c.pod.spec.InitContainers) + len(c.pod.spec.Containers)
		return string(text[:min(len(text), 4096, 12<<10/containers)])
	}
	text, _ = os.ReadFile(c.pod.logFile(c.spec.Name))
	text = text[min(printed, int64(len(text))):]
	text = text[max(0, len(text)-2048):]
	lines := strings.SplitAfter(string(text), "\n")
	return strings.Join(lines[max(0, len(lines)-81):], "")
}

// size returns the size of a file in bytes, or 0 if the file does not exist.
func size(file string) int64 {
	info, err := os.Stat(file)
	if err != nil {
		return 0
	}
	return info.Size()
}

// launch starts the container's program.
func (c *container) launch(v *view) (*process.Process, error) {
	if err := os.RemoveAll(v.lastWords); err != nil {
		return nil, err
	}
	argv := v.argv(c.spec)
	if v.names != nil {
		if err := v.names.list(); err != nil {
			return nil, err
		}
		argv = append(slices.Clone(v.names.wrap), argv...)
	}
	return c.start(v, argv)
}

// start starts a program in the container. Its output is written to the container's log.
func (c *container) start(v *view, argv []string) (*process.Process, error) {
	file := c.pod.logFile(c.spec.Name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, err
	}
	out, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close() // the process has its own descriptor
	return c.pod.emulator.guard.Start(argv, v.environ(), v.dir, out)
}

// terminate ends a running program as a kubelet does: preStop, then SIGTERM, then SIGKILL at the end of the grace period. Without a running
// program it does nothing.
func (c *container) terminate(ctx context.Context, v *view, run *process.Process) {
	grace, cancel := context.WithTimeout(ctx, c.pod.grace())
	defer cancel()
	if hooks := c.spec.Lifecycle; hooks != nil && hooks.PreStop != nil && ctx.Err() == nil {
		if hooks.PreStop.Sleep != nil {
			sleep(grace, time.Duration(hooks.PreStop.Sleep.Seconds)*time.Second)
		} else {
			_ = c.exec(grace, v, hooks.PreStop.Exec.Command) // a failed hook does not stop the termination
		}
	}
	if grace.Err() == nil {
		_ = run.Signal(syscall.SIGTERM) // the program may have ended already
	}
	<-grace.Done()
	run.Kill()
}
