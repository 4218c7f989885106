// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rig runs etcd clusters of real etcd processes for tests, each on a loopback address of its own and started by
// the agent as in a pod, and drives them as the operator does: look (package server), decide (package membership), one
// step (package server). There is no Kubernetes: a Fleet stands in for the pods, claims and the record of one cluster, and
// a proxy for DNS and for the network between members.
package rig

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/kinds/etcdcluster/membership"
	"d3os.com/d3os-operator/test/harness/process"
)

// Agent is the path of the agent's program. A suite sets it before it makes a Fleet.
var Agent string

// The versions of etcd that programs are there for; 3.4 is Debian's.
const (
	V34 = "3.4.23"
	V35 = "3.5.35"
	V36 = "3.6.8"
)

// Program returns the path of etcd of a version.
func Program(version string) (string, error) {
	return process.Program("ETCD", "etcds", "etcd-"+version[:strings.LastIndex(version, ".")])
}

// Options of a Fleet.
type Options struct {
	// Version of etcd to begin with. Default: V36.
	Version string
	// Flags are further flags for etcd.
	Flags []string
	// StartDelay is how long a pod takes before its container starts, as pulling and init containers do. Default: 200ms.
	StartDelay time.Duration
}

const (
	name      = "rig"
	namespace = "test"
	domain    = "rig-headless.test.svc"
)

// PodName is the name of a pod.
func PodName(ordinal int) string { return fmt.Sprintf("%s-%d", name, ordinal) }

// PeerURLs are the addresses of members, by ordinal.
func PeerURLs() []string {
	var urls []string
	for ordinal := range membership.MaxReplicas {
		urls = append(urls, "http://"+PodName(ordinal)+"."+domain+":2380")
	}
	return urls
}

// Fleet is the pods and claims of a cluster. It keeps them as planned: what a StatefulSet and a kubelet do.
type Fleet struct {
	t       testing.TB
	guard   *process.Guard
	network *process.Network
	proxy   *proxy
	dir     string
	options Options

	mu       sync.Mutex
	pods     map[int]*Pod
	claims   map[int]*claim
	record   membership.Record
	replicas int
	revision string // of the template: the version of etcd, and how often it was changed
	version  string
	changes  int
	made     int // pods and claims made, for their UIDs
}

// claim is a volume claim with its volume, a folder.
type claim struct {
	uid, dir    string
	terminating bool
	mark        membership.Mark
	marked      time.Time
	version     int
}

func (c *claim) at() membership.ClaimAt {
	return membership.ClaimAt{UID: c.uid, Version: fmt.Sprint(c.version)}
}

// NewFleet returns a cluster that has no pod yet. All that it starts ends with the test.
func NewFleet(t testing.TB, options Options) *Fleet {
	t.Helper()
	if options.Version == "" {
		options.Version = V36
	}
	if options.StartDelay == 0 {
		options.StartDelay = 200 * time.Millisecond
	}
	dir, err := os.MkdirTemp("", "etcd-")
	assert.NilError(t, err)
	f := &Fleet{t: t, dir: dir, options: options, pods: map[int]*Pod{}, claims: map[int]*claim{}}
	f.guard, err = process.NewGuard(dir)
	assert.NilError(t, err)
	f.network, err = process.ClaimNetwork()
	assert.NilError(t, err)
	f.proxy, err = newProxy(f)
	assert.NilError(t, err)
	assert.NilError(t, f.writeNames())
	t.Cleanup(func() {
		if t.Failed() {
			for _, pod := range f.Pods() {
				t.Logf("the last lines of %s:\n%s", pod.Name, pod.Log())
			}
		}
		for _, pod := range f.Pods() {
			pod.end(true)
		}
		if err := errors.Join(f.proxy.close(), f.guard.End(), f.network.Release()); err != nil {
			t.Error(err)
		}
	})
	return f
}

// Pods returns all pods, by ordinal.
func (f *Fleet) Pods() []*Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.SortedFunc(maps.Values(f.pods), func(a, b *Pod) int { return a.Ordinal - b.Ordinal })
}

// Pod returns the pod of an ordinal.
func (f *Fleet) Pod(ordinal int) *Pod {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	pod := f.pods[ordinal]
	if pod == nil {
		f.t.Fatalf("there is no pod %s", PodName(ordinal))
	}
	return pod
}

// NewRevision changes the template: all pods are outdated.
func (f *Fleet) NewRevision() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changes++
}

// Sync is what the controllers of StatefulSets and claims do: pods and claims come and go as planned.
func (f *Fleet) Sync(replicas int, version string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replicas, f.version = replicas, version
	f.revision = fmt.Sprintf("%s/%d", version, f.changes)
	f.writePositions()
	for ordinal, pod := range f.pods {
		if ordinal >= replicas && !pod.terminating {
			f.terminate(pod)
		}
	}
	for ordinal, c := range f.claims {
		if c.terminating && f.pods[ordinal] == nil {
			assert.NilError(f.t, os.RemoveAll(c.dir))
			delete(f.claims, ordinal)
		}
	}
	for ordinal := range replicas {
		if f.pods[ordinal] != nil {
			continue
		}
		if f.claims[ordinal] == nil {
			f.made++
			c := &claim{uid: fmt.Sprintf("claim-%d", f.made)}
			c.dir = filepath.Join(f.dir, c.uid)
			assert.NilError(f.t, os.MkdirAll(c.dir, 0o755))
			f.claims[ordinal] = c
		}
		f.made++
		f.pods[ordinal] = f.newPod(ordinal, fmt.Sprintf("%s-pod-%d", filepath.Base(f.dir), f.made), f.claims[ordinal].dir)
	}
}

// writePositions is the ConfigMap that all pods mount. The caller holds the lock.
func (f *Fleet) writePositions() {
	assert.NilError(f.t, os.MkdirAll(f.positions(), 0o755))
	for ordinal := range membership.MaxReplicas {
		file := filepath.Join(f.positions(), PodName(ordinal))
		c := f.claims[ordinal]
		if c == nil || c.mark.Position.Index == 0 {
			if err := os.Remove(file); err != nil {
				assert.Assert(f.t, errors.Is(err, os.ErrNotExist), "%v", err)
			}
			continue
		}
		text := fmt.Sprintf("%s %s %d %d", c.mark.Cluster, c.mark.Member, c.mark.Position.Term, c.mark.Position.Index)
		assert.NilError(f.t, os.WriteFile(file+".new", []byte(text), 0o644))
		assert.NilError(f.t, os.Rename(file+".new", file))
	}
}

func (f *Fleet) positions() string { return filepath.Join(f.dir, "positions") }

// terminate deletes a pod as a kubelet does, and forgets it when its container has ended. The caller holds the lock.
func (f *Fleet) terminate(pod *Pod) {
	pod.terminating = true
	go func() {
		pod.end(false)
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.pods[pod.Ordinal] == pod {
			delete(f.pods, pod.Ordinal)
		}
	}()
}

// View returns what Kubernetes would show.
func (f *Fleet) View() membership.View {
	pods := f.Pods()
	f.mu.Lock()
	defer f.mu.Unlock()
	view := membership.View{Record: f.record, Live: f.replicas}
	for _, pod := range pods {
		if f.pods[pod.Ordinal] == pod {
			view.Pods = append(view.Pods, pod.observed(f.revision))
		}
	}
	for ordinal := range membership.MaxReplicas {
		if c := f.claims[ordinal]; c != nil {
			view.Claims = append(view.Claims, f.seenClaim(ordinal, c))
		}
	}
	return view
}

func (f *Fleet) seenClaim(ordinal int, c *claim) membership.Claim {
	return membership.Claim{
		Name: "data-" + PodName(ordinal), Ordinal: ordinal, UID: c.uid, Terminating: c.terminating, ResourceVersion: c.at().Version,
		Cluster: c.mark.Cluster, Member: c.mark.Member, Version: c.mark.Version, Position: c.mark.Position, MarkedFor: time.Since(c.marked), Tokens: c.mark.Tokens,
	}
}

// Planned returns what the StatefulSet is planned with.
func (f *Fleet) Planned(want membership.Want) (replicas int, version string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var claims []membership.Claim
	for ordinal, c := range f.claims {
		claims = append(claims, f.seenClaim(ordinal, c))
	}
	return membership.Planned(want, f.record, f.replicas, claims)
}

// DeleteClaims deletes claims while their pods are there, as a person does by mistake.
func (f *Fleet) DeleteClaims() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.claims {
		c.terminating = true
	}
}

// SetRecord puts another record in place of the one that was written.
func (f *Fleet) SetRecord(record membership.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.record = record
}

// Record returns what was written down.
func (f *Fleet) Record() membership.Record {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.record
}
