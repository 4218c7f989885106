// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster_test

import (
	"testing"
	"time"

	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/emulator"
	"d3os.com/d3os-operator/test/harness/slowdisk"
)

// A member whose disk is slow keeps its place: nobody is removed, no pod is replaced, and the members stay one cluster.
func TestSlowDisk(t *testing.T) {
	harness.Long(t)
	d := slowdisk.New(t)
	s := newScene(t, func(o *emulator.Options) {
		o.Images[image] = emulator.Image{Executables: map[string]string{"etcd": d.Program(o.Images[image].Executables["etcd"])}}
	})
	s.start()
	s.create("{replicas: 3}")
	s.ready(3)
	cluster, before, load := s.get().Status.ClusterID, s.ids(), s.load()
	while := 5 * time.Second
	if full {
		while = 40 * time.Second
	}
	for _, c := range []struct {
		leads bool
		delay time.Duration
	}{{false, 300 * time.Millisecond}, {true, 300 * time.Millisecond}, {false, 3 * time.Second}, {true, 3 * time.Second}} {
		ordinal, follower := s.leads()
		if !c.leads {
			ordinal = follower
		}
		pod := s.pod(ordinal).Name
		d.Slow(pod, c.delay)
		s.during("a disk is slow", while)
		n := d.Delayed(pod)
		d.Slow(pod, 0)
		t.Logf("leads: %v; %d syncs took %s longer, for %s: all well %.1f s later", c.leads, n, c.delay, while, s.ready(3).Seconds())
		if n == 0 {
			t.Errorf("no sync of %s was slow", pod)
		}
	}
	load.End(t)
	s.isAsBefore(cluster, before)
}
