// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rig runs Redis Clusters of real redis-server processes for tests, each on a loopback address of its own, and
// drives them as the operator does: observe (package server), decide (package topology), one step (package server).
// There is no Kubernetes: a Fleet stands in for the pods of StatefulSets and for the object that keeps the record.
package rig

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/kinds/rediscluster/topology"
	"d3os.com/d3os-operator/test/harness/process"
)

// Program returns the path of redis-server or redis-cli.
func Program(name string) (string, error) { return process.Program("REDIS", "redis", name) }

// Options of a Fleet.
type Options struct {
	// Shards is the number of pods of each shard.
	Shards []int
	// NodeTimeout is cluster-node-timeout. Default: 2s.
	NodeTimeout time.Duration
	// Namespace is that of the cluster. Default: data.
	Namespace string
	// CloneOf is a fleet whose volumes, password and record are copied.
	CloneOf *Fleet
	// Password is that of the servers. Default: one of the fleet's own.
	Password string
}

// Fleet is the pods of a cluster. It keeps them running as wanted: what a StatefulSet and a kubelet do.
type Fleet struct {
	t        testing.TB
	guard    *process.Guard
	network  *process.Network
	dir      string
	password string
	options  Options

	mu       sync.Mutex
	pods     map[string]*Pod
	record   topology.Record
	records  int // how often the record was written
	revision int
	made     int // pods made, for their UIDs
	ledgers  int
}

// NewFleet starts the pods of a cluster. They end with the test.
func NewFleet(t testing.TB, options Options) *Fleet {
	t.Helper()
	if options.NodeTimeout == 0 {
		options.NodeTimeout = 2 * time.Second
	}
	// Short, because the path of a socket must be, and not t.TempDir(), which is removed while the guard still writes.
	dir, err := os.MkdirTemp("", "redis-")
	assert.NilError(t, err)
	options.Namespace = cmp.Or(options.Namespace, "data")
	f := &Fleet{t: t, dir: dir, password: cmp.Or(options.Password, "pw-"+filepath.Base(dir)), options: options, pods: map[string]*Pod{}, revision: 1}
	f.guard, err = process.NewGuard(dir)
	assert.NilError(t, err)
	f.network, err = process.ClaimNetwork()
	assert.NilError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			f.Story()
		}
		f.Stop()
		if err := errors.Join(f.guard.End(), f.network.Release()); err != nil {
			t.Error(err)
		}
	})
	if of := options.CloneOf; of != nil {
		f.password, f.record = of.password, of.Record()
		for _, pod := range of.Pods() {
			assert.NilError(t, os.CopyFS(filepath.Join(dir, pod.Name), os.DirFS(pod.dir)))
		}
	}
	f.Scale(options.Shards)
	return f
}

// Stop kills all pods.
func (f *Fleet) Stop() {
	for _, pod := range f.Pods() {
		pod.down()
	}
}

// Scale makes the pods that are wanted and takes those away that are not. The folders of these stay, as claims do.
func (f *Fleet) Scale(shards []int) {
	f.t.Helper()
	wanted := map[string]bool{}
	var fresh []*Pod
	f.mu.Lock()
	for shard, pods := range shards {
		for ordinal := range pods {
			name := PodName(shard, ordinal)
			wanted[name] = true
			if f.pods[name] == nil {
				pod := &Pod{fleet: f, Name: name, Shard: shard, Ordinal: ordinal, dir: filepath.Join(f.dir, name)}
				f.pods[name] = pod
				fresh = append(fresh, pod)
			}
		}
	}
	var surplus []*Pod
	for name, pod := range f.pods {
		if !wanted[name] {
			surplus = append(surplus, pod)
			delete(f.pods, name)
		}
	}
	f.mu.Unlock()
	for _, pod := range surplus {
		pod.stop()
	}
	for _, pod := range fresh {
		pod.replace()
	}
	for _, pod := range fresh {
		if f.options.CloneOf == nil {
			pod.answers()
		}
	}
}

// PodName is the name of a pod.
func PodName(shard, ordinal int) string { return fmt.Sprintf("rec-%d-%d", shard, ordinal) }

// Pods returns all pods, in order.
func (f *Fleet) Pods() []*Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.SortedFunc(maps.Values(f.pods), func(a, b *Pod) int { return cmp.Or(a.Shard-b.Shard, a.Ordinal-b.Ordinal) })
}

// Pod returns a pod by its place.
func (f *Fleet) Pod(shard, ordinal int) *Pod {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	pod := f.pods[PodName(shard, ordinal)]
	if pod == nil {
		f.t.Fatalf("there is no pod %s", PodName(shard, ordinal))
	}
	return pod
}

// NewRevision makes all pods outdated.
func (f *Fleet) NewRevision() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revision++
}

// Record returns what was written down.
func (f *Fleet) Record() topology.Record {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.record
}

// Observed returns the pods as Kubernetes would show them.
func (f *Fleet) Observed() []topology.Node {
	var nodes []topology.Node
	for _, pod := range f.Pods() {
		nodes = append(nodes, pod.observed())
	}
	return nodes
}

// Until waits until a condition holds that has no promise of its own, and fails the test if it does not within a minute.
func Until(t testing.TB, what string, holds func() error) {
	t.Helper()
	const within = time.Minute
	if err := process.Wait(t.Context(), within, holds); err != nil {
		t.Fatalf("%s: not within %s: %v", what, within, err)
	}
}
