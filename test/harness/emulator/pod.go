// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	applycoordinationv1 "k8s.io/client-go/applyconfigurations/coordination/v1"
	"k8s.io/utils/ptr"

	"d3os.com/d3os-operator/test/harness/process"
)

// often is the interval of checks for which there is no watch, and of retries after errors.
const often = 200 * time.Millisecond

// pod is a pod on a node of the emulator.
type pod struct {
	emulator *Emulator
	node     *node
	name     string
	uid      types.UID
	spec     *corev1.PodSpec
	address  string
	dir      string
	ctx      context.Context // ends when the pod's processes must end and its status must not be written
	cancel   context.CancelFunc
	alive    context.Context // ends also when the pod must end within its grace period
	end      context.CancelFunc
	ended    chan struct{} // closed when the pod has ended
	dirty    chan struct{} // requests a write of the status

	mu       sync.Mutex
	object   *corev1.Pod // as last seen or written
	statuses map[string]*corev1.ContainerStatus
	runs     map[string]*process.Process
	starved  map[string]*process.Process // programs that ended for lack of memory
	views    map[string]*view
	ready    bool // the init containers have ended
	phase    corev1.PodPhase
	began    metav1.Time
}

func newPod(e *Emulator, n *node, object *corev1.Pod) *pod {
	p := &pod{
		emulator: e, node: n, name: object.Name, uid: object.UID, spec: object.Spec.DeepCopy(), address: e.address(object.Name),
		dir:   filepath.Join(e.dir, "pods", string(object.UID)),
		ended: make(chan struct{}), dirty: make(chan struct{}, 1),
		object: object, statuses: map[string]*corev1.ContainerStatus{}, runs: map[string]*process.Process{}, starved: map[string]*process.Process{}, views: map[string]*view{}, began: now(),
	}
	p.ctx, p.cancel = context.WithCancel(n.ctx)
	p.alive, p.end = context.WithCancel(p.ctx)
	return p
}

// learn stores the object if its version is newer than that of the stored object.
func (p *pod) learn(object *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if order, err := resourceversion.CompareResourceVersion(object.ResourceVersion, p.object.ResourceVersion); err != nil || order > 0 {
		p.object = object
	}
}

// update applies changes that other clients wrote to the pod.
func (p *pod) update(object *corev1.Pod) {
	p.learn(object)
	if object.DeletionTimestamp != nil {
		p.end()
	}
	p.touch()
}

// touch requests a write of the status and a rendering of the files.
func (p *pod) touch() {
	select {
	case p.dirty <- struct{}{}:
	default:
	}
}

// run runs the pod from its start to its removal.
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
	if p.node.ctx.Err() == nil { // otherwise the pod starts again with the node
		_ = os.RemoveAll(p.dir) // Stop removes the remaining files with the emulator's folder
	}
}

// runContainers runs the containers until no container will start again. It returns the pod's phase.
func (p *pod) runContainers() corev1.PodPhase {
	if p.phase != "" { // the pod ended before its node stopped, or because of the stop
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

// grace returns the grace period of the containers.
func (p *pod) grace() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	seconds := ptr.Deref(p.object.DeletionGracePeriodSeconds, *p.spec.TerminationGracePeriodSeconds)
	return time.Duration(seconds) * time.Second
}

// addressed returns the pod with its address on this machine.
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

// label marks the emulator's nodes; its value is the namespace. kwok ignores nodes without kwok's own annotation.
const label = "d3os.test/emulates"

// heartbeat is the interval between renewals of a node's lease. The control plane marks a node unreachable after 40 s without a renewal.
const heartbeat = 5 * time.Second

// node is a node that runs pods.
type node struct {
	name   string
	ctx    context.Context // ends when the node stops
	cancel context.CancelFunc
}

// addNode creates a Node object and renews its lease.
func (e *Emulator) addNode(ctx context.Context, name string) error {
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("1000"),
		corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
	}
	object := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			label: e.options.Namespace, corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
		}},
		// The taint makes the scheduler prefer other nodes for the pods of other namespaces.
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: label, Value: e.options.Namespace, Effect: corev1.TaintEffectPreferNoSchedule}}},
		Status: corev1.NodeStatus{
			Capacity: room, Allocatable: room, Conditions: []corev1.NodeCondition{nodeReady(corev1.ConditionTrue)},
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: e.network.Host()}, {Type: corev1.NodeHostName, Address: name}},
		},
	}
	if _, err := e.api.CoreV1().Nodes().Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create node %s: %w", name, err)
	}
	n := &node{name: name}
	e.nodes[name] = n
	e.bringUp(n) //nolint:contextcheck // the node outlives the call that starts it
	return nil
}

// attract makes the scheduler bind the namespace's pods only to this emulator's nodes: the admission plugin PodNodeSelector adds the
// namespace's node selector to the pods.
func (e *Emulator) attract(ctx context.Context) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"scheduler.alpha.kubernetes.io/node-selector":"%s=%s"}}}`, label, e.options.Namespace)
	if _, err := e.api.CoreV1().Namespaces().Patch(ctx, e.options.Namespace, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("set the node selector of namespace %s: %w", e.options.Namespace, err)
	}
	var last error
	trial := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "trial-"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "trial", Image: "trial"}}}}
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		made, err := e.api.CoreV1().Pods(e.options.Namespace).Create(ctx, trial, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if last = err; err != nil {
			return false, nil //nolint:nilerr // the service account may appear a little later than the namespace
		}
		last = errors.New("pods get no node selector: is the API server's admission plugin PodNodeSelector on?")
		return made.Spec.NodeSelector[label] == e.options.Namespace, nil
	})
	if err != nil {
		return fmt.Errorf("bind pods of namespace %s to emulated nodes: %w: %w", e.options.Namespace, err, last)
	}
	return nil
}

// bringUp starts the renewals of a node's lease.
func (e *Emulator) bringUp(n *node) {
	n.ctx, n.cancel = context.WithCancel(e.ctx)
	ctx := n.ctx
	e.running.Go(func() {
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			lease := applycoordinationv1.Lease(n.name, corev1.NamespaceNodeLease).WithSpec(applycoordinationv1.LeaseSpec().
				WithHolderIdentity(n.name).WithLeaseDurationSeconds(40).WithRenewTime(metav1.NowMicro()))
			_, _ = e.api.CoordinationV1().Leases(corev1.NamespaceNodeLease).Apply(ctx, lease, metav1.ApplyOptions{FieldManager: "emulator", Force: true})
		}, heartbeat)
	})
}

// setReady writes the condition Ready of a node that has stopped or started.
func (e *Emulator) setReady(ctx context.Context, name string, status corev1.ConditionStatus) error {
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{nodeReady(status)}}})
	if err == nil {
		_, err = e.api.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err != nil {
		return fmt.Errorf("write that node %s is ready=%s: %w", name, status, err)
	}
	return nil
}

func nodeReady(status corev1.ConditionStatus) corev1.NodeCondition {
	reason := "KubeletReady"
	if status != corev1.ConditionTrue {
		reason = "NodeStatusUnknown"
	}
	now := metav1.Now()
	return corev1.NodeCondition{Type: corev1.NodeReady, Status: status, Reason: reason, LastHeartbeatTime: now, LastTransitionTime: now}
}
