// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/ptr"

	"d3os.com/d3os-operator/test/harness/process"
)

// often is how often what is not watched is looked at again: what a container waits for, and the files of volumes.
const often = 200 * time.Millisecond

// pod is a pod that runs on a node of the emulator.
type pod struct {
	emulator *Emulator
	node     *node
	name     string
	uid      types.UID
	spec     *corev1.PodSpec
	address  string
	dir      string
	ctx      context.Context // ends when nothing of the pod may go on, and nothing be written
	cancel   context.CancelFunc
	alive    context.Context // ends when the pod is to end by its grace period, too
	end      context.CancelFunc
	ended    chan struct{} // closed when it has ended
	dirty    chan struct{} // something to report

	mu       sync.Mutex
	object   *corev1.Pod // as last seen or written
	statuses map[string]*corev1.ContainerStatus
	runs     map[string]*process.Process
	views    map[string]*view
	ready    bool // its init containers are done
	phase    corev1.PodPhase
	began    metav1.Time
}

func newPod(e *Emulator, n *node, object *corev1.Pod) *pod {
	p := &pod{
		emulator: e, node: n, name: object.Name, uid: object.UID, spec: object.Spec.DeepCopy(), address: e.network.Next(),
		dir:   filepath.Join(e.dir, "pods", string(object.UID)),
		ended: make(chan struct{}), dirty: make(chan struct{}, 1),
		object: object, statuses: map[string]*corev1.ContainerStatus{}, runs: map[string]*process.Process{}, views: map[string]*view{}, began: now(),
	}
	p.ctx, p.cancel = context.WithCancel(n.ctx)
	p.alive, p.end = context.WithCancel(p.ctx)
	return p
}

// learn takes note of what is newer than what is known.
func (p *pod) learn(object *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if order, err := resourceversion.CompareResourceVersion(object.ResourceVersion, p.object.ResourceVersion); err != nil || order > 0 {
		p.object = object
	}
}

// update does what others have written to the pod.
func (p *pod) update(object *corev1.Pod) {
	p.learn(object)
	if object.DeletionTimestamp != nil {
		p.end()
	}
	p.touch()
}

// touch asks for the status to be written and the files to be rendered.
func (p *pod) touch() {
	select {
	case p.dirty <- struct{}{}:
	default:
	}
}

// run is the life of a pod.
func (p *pod) run() {
	defer close(p.ended)
	defer p.cancel()
	if !p.remember() {
		return
	}
	stopReports := p.report()
	phase := p.runContainers()
	stopReports()
	p.mu.Lock()
	p.phase = phase
	p.mu.Unlock()
	p.write()
	<-p.alive.Done()
	p.remove()
	if p.node.ctx.Err() == nil { // else it comes back with the node
		_ = os.RemoveAll(p.dir) // what stays goes with the emulator's folder
	}
}

// runContainers runs the containers until they have ended for good, and returns the pod's phase then.
func (p *pod) runContainers() corev1.PodPhase {
	if p.phase != "" { // it has ended in an earlier life of its node, or with it
		return p.phase
	}
	for i := range p.spec.InitContainers {
		c := container{pod: p, spec: &p.spec.InitContainers[i], init: true}
		if code := c.run(); code != 0 || p.alive.Err() != nil {
			return corev1.PodFailed
		}
	}
	p.mu.Lock()
	p.ready = true
	p.mu.Unlock()
	p.touch()
	codes := make([]int, len(p.spec.Containers))
	var all sync.WaitGroup
	for i := range codes {
		c := container{pod: p, spec: &p.spec.Containers[i]}
		all.Go(func() { codes[i] = c.run() })
	}
	all.Wait()
	if slices.Max(codes) > 0 {
		return corev1.PodFailed
	}
	return corev1.PodSucceeded
}

// grace is how long the containers may take to end.
func (p *pod) grace() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	seconds := ptr.Deref(p.object.DeletionGracePeriodSeconds, *p.spec.TerminationGracePeriodSeconds)
	return time.Duration(seconds) * time.Second
}

// addressed returns the pod with the address that it has here.
func (p *pod) addressed() *corev1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	object := p.object.DeepCopy()
	object.Status.PodIP = p.address
	return object
}

func (p *pod) logFile(container string) string {
	return filepath.Join(p.emulator.dir, "logs", p.name, string(p.uid), container+".log")
}
