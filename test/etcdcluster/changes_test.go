// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/kinds/etcdcluster/membership"
	"d3os.com/d3os-operator/test/etcd/rig"
	"d3os.com/d3os-operator/test/harness"
)

// longestPause is how long nothing may be written while something planned goes on: an election, and the patience of a client.
const longestPause = 5 * time.Second

// scale changes the number of members, and waits until it is so.
func (s *scene) scale(replicas int) {
	s.Helper()
	began := time.Now()
	s.watchdog.mu.Lock()
	s.watchdog.parked = replicas == 0
	s.watchdog.mu.Unlock()
	s.change(fmt.Sprintf("{replicas: %d}", replicas))
	if replicas == 0 {
		s.Until("parked", s.isParked)
	} else {
		s.ready(replicas)
	}
	s.Logf("%d voters after %.1f s", replicas, time.Since(began).Seconds())
}

func (s *scene) isParked() error {
	if left := s.pods(); len(left) > 0 || s.get().Status.Phase != etcdv1.PhaseParked {
		return fmt.Errorf("%d pods, phase %s", len(left), s.get().Status.Phase)
	}
	return nil
}

// The number of members follows the spec under load, through 0 and back, and all pods are replaced: nothing that was acknowledged
// is lost, and clients hardly notice.
func TestChanges(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	s.start()
	s.create("{replicas: 1}")
	t.Logf("1 voter after %.1f s", s.ready(1).Seconds())
	cluster := s.get().Status.ClusterID
	load := s.load()
	sizes := []int{2, 1}
	if full {
		sizes = []int{3, 5, 3}
	}
	for _, replicas := range sizes {
		s.scale(replicas)
	}
	if full {
		before, ids := s.uids(), s.ids()
		s.change("{config: {snapshot-count: '5000'}}")
		began := time.Now()
		s.Until("all pods are replaced", func() error { return s.replaced(before) })
		s.ready(3)
		t.Logf("three pods replaced after %.1f s, the leader moved %d times", time.Since(began).Seconds(), s.watchdog.had(began, membership.ActionMoveLeader))
		if now := s.ids(); fmt.Sprint(now) != fmt.Sprint(ids) {
			t.Errorf("members were %v and are %v: a pod that is replaced keeps its data", ids, now)
		}
		s.scale(1)
	}
	load.End(t)
	if full { // nothing else runs beside it
		load.Paused(t, longestPause)
		s.explained(load)
	}
	s.scale(0)
	s.scale(sizes[0]) // a pod comes back with its data, and others without
	load.Verify(t)
	s.isCluster(cluster)
	s.harmless()
	s.provenHarmless()
}

// uids returns those of the pods.
func (s *scene) uids() map[string]bool {
	uids := map[string]bool{}
	for _, pod := range s.pods() {
		uids[string(pod.UID)] = true
	}
	return uids
}

// replaced returns nil when none of these pods is there.
func (s *scene) replaced(before map[string]bool) error {
	for _, pod := range s.pods() {
		if before[string(pod.UID)] {
			return fmt.Errorf("%s is not replaced", pod.Name)
		}
	}
	return nil
}

// Minors are walked one at a time under load, and there is no way back.
func TestUpgrades(t *testing.T) {
	s := newScene(t)
	s.start()
	replicas, versions := 1, []string{rig.V35, rig.V36}
	if full {
		replicas, versions = 3, []string{rig.V34, rig.V35, rig.V36}
	}
	s.create(fmt.Sprintf("{replicas: %d, version: %s}", replicas, versions[0]))
	s.ready(replicas)
	cluster, load, began := s.get().Status.ClusterID, s.load(), time.Now()
	s.change("{version: " + rig.V36 + "}")
	s.Until("it runs "+rig.V36, func() error {
		if at := s.get().Status.Version; at != rig.V36 {
			return fmt.Errorf("it runs %s", at)
		}
		return s.isReady(replicas)
	})
	s.ready(replicas)
	t.Logf("%s after %.1f s, the leader moved %d times", strings.Join(versions, " to "), time.Since(began).Seconds(), s.watchdog.had(began, membership.ActionMoveLeader))
	load.End(t)
	if full {
		load.Paused(t, longestPause)
		s.explained(load)
	}
	var targets []string
	for _, c := range s.Since(0) {
		if ec, ok := c.Object.(*etcdv1.EtcdCluster); ok && ec.Status.TargetVersion != "" {
			targets = append(targets, ec.Status.TargetVersion)
		}
	}
	if targets = slices.Compact(targets); !slices.Equal(targets, versions) {
		t.Errorf("the versions on the way were %v, not %v", targets, versions)
	}
	s.change("{version: " + rig.V35 + "}")
	s.Until("no way back", func() error {
		if text := s.get().Status.Message; !strings.Contains(text, "go back") {
			return fmt.Errorf("the status says %s", text)
		}
		return nil
	})
	s.isCluster(cluster)
	s.harmless()
	s.provenHarmless()
}
