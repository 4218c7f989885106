// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"fmt"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/kinds/rediscluster/topology"
)

// running is the observation of a cluster of six pods that is all that it should be.
func running() World {
	w := World{
		Record:  topology.Record{Formed: true, Shards: []int{2, 2, 2}, Nodes: map[string]string{}},
		HostIPs: map[string]string{}, Problems: map[string]string{},
	}
	id := func(shard, pod int) string { return fmt.Sprintf("%039d%d", shard, pod) }
	var lines []topology.Entry
	for shard := range 3 {
		slots := topology.SlotSet{{From: shard * 5461, To: shard*5461 + 5460}}
		if shard == 2 {
			slots[0].To = topology.Slots - 1
		}
		for pod := range 2 {
			e := topology.Entry{
				ID: id(shard, pod), IP: fmt.Sprintf("10.0.%d.%d", shard, pod), Port: 6379, BusPort: 16379, Connected: true,
				Master: pod == 0, Replica: pod == 1, Epoch: uint64(shard + 1),
			}
			if pod == 0 {
				e.Owned = slots
			} else {
				e.MasterID = id(shard, 0)
			}
			lines = append(lines, e)
		}
	}
	for i, own := range lines {
		shard, pod := i/2, i%2
		view := append([]topology.Entry(nil), lines...)
		view[i].Myself = true
		name := fmt.Sprintf("cache-%d-%d", shard, pod)
		w.Record.Nodes[name] = own.ID
		w.Nodes = append(w.Nodes, topology.Node{
			Pod: name, UID: name, Shard: shard, Ordinal: pod, Host: fmt.Sprintf("node-%d", i), IP: own.IP, Running: true, Ready: true,
			Reached: true, ID: own.ID, View: view, StateOK: true, Version: "7.0.15",
			Replication: topology.Replication{Master: pod == 0, MasterHost: fmt.Sprintf("10.0.%d.0", shard), MasterPort: 6379, LinkUp: pod == 1, Replicas: 1 - pod},
		})
	}
	return w
}

func statusKind(t *testing.T) *Kind {
	t.Helper()
	return &Kind{planner: testPlanner(t)}
}

// report lets a pass with an observation write the status.
func report(k *Kind, rc *redisv1.RedisCluster, w *World, failure *kinds.Failure) {
	seen := kinds.Seen[World]{Generation: rc.Generation, Paused: rc.Spec.Pause, Deleting: rc.DeletionTimestamp != nil, Observed: w, Failure: failure}
	if w != nil && !seen.Paused {
		seen.Decision = k.Decide(rc, seen.Seen, *w)
	}
	k.Status(rc, seen, metav1.NewTime(time.Unix(1000, 0)))
}

func TestStatus(t *testing.T) {
	t.Parallel()
	unsupported := &kinds.Failure{Reason: redisv1.ReasonUnsupportedVersion, Message: "spec.version: too old", Stalled: true}
	lost := func(w *World, i int, problem string) {
		n := &w.Nodes[i]
		*n = topology.Node{Pod: n.Pod, UID: n.UID, Shard: n.Shard, Ordinal: n.Ordinal, IP: n.IP, Running: true, Problem: problem}
	}
	for name, c := range map[string]struct {
		change  func(*redisv1.RedisCluster, *World)
		failure *kinds.Failure
		nothing bool // nothing was observed
		// What is said: phase, reason, numbers, and the conditions that are True.
		phase         redisv1.Phase
		reason, ready string
		slots         int32
		conditions    string
	}{
		"well": {phase: redisv1.PhaseRunning, reason: redisv1.ReasonAllServed, ready: "6/6", slots: 16384, conditions: "Ready"},
		"paused": {
			change: func(rc *redisv1.RedisCluster, _ *World) { rc.Spec.Pause = true },
			phase:  redisv1.PhaseRunning, reason: redisv1.ReasonPaused, ready: "6/6", slots: 16384, conditions: "Ready",
		},
		"a replica does not answer": {
			change: func(_ *redisv1.RedisCluster, w *World) { lost(w, 1, "no answer within 2s") },
			phase:  redisv1.PhaseFailed, reason: redisv1.ReasonNotRedundant, ready: "5/6", slots: 16384, conditions: "Degraded Progressing Reconciling",
		},
		"a link is down": {
			change: func(_ *redisv1.RedisCluster, w *World) { w.Nodes[1].Replication.LinkUp = false },
			phase:  redisv1.PhaseFailed, ready: "5/6", slots: 16384, conditions: "Degraded Progressing Reconciling",
		},
		"a pod is not ready": {
			change: func(_ *redisv1.RedisCluster, w *World) { w.Nodes[1].Ready = false },
			phase:  redisv1.PhaseFailed, reason: redisv1.ReasonPodsNotReady, ready: "5/6", slots: 16384, conditions: "Degraded Progressing Reconciling",
		},
		"a server refuses writes": {
			change: func(_ *redisv1.RedisCluster, w *World) {
				w.Nodes[2].Refuses = "it refuses writes, its disk fails: No space left on device"
			},
			phase: redisv1.PhaseFailed, reason: redisv1.ReasonRefuses, ready: "5/6", slots: 16384, conditions: "Degraded Progressing Reconciling",
		},
		"while it is scaled, a move keeps failing": {
			change: func(rc *redisv1.RedisCluster, w *World) {
				rc.Status.Phase, rc.Spec.Replicas = redisv1.PhaseScaling, 8
				w.Nodes[0].Failures = []topology.Failure{{Action: topology.ActionMoveSlots, Target: w.Nodes[2].ID, Cause: "the memory is full"}}
				w.Nodes[0].View[0].Migrating = map[int]string{0: w.Nodes[2].ID}
				w.Nodes[2].View[2].Importing = map[int]string{0: w.Nodes[0].ID}
				w.Nodes[0].SlotKeys, w.Nodes[2].SlotKeys = map[int]int64{0: 1}, map[int]int64{0: 1}
				w.Nodes[4].SlotKeys = map[int]int64{0: 0}
			},
			phase: redisv1.PhaseScaling, ready: "6/6", slots: 16384, conditions: "Degraded Progressing Reconciling",
		},
		"while it is upgraded, a pod is not ready": {
			change: func(rc *redisv1.RedisCluster, w *World) {
				rc.Status.Phase, w.Nodes[1].Ready = redisv1.PhaseUpgrading, false
			},
			phase: redisv1.PhaseUpgrading, reason: redisv1.ReasonPodsNotReady, ready: "5/6", slots: 16384, conditions: "Progressing Reconciling",
		},
		"new": {
			change: func(_ *redisv1.RedisCluster, w *World) {
				w.Record = topology.Record{}
				for i := range w.Nodes {
					w.Nodes[i] = topology.Node{Pod: w.Nodes[i].Pod, Shard: w.Nodes[i].Shard, Ordinal: w.Nodes[i].Ordinal, Problem: "the pod does not exist"}
				}
			},
			phase: redisv1.PhaseCreating, reason: redisv1.ReasonPodsNotReady, ready: "0/6", conditions: "Progressing Reconciling",
		},
		"Kubernetes lags": {
			change: func(_ *redisv1.RedisCluster, w *World) { w.Lagging = true },
			phase:  redisv1.PhaseUpgrading, reason: redisv1.ReasonWorking, ready: "6/6", slots: 16384, conditions: "Progressing Reconciling",
		},
		"two more": {
			change: func(rc *redisv1.RedisCluster, _ *World) { rc.Spec.Replicas = 8 },
			phase:  redisv1.PhaseScaling, ready: "6/6", slots: 16384, conditions: "Progressing Reconciling",
		},
		"a setting": {
			change: func(rc *redisv1.RedisCluster, w *World) {
				rc.Spec.Config = map[string]redisv1.Setting{"maxmemory": "1gb"}
				for i := range w.Nodes {
					w.Nodes[i].Settings = map[string]string{"maxmemory": "0"}
				}
			},
			phase: redisv1.PhaseRunning, reason: string(topology.ActionConfigure), ready: "6/6", slots: 16384, conditions: "Progressing Reconciling",
		},
		"refused": {failure: unsupported, nothing: true, phase: redisv1.PhaseFailed, reason: redisv1.ReasonUnsupportedVersion, conditions: "Degraded Stalled"},
		"refused and paused": {
			change:  func(rc *redisv1.RedisCluster, _ *World) { rc.Spec.Pause = true },
			failure: unsupported, nothing: true, phase: redisv1.PhaseNone, reason: redisv1.ReasonUnsupportedVersion, conditions: "Degraded Stalled",
		},
		"deleted": {
			change:  func(rc *redisv1.RedisCluster, _ *World) { rc.DeletionTimestamp = &metav1.Time{} },
			nothing: true, reason: redisv1.ReasonDeleting, conditions: "Progressing Reconciling",
		},
		"no effect": {
			change: func(rc *redisv1.RedisCluster, _ *World) {
				rc.Spec.Pod = []redisv1.Pod{{Volumes: &redisv1.Volumes{Type: "nfs"}}}
			},
			phase: redisv1.PhaseRunning, reason: redisv1.ReasonAllServed, ready: "6/6", slots: 16384, conditions: "Ready SpecIgnored",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, rc, w := statusKind(t), read(t, "minimal"), running()
			if c.change != nil {
				c.change(rc, &w)
			}
			observed := &w
			if c.nothing {
				observed = nil
			}
			report(k, rc, observed, c.failure)
			s := &rc.Status
			assert.Equal(t, s.Phase, c.phase, "%+v", s)
			if c.reason != "" {
				assert.Equal(t, s.Reason, c.reason, "%s", s.Message)
			}
			assert.Equal(t, s.Ready, c.ready)
			assert.Equal(t, s.Slots, c.slots)
			assert.Assert(t, s.Message != "")
			var are string
			for _, name := range []string{"Ready", "Degraded", "Progressing", "Reconciling", "Stalled", "SpecIgnored"} {
				if meta.IsStatusConditionTrue(s.Conditions, name) {
					are += " " + name
				}
			}
			assert.Equal(t, are, " "+c.conditions, "%+v", s.Conditions)
			before := rc.DeepCopy()
			report(k, rc, observed, c.failure)
			assert.DeepEqual(t, rc, before)
		})
	}
}

// An instance says what the earlier operator said of one.
func TestInstances(t *testing.T) {
	t.Parallel()
	k, rc, w := statusKind(t), read(t, "minimal"), running()
	w.HostIPs["cache-0-1"] = "192.0.2.1"
	report(k, rc, &w, nil)
	now := metav1.NewTime(time.Unix(1000, 0))
	assert.DeepEqual(t, rc.Status.Instances[1], redisv1.Instance{
		Name: "cache-0-1", Instance: "10.0.0.1:6379", Type: "slave", MasterNodeID: w.Nodes[0].ID, NodeID: w.Nodes[1].ID,
		DomainName: "cache-0-1.cache-headless.data.svc", HostName: "node-1", HostIP: "192.0.2.1", Status: "True", LastTransitionTime: &now,
	})
	assert.Equal(t, rc.Status.Instances[0].Slots, "0-5460")
	w.Problems["cache-0-1"] = "ImagePullBackOff: no such image"
	report(k, rc, &w, nil)
	assert.Equal(t, rc.Status.Instances[1].Reason, "ImagePullBackOff")
	assert.Equal(t, rc.Status.Instances[1].Message, "no such image")
}

// The summary tells events and metrics what the status says.
func TestSummary(t *testing.T) {
	t.Parallel()
	k, rc, w := statusKind(t), read(t, "minimal"), running()
	report(k, rc, &w, nil)
	s := k.Summary(rc)
	assert.Assert(t, s.Ready && s.Problem == "" && s.Doing == kinds.Doing{} && len(s.Parts) == 1 && s.Parts[0].Ready && s.Parts[0].Pods == 6)
	assert.Equal(t, s.ReadyText, "all 16384 slots are served by 3 shards (pods: 6/6)")
	report(k, rc, &w, &kinds.Failure{Reason: kinds.ReasonStepFailed, Message: "it broke"})
	s = k.Summary(rc)
	assert.Assert(t, !s.Ready)
	assert.Equal(t, s.ProblemReason+": "+s.Problem, "StepFailed: it broke")
}

// What is decided becomes steps; at rest the next look is half a minute away.
func TestDecide(t *testing.T) {
	t.Parallel()
	k, rc, w := statusKind(t), read(t, "minimal"), running()
	decision := k.Decide(rc, kinds.Seen[World]{}.Seen, w)
	assert.Equal(t, len(decision.Steps), 0)
	assert.Equal(t, decision.LookAgain, atRest)
	w.Lagging = true
	assert.Equal(t, k.Decide(rc, kinds.Seen[World]{}.Seen, w).LookAgain, time.Second)
	decision = k.Decide(rc, kinds.Seen[World]{}.Seen, World{})
	assert.Assert(t, decision.LookAgain > 0 && decision.LookAgain <= 10*time.Second)
}
