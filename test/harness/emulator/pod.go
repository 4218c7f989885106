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
	deleting chan struct{} // closed when the pod is to end by its grace period
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
	tokens   map[string]string // by audience
}

func newPod(e *Emulator, n *node, object *corev1.Pod) *pod {
	p := &pod{
		emulator: e, node: n, name: object.Name, uid: object.UID, spec: object.Spec.DeepCopy(), address: e.network.Next(),
		dir:      filepath.Join(e.dir, "pods", string(object.UID)),
		deleting: make(chan struct{}), ended: make(chan struct{}), dirty: make(chan struct{}, 1),
		object: object, statuses: map[string]*corev1.ContainerStatus{}, runs: map[string]*process.Process{}, views: map[string]*view{}, began: now(), tokens: map[string]string{},
	}
	p.ctx, p.cancel = context.WithCancel(n.ctx)
	return p
}

// update takes note of what others have written to the pod.
func (p *pod) update(object *corev1.Pod) {
	p.mu.Lock()
	if order, err := resourceversion.CompareResourceVersion(object.ResourceVersion, p.object.ResourceVersion); err != nil || order > 0 {
		p.object = object
	}
	p.mu.Unlock()
	if object.DeletionTimestamp != nil {
		select {
		case <-p.deleting:
		default:
			close(p.deleting)
		}
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
	select {
	case <-p.deleting:
		p.remove()
	case <-p.ctx.Done():
	}
	if p.node.ctx.Err() == nil { // else it comes back with the node
		_ = os.RemoveAll(p.dir) // what stays goes with the emulator's folder
	}
}

// runContainers runs the containers until they have ended for good, and returns the pod's phase then.
func (p *pod) runContainers() corev1.PodPhase {
	if p.phase != "" { // it has ended in an earlier life of its node, or with it
		return p.phase
	}
	var sidecars []*container
	defer func() {
		for _, c := range slices.Backward(sidecars) {
			c.end()
			<-c.ended
		}
	}()
	for i := range p.spec.InitContainers {
		c := newContainer(p, &p.spec.InitContainers[i], true)
		go c.run()
		if c.sidecar() {
			sidecars = append(sidecars, c)
			c.awaitStarted()
			continue
		}
		p.await(c)
		if c.code != 0 || p.ending() {
			return corev1.PodFailed
		}
	}
	p.mu.Lock()
	p.ready = true
	p.mu.Unlock()
	p.touch()
	var mains []*container
	for i := range p.spec.Containers {
		c := newContainer(p, &p.spec.Containers[i], false)
		mains = append(mains, c)
		go c.run()
	}
	phase := corev1.PodSucceeded
	for _, c := range mains {
		p.await(c)
		if c.code != 0 {
			phase = corev1.PodFailed
		}
	}
	return phase
}

// await waits until a container has ended; a deletion of the pod ends it.
func (p *pod) await(c *container) {
	select {
	case <-c.ended:
	case <-p.deleting:
		c.end()
		<-c.ended
	}
}

// ending reports whether the pod is to end.
func (p *pod) ending() bool {
	select {
	case <-p.deleting:
		return true
	case <-p.ctx.Done():
		return true
	default:
		return false
	}
}

// grace is how long the containers may take to end.
func (p *pod) grace() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	seconds := int64(corev1.DefaultTerminationGracePeriodSeconds)
	for _, given := range []*int64{p.spec.TerminationGracePeriodSeconds, p.object.DeletionGracePeriodSeconds} {
		if given != nil {
			seconds = *given
		}
	}
	return time.Duration(seconds) * time.Second
}

// addressed returns the pod with the address that it has here.
func (p *pod) addressed() *corev1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	object := p.object.DeepCopy()
	object.Status.PodIP, object.Status.HostIP = p.address, p.emulator.network.Host()
	return object
}

// running returns the names of the containers that run.
func (p *pod) running() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var names []string
	for name := range p.runs {
		names = append(names, name)
	}
	return names
}

func (p *pod) logFile(container string) string {
	return filepath.Join(p.emulator.dir, "logs", p.name, string(p.uid), container+".log")
}
