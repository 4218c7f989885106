// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Kill sends a signal to all processes of a pod's container. SIGKILL simulates a crash. SIGSTOP makes the program hang until SIGCONT. The
// emulator handles the end of the program like any other end.
func (e *Emulator) Kill(pod string, signal syscall.Signal, container string) error {
	p, err := e.find(pod)
	if err != nil {
		return err
	}
	p.mu.Lock()
	run := p.runs[container]
	p.mu.Unlock()
	if run == nil {
		return fmt.Errorf("send %s to pod %s: container %s is not running", signal, pod, container)
	}
	if err := run.Signal(signal); err != nil {
		return fmt.Errorf("send %s to pod %s: container %s: %w", signal, pod, container, err)
	}
	return nil
}

// Hold ends a container with a signal, waits for its end, and prevents its start until the returned function is called. Hold also applies
// to a new pod of the same name.
func (e *Emulator) Hold(pod, container string, signal syscall.Signal) (release func()) {
	at := [2]string{pod, container}
	e.mu.Lock()
	e.held[at] = true
	e.mu.Unlock()
	if p, err := e.find(pod); err == nil {
		p.mu.Lock()
		run := p.runs[container]
		p.mu.Unlock()
		if run != nil {
			_ = run.Signal(signal) // the program may have ended already
			<-run.Done
		}
	}
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.held, at)
	}
}

// isHeld reports whether a container may not start.
func (c *container) isHeld() bool {
	e := c.pod.emulator
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.held[[2]string{c.pod.name, c.spec.Name}]
}

// outOfMemory ends a container as the kernel does when the container reaches its memory limit.
func (e *Emulator) outOfMemory(pod, container string) error {
	p, err := e.find(pod)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.starved[container] = p.runs[container]
	p.mu.Unlock()
	return e.Kill(pod, syscall.SIGKILL, container)
}

// Starve ends a pod's container for lack of memory whenever it runs, until the returned function is called.
func (e *Emulator) Starve(pod, container string) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var starving sync.WaitGroup
	starving.Go(func() {
		for sleep(ctx, often) {
			_ = e.outOfMemory(pod, container) // fails while the container waits for its restart
		}
	})
	return func() {
		cancel()
		starving.Wait()
	}
}

// WipeVolume empties the folder of a claim, even while a program uses it.
func (e *Emulator) WipeVolume(ctx context.Context, claim string) error {
	folder, err := e.claim(ctx, claim)
	if err != nil {
		return fmt.Errorf("wipe a volume: %w", err)
	}
	entries, err := os.ReadDir(folder)
	for _, entry := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(folder, entry.Name())))
	}
	if err != nil {
		return fmt.Errorf("wipe the volume of claim %s: %w", claim, err)
	}
	return nil
}

// VolumeFolder returns the folder of a claim.
func (e *Emulator) VolumeFolder(ctx context.Context, claim string) (string, error) {
	return e.claim(ctx, claim)
}

// Nodes returns the names of the emulator's nodes.
func (e *Emulator) Nodes() []string {
	var names []string
	for i := range e.options.Nodes {
		names = append(names, fmt.Sprintf("%s-node-%d", e.options.Namespace, i+1))
	}
	return names
}

// StopNode simulates a power failure of a node: its processes end, and it stops renewing its lease. The node and its pods become not ready
// immediately. (A real control plane marks the node after 40 s without a heartbeat.)
func (e *Emulator) StopNode(ctx context.Context, name string) error {
	e.mu.Lock()
	n := e.nodes[name]
	if n == nil {
		e.mu.Unlock()
		return fmt.Errorf("stop node %s: the emulator has no such node", name)
	}
	n.cancel()
	var ended []*pod
	for uid, p := range e.pods {
		if p.node == n {
			ended = append(ended, p)
			delete(e.pods, uid)
		}
	}
	e.mu.Unlock()
	for _, p := range ended {
		<-p.ended
	}
	if err := e.setReady(ctx, name, corev1.ConditionUnknown); err != nil {
		return err
	}
	for _, p := range ended {
		// Like Kubernetes' node lifecycle controller, change only the condition Ready, and set no reason.
		patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":"False","lastTransitionTime":%q}]}}`, time.Now().UTC().Format(time.RFC3339))
		_, err := p.api().Patch(ctx, p.name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("write that pod %s is not ready: %w", p.name, err)
		}
	}
	return nil
}

// StartNode starts a stopped node. Its pods start again with new addresses.
func (e *Emulator) StartNode(ctx context.Context, name string) error {
	e.mu.Lock()
	n := e.nodes[name]
	if n == nil || n.ctx.Err() == nil {
		e.mu.Unlock()
		return fmt.Errorf("start node %s: no such node, or the node already runs", name)
	}
	e.bringUp(n) //nolint:contextcheck // the node outlives the call that starts it
	e.mu.Unlock()
	for _, object := range e.seen.List() {
		e.see(object.(*corev1.Pod))
	}
	return e.setReady(ctx, name, corev1.ConditionTrue)
}

// Readdress sets the address of the next pod with this name. The present pod gets the address when its node starts again. No other pod may
// use the address: two programs cannot listen at one address.
func (e *Emulator) Readdress(pod, address string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.addresses[pod] = address
}

// address returns the address for a new pod. The caller holds the lock.
func (e *Emulator) address(pod string) string {
	address, chosen := e.addresses[pod]
	if !chosen {
		return e.network.Next()
	}
	delete(e.addresses, pod)
	return address
}

// ChangeAddresses stops and starts all nodes at once: every pod gets a new address.
func (e *Emulator) ChangeAddresses(ctx context.Context) error {
	for _, name := range e.Nodes() {
		if err := e.StopNode(ctx, name); err != nil {
			return err
		}
	}
	for _, name := range e.Nodes() {
		if err := e.StartNode(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// Log returns the output of a container of a running pod.
func (e *Emulator) Log(pod, container string) (string, error) {
	p, err := e.find(pod)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(p.logFile(container))
	if err != nil {
		return "", fmt.Errorf("read the log of %s/%s: %w", pod, container, err)
	}
	return string(text), nil
}

// PodLog is the output of a container of a pod.
type PodLog struct{ Pod, Text string }

// Logs returns the output of a container in every pod that this emulator has ever run, including deleted pods.
func (e *Emulator) Logs(container string) ([]PodLog, error) {
	files, err := filepath.Glob(filepath.Join(e.dir, "logs", "*", "*", container+".log"))
	if err != nil {
		return nil, fmt.Errorf("find the logs of container %s: %w", container, err)
	}
	var logs []PodLog
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read the log of container %s: %w", container, err)
		}
		logs = append(logs, PodLog{Pod: filepath.Base(filepath.Dir(filepath.Dir(file))), Text: string(text)})
	}
	return logs, nil
}
