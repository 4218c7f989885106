// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"fmt"
	"strings"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/kinds/rediscluster/topology"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/redis/rig"
)

// faults are what was measured on Redis 7.0.15, with the end that the operator has to bring about.
var faults = []fault{
	{name: "a replica is back with another address", happen: func(s *scenario) { s.replica(0).Replace() }},
	{name: "a master is back with another address", happen: func(s *scenario) { s.master(0).Replace() }},
	{name: "all are back with other addresses", within: 30 * time.Second, happen: func(s *scenario) { s.f.ReplaceAll() }},
	{name: "a master is killed and stays away", within: nodeTimeout + 3*time.Second, happen: func(s *scenario) { s.master(1).Kill() }, end: func(s *scenario) {
		dead := s.killed()
		began := time.Now()
		s.served(nodeTimeout+3*time.Second, began)
		if d := s.d.Pass(s.Context()); d.Model.Redundant || d.Model.Phase == topology.PhaseRunning {
			s.Errorf("a pod is down, and the phase is %s", d.Model.Phase)
		}
		dead.Start()
		s.heals(30 * time.Second)
	}},
	{name: "a master is killed and restarted at once", happen: func(s *scenario) {
		dead := s.master(1)
		dead.Kill()
		dead.Start()
	}},
	{name: "a master hangs for longer than the node timeout", happen: func(s *scenario) {
		hung, heir := s.master(1), s.replica(1)
		hung.Pause()
		s.elected(heir)
		hung.Resume()
	}},
	{name: "a replica hangs for longer than the node timeout", happen: func(s *scenario) {
		hung := s.replica(1)
		hung.Pause()
		s.isMissed()
		hung.Resume()
	}},
	{name: "a replica loses its volume", happen: func(s *scenario) { loseVolume(s.replica(0)) }},
	{name: "a master loses its volume", happen: func(s *scenario) { loseVolume(s.master(0)) }},
	{name: "a master loses its append-only file and is restarted at once", happen: func(s *scenario) {
		lost := s.master(0)
		lost.Kill()
		lost.Wipe("appendonlydir")
		lost.Begin() // it says so and ends, and the operator replaces the pod
	}},
	{name: "a master loses its volume and is restarted at the same address", happen: func(s *scenario) {
		lost := s.master(0)
		lost.Kill()
		lost.Wipe()
		lost.Begin()
	}},
	{name: "a slot is open, and both ends are back with other addresses", happen: func(s *scenario) {
		s.halfMoved(0, 1)
		s.f.ReplaceAll()
	}},
	{name: "a slot is open, and its source fails over as planned", happen: func(s *scenario) {
		s.halfMoved(0, 1)
		heir := s.replica(0)
		assert.NilError(s, heir.Client().ClusterFailover(s.Context()).Err())
		s.elected(heir)
	}},
	{name: "a slot is open, and its source is killed", happen: func(s *scenario) {
		s.halfMoved(0, 1)
		s.failsOver(0)
	}},
	{name: "a slot is open, and its target is killed", happen: func(s *scenario) {
		s.halfMoved(0, 1)
		s.failsOver(1)
	}},
	{name: "a slot is open, and its source's replica is killed", happen: func(s *scenario) {
		s.halfMoved(0, 1)
		dead := s.replica(0)
		dead.Kill()
		s.isMissed()
		dead.Start()
	}},
	{name: "a node is forgotten by some", happen: func(s *scenario) {
		gone := s.id(s.master(0))
		for _, pod := range []*rig.Pod{s.master(1), s.replica(2)} {
			s.send(pod, "CLUSTER", "FORGET", gone)
		}
	}},
	{name: "a replica is forgotten by all", happen: func(s *scenario) {
		replica := s.replica(0)
		gone := s.id(replica)
		for _, pod := range s.f.Pods() {
			if pod != replica {
				s.send(pod, "CLUSTER", "FORGET", gone)
			}
		}
	}},
	{name: "a master is lost, and its replica never had the data", happen: func(s *scenario) {
		replica, master := s.replica(0), s.master(0)
		replica.Kill()
		master.Pause() // so that the new replica cannot synchronise
		replica.Wipe()
		replica.Replace()
	}, end: func(s *scenario) {
		s.stays(20, topology.Unknown, topology.ActionMeet, topology.ActionSetEpoch, topology.ActionRecord, topology.ActionReplicate)
		for _, pod := range s.f.Pods() {
			if pod.Shard == 0 {
				pod.Resume()
			}
		}
		s.heals(40 * time.Second)
	}},
	// Nodes that meet a foreign id at its address forget the address, and never call that master failed.
	{name: "the address of a dead master goes to another cluster", happen: func(s *scenario) {
		other := rig.NewFleet(s, rig.Options{Shards: []int{1, 1, 1}})
		rig.NewDriver(other).Form(0)
		theirs := fill(s.T, other, 500)
		dead := s.master(0)
		ip := dead.IP()
		dead.Kill()
		other.Pod(0, 0).Move(ip)
		s.served(30*time.Second, time.Now())
		dead.Replace()
		s.heals(30 * time.Second)
		rig.Until(s, "the other cluster is well", func() error { return other.Pod(1, 0).Client().Ping(s.Context()).Err() })
		if err := theirs.Differ(digest(s.T, other)); err != nil {
			s.Errorf("the other cluster's data: %v", err)
		}
	}},
	{name: "two of three masters are killed and stay away", within: 60 * time.Second, happen: func(s *scenario) {
		for shard := range 2 {
			s.master(shard).Kill()
		}
	}, end: func(s *scenario) {
		began := time.Now()
		s.served(60*time.Second, began)
		takeovers := 0
		for _, line := range s.d.Story {
			if strings.Contains(line, "without a vote") {
				takeovers++
			}
		}
		if takeovers != 1 {
			s.Errorf("%d takeovers, one is enough", takeovers)
		}
		for _, pod := range s.f.Pods() {
			if !pod.Running() {
				pod.Start()
			}
		}
		s.heals(40 * time.Second)
	}},
	{name: "two of three masters are killed and come back", happen: func(s *scenario) {
		var dead []*rig.Pod
		for shard := range 2 {
			dead = append(dead, s.master(shard))
		}
		for _, pod := range dead {
			pod.Kill()
		}
		s.becomes(topology.MajorityLost)
		for _, pod := range dead {
			pod.Start()
		}
	}},
	{name: "a shard loses both volumes", happen: func(s *scenario) {
		for _, pod := range []*rig.Pod{s.f.Pod(0, 0), s.f.Pod(0, 1)} {
			pod.Kill()
		}
		for _, pod := range []*rig.Pod{s.f.Pod(0, 0), s.f.Pod(0, 1)} {
			pod.Wipe()
			pod.Replace()
		}
	}, end: lostShard},
}

// lostShard: nothing is re-assigned before a person says so, and then only what is lost is empty.
func lostShard(s *scenario) {
	lost := s.stays(20, topology.SlotsLost, topology.ActionMeet, topology.ActionSetEpoch, topology.ActionRecord, topology.ActionReplicate)
	if lost.Model.Phase != topology.PhaseFailed || lost.Model.Served >= topology.Slots {
		s.Errorf("the phase is %s with %d slots served", lost.Model.Phase, lost.Model.Served)
	}
	s.d.Wanted.Consent = []string{"0-5460"}
	s.d.Settle(2*time.Minute, "the loss is accepted")
	after := digest(s.T, s.f)
	for key := range after {
		if s.before[key] != after[key] {
			s.Errorf("key %s has changed", key)
		}
	}
	if n := len(after); n < len(s.before)/2 || n >= len(s.before) {
		s.Errorf("%d of %d keys are left", n, len(s.before))
	}
	s.Logf("the shard was re-assigned by consent only: %s", lost.Model.Reason)
}

// loseVolume has a pod come back without its volume, at another address.
func loseVolume(pod *rig.Pod) {
	pod.Kill()
	pod.Wipe()
	pod.Replace()
}

// failsOver kills the master of a shard, and starts it again once its replica was elected.
func (s *scenario) failsOver(shard int) {
	s.Helper()
	dead, heir := s.master(shard), s.replica(shard)
	dead.Kill()
	s.elected(heir)
	dead.Start()
}

// isMissed drives until a pod is missed.
func (s *scenario) isMissed() {
	s.Helper()
	s.d.Until(30*time.Second, "it is seen", func(d topology.Decision) error {
		if d.Model.Redundant {
			return fmt.Errorf("redundant: %s", d.Model.Reason)
		}
		return nil
	})
}

// killed returns the pod that does not run.
func (s *scenario) killed() *rig.Pod {
	s.Helper()
	for _, pod := range s.f.Pods() {
		if !pod.Running() {
			return pod
		}
	}
	s.Fatal("all pods run")
	return nil
}

// served drives until all slots are served, which it fails to be within a time.
func (s *scenario) served(within time.Duration, began time.Time) {
	s.Helper()
	within = harness.Bound(within, full)
	s.serves(within + 60*time.Second)
	took := time.Since(began)
	s.Logf("served again after %s (bound %s)", round(took), within)
	if took > within {
		s.Errorf("served again after %s, more than %s", round(took), within)
	}
}
