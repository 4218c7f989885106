// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package emulator is a kubelet for tests that needs neither containers nor root. For each pod that the scheduler binds to one of its
// nodes, it runs real programs as processes of this machine. So tests on the simulated cluster (test/cluster) run the operator against real
// servers.
//
// What it emulates:
//
//   - nodes: they renew leases; tests stop and start them (StopNode, StartNode);
//   - addresses: each pod has a separate loopback address (127.x.y.z); after a restart of its node, the pod
//     has a new address, or the address that a test has set (Readdress);
//   - containers: init containers in order, then all others at once; command, args, env (values, Secrets, the pod's name,
//     namespace, UID and address, limits), preStop by exec and sleep, restarts with back-off;
//   - volumes: emptyDir, Secrets, ConfigMaps, downward API, projected ones and claims. A claim is a folder that is
//     deleted with the claim. The emulator writes rendered files again within a second after a change of their sources,
//     and files of pod annotations immediately;
//   - probes: startup, readiness and liveness by exec, plain HTTP and TCP;
//   - status: conditions and container statuses as a kubelet writes them; a deleted pod is removed after
//     preStop, SIGTERM and, at the end of its grace period, SIGKILL;
//   - jobs: restart policies Never and OnFailure, phases Succeeded and Failed.
//
// What it does not emulate: isolation (processes share the machine's files, network and users), Services and DNS (the API
// server accepts no loopback address in an EndpointSlice, so clients use pod addresses; see Options.Names for the names
// of pods), resource limits, security contexts, read-only mounts, hostPath volumes, tokens of service accounts (set
// automountServiceAccountToken to false), image pulls, exec and logs through the API server, resizing and ephemeral
// containers; and the features in pod.emulated, which no chart uses. A pod with a volume, a variable, a probe or a hook
// that is not emulated waits, and its status shows the reason.
//
// A process sees the machine's file system, not the container's. The emulator therefore replaces each mountPath by
// the folder on this machine, also at the start of a longer path. It replaces paths in command, args, workingDir,
// the values of env and the files of ConfigMaps, but it does not change the bytes of Secrets. Image.Executables
// are replaced in the same way. Image.Rewrite handles other texts. A program must listen only on its pod's address
// (status.podIP), not on 0.0.0.0: pods share the machine's ports.
package emulator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/test/harness/process"
)

// Options configure an emulator.
type Options struct {
	// Namespace is the namespace of the emulated pods. The scheduler binds these pods only to the emulator's nodes.
	Namespace string
	// Images maps the name of an image (with or without its tag) or of a container to the program that runs.
	Images map[string]Image
	// Nodes is the number of nodes. Default: 1.
	Nodes int
	// Names lets programs that use HTTP_PROXY and HTTPS_PROXY reach pods by their DNS names. Tests can block and unblock connections
	// between two pods (Cut, Mend).
	Names bool
	// Bounded mounts a file system of the claim's size on the folder of each claim, and resizes it with the claim's capacity. It needs root.
	Bounded bool
}

// Emulator runs the pods of a namespace.
type Emulator struct {
	api     kubernetes.Interface
	options Options
	guard   *process.Guard
	dir     string // contains the files of all pods and claims
	network *process.Network
	names   *names // nil without Options.Names
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	bounded bounded
	seen    cache.Store // pods of the namespace

	mu        sync.Mutex
	nodes     map[string]*node
	pods      map[types.UID]*pod
	held      map[[2]string]bool // pairs of a pod's name and a container's name
	addresses map[string]string  // a pod's name -> the address of the next pod with that name
}

// Start creates the nodes, and runs the namespace's pods on them until Stop.
func Start(ctx context.Context, config *rest.Config, options Options) (*Emulator, error) {
	options.Nodes = max(options.Nodes, 1)
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect the emulator: %w", err)
	}
	e := &Emulator{
		api: api, options: options, nodes: map[string]*node{}, pods: map[types.UID]*pod{}, held: map[[2]string]bool{}, addresses: map[string]string{},
	}
	e.bounded.sizes = map[types.UID]int64{}
	e.ctx, e.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := e.start(ctx); err != nil {
		return nil, errors.Join(err, e.Stop()) //nolint:contextcheck // the emulator outlives the call that starts it
	}
	return e, nil
}

func (e *Emulator) start(ctx context.Context) error {
	var err error
	if e.dir, err = os.MkdirTemp("", "d3os-pods-"); err != nil {
		return fmt.Errorf("make a folder for pods: %w", err)
	}
	if e.guard, err = process.NewGuard(e.dir); err != nil {
		return err
	}
	if e.network, err = process.ClaimNetwork(); err != nil {
		return err
	}
	if e.options.Names {
		if err := e.serveNames(ctx); err != nil {
			return err
		}
	}
	if err := e.layOutImages(); err != nil {
		return err
	}
	for _, name := range e.Nodes() {
		if err := e.addNode(ctx, name); err != nil {
			return err
		}
	}
	factory := informers.NewSharedInformerFactoryWithOptions(e.api, 0, informers.WithNamespace(e.options.Namespace))
	pods, claims := factory.Core().V1().Pods().Informer(), factory.Core().V1().PersistentVolumeClaims().Informer()
	e.seen = pods.GetStore()
	if _, err := pods.AddEventHandler(handler(e.see, e.gone)); err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	if _, err := claims.AddEventHandler(handler(e.claimSeen, e.claimGone)); err != nil {
		return fmt.Errorf("watch claims: %w", err)
	}
	factory.StartWithContext(e.ctx) //nolint:contextcheck // the emulator outlives the call that starts it
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("watch %s: %w", kind, ctx.Err())
		}
	}
	return e.attract(ctx)
}

// Stop kills all processes, and removes the nodes and all files. The Pod objects stay unchanged in the API server.
func (e *Emulator) Stop() error {
	e.mu.Lock()
	e.cancel()
	e.mu.Unlock()
	if e.names != nil {
		e.names.close()
	}
	e.running.Wait()
	var errs []error
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for name := range e.nodes {
		errs = append(errs, client.IgnoreNotFound(e.api.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})))
	}
	for claim := range maps.Clone(e.bounded.sizes) {
		e.bounded.unmount(claim, e.claimFolder(claim))
	}
	if e.guard != nil { // the guard removes the folders, so the loop above unmounts them first
		errs = append(errs, e.guard.End())
	}
	if e.network != nil { // the listeners on the network's addresses are closed now
		errs = append(errs, e.network.Release())
	}
	return errors.Join(append(errs, os.RemoveAll(e.dir))...)
}

// handler returns an event handler with one function for existing objects and one for deleted objects.
func handler[T any](there, gone func(T)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { there(o.(T)) },
		UpdateFunc: func(_, o any) { there(o.(T)) },
		DeleteFunc: func(o any) {
			if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			gone(o.(T))
		},
	}
}

// see starts a pod that is bound to one of the nodes. A running pod gets the new version of its object.
func (e *Emulator) see(object *corev1.Pod) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.nodes[object.Spec.NodeName]
	if n == nil || n.ctx.Err() != nil || e.ctx.Err() != nil {
		return
	}
	if p := e.pods[object.UID]; p != nil {
		p.update(object)
		return
	}
	p := newPod(e, n, object)
	e.pods[object.UID] = p
	p.update(object)
	e.running.Go(p.run)
}

// gone kills the remaining processes of a pod that was deleted from the API server before its node had ended it.
func (e *Emulator) gone(object *corev1.Pod) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if p := e.pods[object.UID]; p != nil {
		p.cancel()
		delete(e.pods, object.UID)
	}
}

func (e *Emulator) claimSeen(claim *corev1.PersistentVolumeClaim) {
	e.bounded.grow(claim, e.claimFolder(claim.UID))
}

func (e *Emulator) claimGone(claim *corev1.PersistentVolumeClaim) {
	e.bounded.unmount(claim.UID, e.claimFolder(claim.UID))
	_ = os.RemoveAll(e.claimFolder(claim.UID)) // Stop removes the remaining files with the emulator's folder
}

func (e *Emulator) claimFolder(uid types.UID) string {
	return filepath.Join(e.dir, "claims", string(uid))
}

// find returns a running pod.
func (e *Emulator) find(name string) (*pod, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.pods {
		if p.name == name && p.ctx.Err() == nil {
			return p, nil
		}
	}
	return nil, fmt.Errorf("pod %s/%s does not run here", e.options.Namespace, name)
}

// claim reads a claim and creates its folder.
func (e *Emulator) claim(ctx context.Context, name string) (string, error) {
	claim, err := e.api.CoreV1().PersistentVolumeClaims(e.options.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("read claim %s: %w", name, err)
	}
	folder := e.claimFolder(claim.UID)
	if err := os.MkdirAll(folder, 0o755); err != nil || !e.options.Bounded {
		return folder, err
	}
	return folder, e.bounded.mount(claim, folder)
}
