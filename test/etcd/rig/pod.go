// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/kinds/etcdcluster/membership"
	"d3os.com/d3os-operator/test/harness/process"
)

// Pod runs the agent, which becomes etcd, and starts it again when it ends.
type Pod struct {
	fleet    *Fleet
	Name     string
	Ordinal  int
	UID, IP  string
	revision string
	program  string
	volume   string
	private  string // a folder that lives as long as the pod
	ended    chan struct{}
	endOnce  sync.Once
	stopped  chan struct{}
	// terminating is the fleet's.
	terminating bool

	mu       sync.Mutex
	process  *process.Process
	ticket   string
	held     bool   // its container is not started
	plain    string // etcd is started without the agent, with this initial-cluster-state
	restarts int    // in a row, each soon after the one before
	ready    time.Time
	log      *os.File
}

// newPod makes a pod and starts it. The caller holds the fleet's lock.
func (f *Fleet) newPod(ordinal int, uid, volume string) *Pod {
	program, err := Program(f.version)
	assert.NilError(f.t, err)
	p := &Pod{
		fleet: f, Name: PodName(ordinal), Ordinal: ordinal, UID: uid, IP: f.network.Next(), revision: f.revision, program: program,
		volume: volume, private: filepath.Join(f.dir, uid), ended: make(chan struct{}), stopped: make(chan struct{}), ready: time.Now(),
	}
	assert.NilError(f.t, os.MkdirAll(filepath.Join(p.private, "notes"), 0o755))
	assert.NilError(f.t, os.WriteFile(filepath.Join(p.private, "ticket"), nil, 0o644))
	p.log, err = os.OpenFile(filepath.Join(f.dir, p.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	assert.NilError(f.t, err)
	go p.run()
	return p
}

// What a kubelet does with a container that ends: wait longer each time, until it has run for a while.
const (
	firstBackoff = 200 * time.Millisecond
	lastBackoff  = 2 * time.Second
	fine         = 5 * time.Second
)

func (p *Pod) run() {
	defer close(p.stopped)
	defer p.log.Close()
	wait := p.fleet.options.StartDelay
	for {
		select {
		case <-p.ended:
			return
		case <-time.After(wait):
		}
		if p.isHeld() {
			wait = 20 * time.Millisecond
			continue
		}
		began := time.Now()
		if err := p.start(); err != nil {
			p.fleet.t.Errorf("start %s: %v", p.Name, err)
			return
		}
		select {
		case <-p.process.Done:
		case <-p.ended:
			_ = p.process.Signal(syscall.SIGTERM) // it may have ended by itself
			_ = p.process.Signal(syscall.SIGCONT)
			select {
			case <-p.process.Done:
			case <-time.After(5 * time.Second):
				p.process.Kill()
			}
			return
		}
		p.mu.Lock()
		if time.Since(began) > fine {
			p.restarts = 0
		}
		p.restarts++
		wait = min(lastBackoff, firstBackoff<<min(p.restarts, 6))
		p.mu.Unlock()
	}
}

func (p *Pod) start() error {
	program := []string{
		Agent, "member", "etcd", "--volume=" + p.volume, "--ticket=" + filepath.Join(p.private, "ticket"), "--notes=" + filepath.Join(p.private, "notes"),
		"--record=" + p.fleet.positions(), "--domain=" + domain, "--server=" + p.program, "--",
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.plain != "" {
		program = p.plainEtcd()
	}
	argv := append(p.fleet.withNames(), program...)
	argv = append(argv, "--heartbeat-interval=50", "--election-timeout=500")
	argv = append(argv, p.fleet.options.Flags...)
	env := []string{
		"PATH=/usr/bin:/bin", "POD_NAME=" + p.Name, "POD_NAMESPACE=" + namespace, "POD_UID=" + p.UID, "POD_IP=" + p.IP,
		"HTTP_PROXY=" + p.fleet.proxy.url(p.Name), "GOMAXPROCS=2",
	}
	_, _ = fmt.Fprintf(p.log, "--- pod %s at %s starts with ticket %q\n", p.UID, p.IP, p.ticket)
	var err error
	p.process, err = p.fleet.guard.Start(argv, env, p.private, p.log)
	return err
}

// plainEtcd starts etcd as people do who know its documentation: with all members, and a state.
func (p *Pod) plainEtcd() []string {
	var members []string
	for _, pod := range p.fleet.Pods() {
		members = append(members, pod.Name+"="+PeerURLs()[pod.Ordinal])
	}
	return []string{
		p.program, "--name=" + p.Name, "--data-dir=" + filepath.Join(p.volume, "etcd"),
		"--listen-peer-urls=http://" + p.IP + ":2380", "--listen-client-urls=http://" + p.IP + ":2379",
		"--initial-advertise-peer-urls=" + PeerURLs()[p.Ordinal], "--advertise-client-urls=http://" + p.IP + ":2379",
		"--initial-cluster-state=" + p.plain, "--initial-cluster=" + strings.Join(members, ","),
	}
}

// StartPlain lets a pod that is held start etcd without the agent.
func (p *Pod) StartPlain(state string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plain, p.held = state, false
}

// end ends the pod; kill does not let etcd say goodbye.
func (p *Pod) end(kill bool) {
	p.endOnce.Do(func() { close(p.ended) })
	if kill {
		p.Kill()
	}
	<-p.stopped
}

func (p *Pod) running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.process.Runs()
}

func (p *Pod) isHeld() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

// Kill kills the program with SIGKILL. It starts again.
func (p *Pod) Kill() {
	p.mu.Lock()
	run := p.process
	p.mu.Unlock()
	if run != nil {
		run.Kill()
	}
}

// Hold kills the program and keeps it from starting until Release: its node is away.
func (p *Pod) Hold() {
	p.mu.Lock()
	p.held = true
	p.mu.Unlock()
	p.Kill()
}

// Release lets the program start again.
func (p *Pod) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = false
}

// Signal sends a signal to the program: SIGSTOP and SIGCONT pause it and let it go on.
func (p *Pod) Signal(s syscall.Signal) {
	p.fleet.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	assert.NilError(p.fleet.t, p.process.Signal(s))
}

// observed is the pod as Kubernetes shows it. The fleet's lock is held.
func (p *Pod) observed(revision string) membership.Pod {
	running := p.running()
	p.mu.Lock()
	defer p.mu.Unlock()
	return membership.Pod{
		Name: p.Name, Ordinal: p.Ordinal, UID: p.UID, IP: p.IP, Running: running, Terminating: p.terminating, Outdated: p.revision != revision,
		Revision: p.revision,
		Crashing: p.restarts >= 3, NotReadyFor: time.Since(p.ready), Ticket: p.ticket,
	}
}

// seenReady notes that the pod is ready, as its probe would.
func (p *Pod) seenReady() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ready, p.restarts = time.Now(), 0
}

// setTicket is the downward API.
func (p *Pod) setTicket(ticket string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	file := filepath.Join(p.private, "ticket")
	if err := os.WriteFile(file+".new", []byte(ticket), 0o644); err != nil {
		return err
	}
	p.ticket = ticket
	return os.Rename(file+".new", file)
}

// Log returns the last lines that the programs of the pod's name wrote.
func (p *Pod) Log() string {
	return process.LastLines(filepath.Join(p.fleet.dir, p.Name+".log"))
}
