// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"d3os.com/d3os-operator/test/harness/process"
)

// container runs one container of a pod, again and again where the restart policy says so.
type container struct {
	pod     *pod
	spec    *corev1.Container
	init    bool
	once    sync.Once
	stop    chan struct{} // closed when it is to end by its grace period
	ended   chan struct{} // closed when it has ended for good
	started chan struct{} // closed when it has started for the first time
	code    int           // the last exit code; when ended is closed
}

func newContainer(p *pod, spec *corev1.Container, init bool) *container {
	return &container{pod: p, spec: spec, init: init, stop: make(chan struct{}), ended: make(chan struct{}), started: make(chan struct{})}
}

func (c *container) end() { c.once.Do(func() { close(c.stop) }) }

func (c *container) sidecar() bool {
	return c.init && c.spec.RestartPolicy != nil && *c.spec.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// again reports whether the container starts again after an exit code.
func (c *container) again(code int) bool {
	switch policy := c.pod.spec.RestartPolicy; {
	case c.sidecar():
		return true
	case c.init:
		return code != 0 && policy != corev1.RestartPolicyNever
	default:
		return policy == corev1.RestartPolicyAlways || policy == corev1.RestartPolicyOnFailure && code != 0
	}
}

// awaitStarted waits until a sidecar has started, or is to end.
func (c *container) awaitStarted() {
	select {
	case <-c.started:
	case <-c.ended:
	case <-c.pod.deleting:
	case <-c.pod.ctx.Done():
	}
}

// stopped reports whether the container is to end.
func (c *container) stopped() bool {
	select {
	case <-c.stop:
		return true
	case <-c.pod.ctx.Done():
		return true
	default:
		return false
	}
}

// pause waits; it returns early when the container is to end.
func (c *container) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.stop:
	case <-c.pod.ctx.Done():
	}
}

func (c *container) run() {
	defer close(c.ended)
	first := c.pod.emulator.options.Backoff
	wait := time.Duration(0) // as a kubelet: the first restart is at once
	for {
		v := c.prepare()
		if v == nil {
			c.code = 137
			return
		}
		began := time.Now()
		c.code = c.execute(v)
		if c.stopped() || !c.again(c.code) {
			return
		}
		if time.Since(began) > 60*first {
			wait = 0
		}
		if wait > 0 {
			c.waiting("CrashLoopBackOff", fmt.Sprintf("back-off %s restarting failed container=%s", wait, c.spec.Name))
			c.pause(wait)
			if c.stopped() {
				return
			}
		}
		wait = min(max(first, 2*wait), 30*first)
		c.restarting()
	}
}

// prepare waits until all that the container needs is there; nil when it is to end before.
func (c *container) prepare() *view {
	for !c.stopped() {
		err := emulated(c.spec)
		reason := "CreateContainerConfigError"
		if err == nil {
			_, err = c.pod.emulator.image(c.spec)
			reason = "ErrImagePull"
		}
		if err == nil {
			var v *view
			if v, err = c.pod.see(c.pod.ctx, c.spec); err == nil {
				return v
			}
			reason = "CreateContainerConfigError"
		}
		c.waiting(reason, err.Error())
		c.pause(often)
	}
	return nil
}

// execute runs the container once and returns its exit code.
func (c *container) execute(v *view) int {
	p := c.pod
	name := c.spec.Name
	began := now()
	run, err := c.launch(v)
	id := "emulator://" + string(uuid.NewUUID())
	if err != nil {
		c.terminated(id, 128, "StartError", err.Error(), began)
		return 128
	}
	p.mu.Lock()
	p.runs[name] = run
	p.mu.Unlock()
	if p.ctx.Err() != nil {
		run.Kill()
	}
	probes, stopProbes := context.WithCancel(p.ctx)
	unhealthy := make(chan struct{}, 1)
	var probing sync.WaitGroup
	probing.Go(func() {
		if !c.postStart(probes, v, run) {
			unhealthy <- struct{}{}
			return
		}
		c.change(func(s *corev1.ContainerStatus) {
			s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: run.Began}}
			s.ContainerID = id
		})
		c.watchHealth(probes, v, unhealthy)
	})
	select {
	case <-run.Done:
	case <-p.ctx.Done():
		run.Kill()
	case <-c.stop:
		c.terminate(v, run)
	case <-unhealthy:
		c.terminate(v, run)
	}
	stopProbes()
	probing.Wait()
	p.mu.Lock()
	delete(p.runs, name)
	p.mu.Unlock()
	reason := "Completed"
	if run.Code != 0 {
		reason = "Error"
	}
	c.terminated(id, run.Code, reason, lastWords(v), run.Began)
	return run.Code
}

// lastWords is what a program wrote as the termination message.
func lastWords(v *view) string {
	text, _ := os.ReadFile(v.lastWords) // none is as good as an empty one
	return string(text[:min(len(text), 4096)])
}

// launch starts the program.
func (c *container) launch(v *view) (*process.Process, error) {
	if err := os.RemoveAll(v.lastWords); err != nil {
		return nil, err
	}
	file := c.pod.logFile(c.spec.Name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, err
	}
	out, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close() // the process has it
	argv := v.argv(c.spec)
	if v.names != nil {
		if err := v.names.list(); err != nil {
			return nil, err
		}
		argv = append(slices.Clone(v.names.wrap), argv...)
	}
	return c.pod.emulator.guard.Start(argv, v.environ(), v.dir, out)
}

// terminate ends a program as a kubelet does: preStop, SIGTERM, and SIGKILL at the end of the grace period.
func (c *container) terminate(v *view, run *process.Process) {
	deadline := time.NewTimer(c.pod.grace())
	defer deadline.Stop()
	ctx, cancel := context.WithCancel(c.pod.ctx)
	defer cancel()
	hooked := make(chan struct{})
	go func() {
		defer close(hooked)
		if c.spec.Lifecycle != nil {
			_ = c.hook(ctx, v, c.spec.Lifecycle.PreStop) // its failure stops nothing
		}
	}()
	select {
	case <-hooked:
		_ = run.Signal(syscall.SIGTERM) // it may have ended by itself
	case <-run.Done:
		return
	case <-deadline.C:
		run.Kill()
		return
	case <-c.pod.ctx.Done():
		run.Kill()
		return
	}
	select {
	case <-run.Done:
	case <-deadline.C:
		run.Kill()
	case <-c.pod.ctx.Done():
		run.Kill()
	}
}

// postStart runs the hook after the start and reports whether the container may go on.
func (c *container) postStart(ctx context.Context, v *view, run *process.Process) bool {
	if c.spec.Lifecycle == nil || c.spec.Lifecycle.PostStart == nil {
		return true
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-run.Done:
			cancel()
		case <-ctx.Done():
		}
	}()
	return c.hook(ctx, v, c.spec.Lifecycle.PostStart) == nil
}

// signal sends a signal to a container's processes.
func (p *pod) signal(container string, signal syscall.Signal) error {
	p.mu.Lock()
	run := p.runs[container]
	p.mu.Unlock()
	if run == nil {
		return fmt.Errorf("container %s is not running", container)
	}
	if err := run.Signal(signal); err != nil {
		return fmt.Errorf("container %s: %w", container, err)
	}
	return nil
}
