// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"slices"
)

// A parked cluster has no pods and keeps its data. Each line is done before the next:
//
//	complete started changes: nodes see each other, replicas follow, lost masters are replaced
//	wait until every server that runs can stop without a loss (unsafeToStop)
//	in each shard that runs, make the first pod the master
//	record that only the masters may run: replicas stop
//	if a replica became a master before it stopped: record that all may run, and begin again
//	record that the cluster is parked: masters stop
//	when pods are wanted again: record that all may run
//
// Replicas stop first, because a replica that outlives its master is elected and accepts writes. Later, all pods start
// at new addresses. The former master would then also accept writes until it learns that the replica was promoted.
//
// Members, shards and slots stay in the record and on the volumes. So the same cluster starts again. The pods that may
// run depend on the record, not on the spec: an operator that crashes during these steps never stops pods without the
// check.

// shape returns the recorded numbers of pods of the shards. Without a record, it returns the numbers of the existing pods.
func shape(record Record, nodes []Node) []int {
	if len(record.Shards) > 0 {
		return record.Shards
	}
	var shards []int
	for i := range nodes {
		n := &nodes[i]
		if n.Shard < 0 || n.Shard >= Slots {
			continue
		}
		for len(shards) <= n.Shard {
			shards = append(shards, 0)
		}
		shards[n.Shard] = max(shards[n.Shard], n.Ordinal+1)
	}
	return shards
}

// park returns the steps that stop replicas, and then masters, once every server can stop.
func (c *cluster) park() []Step {
	if !c.wanted.Parked {
		return nil
	}
	if why := c.unsafeToStop(); why != "" {
		return c.blocked("the pods are not stopped: %s", why)
	}
	record := c.copyRecord()
	record.Pods = slices.Clone(c.wanted.Shards)
	replicas := 0
	for i, s := range c.shards[:len(record.Pods)] {
		var running []*Node
		for _, n := range s.nodes {
			if n.Running || n.Reached {
				running = append(running, n)
			}
		}
		if len(running) < 2 || len(s.owned) == 0 { // without slots no replica is elected
			continue
		}
		if s.master == nil {
			return c.blocked("the pods are not stopped: shard %d has no master", i)
		}
		if first := running[0]; first != s.master {
			if !c.inStep(first) {
				return c.blocked("the pods are not stopped: %s is not in sync with its master", first.Pod)
			}
			return []Step{c.failover(first, fmt.Sprintf("make %s the master of shard %d, so that the other pods can stop before it", first.Pod, i))}
		}
		record.Pods[i] = s.master.Ordinal + 1
		replicas += len(running) - 1
	}
	switch {
	case replicas == 0:
		record.Parked, record.Pods = true, nil
		return []Step{recordStep(record, "record that all pods stop; the data stays on the volumes")}
	case slices.Equal(record.Pods, c.record.Pods):
		return wait("waits until %d replicas have stopped", replicas)
	}
	return []Step{recordStep(record, "record that replicas stop before their masters")}
}

// unpark lets all pods run again in two cases. Either the spec wants pods before the cluster is parked, or a replica
// became a master before it stopped, so the volume of this replica has the latest data of the shard.
func (c *cluster) unpark() []Step {
	switch owner := c.stoppedOwner(); {
	case len(c.record.Pods) == 0:
	case !c.wanted.Parked:
		return c.recordParked(false, "record that all pods run")
	case owner != nil:
		return c.recordParked(false, "record that all pods run: "+owner.Pod+" became a master before it stopped")
	}
	return nil
}

// stoppedOwner returns an owner of slots that does not run because only masters may run, or nil.
func (c *cluster) stoppedOwner() *Node {
	for _, n := range c.nodes {
		if !n.Reached && !n.Running && len(c.owned[c.record.Nodes[n.Pod]]) > 0 && n.Ordinal >= c.record.MayRun(n.Shard, n.Ordinal+1) {
			return n
		}
	}
	return nil
}

// parkUnformed parks pods that never were a cluster. If a pod owns slots or has keys, the cluster is formed first, because a client may
// have written.
func (c *cluster) parkUnformed() []Step {
	if !c.wanted.Parked {
		return nil
	}
	for _, n := range c.nodes {
		switch {
		case n.Reached && (n.Keys > 0 || len(n.self().Owned) > 0):
			return nil
		case n.Running && !n.Reached: // without a record, the node may be a member with data
			return c.blocked("the pods are not stopped: %s: it may be unable to write its data before it stops", n.trouble())
		}
	}
	return c.recordParked(true, "record that all pods stop before the cluster is formed")
}

// parked waits until the pods of a parked cluster have stopped, or lets the pods start again.
func (c *cluster) parked() []Step {
	if !c.wanted.Parked {
		return c.recordParked(false, "record that the pods start again, with their data")
	}
	if left := len(c.nodes); left > 0 {
		return wait("waits until %d pods have stopped", left)
	}
	return nil
}

func (c *cluster) recordParked(is bool, message string) []Step {
	record := c.copyRecord()
	record.Parked, record.Pods = is, nil
	return []Step{recordStep(record, "%s", message)}
}

// unsafeToStop returns why a server may not stop now, or "". A server that stops by itself first writes its data to its
// volume. So every running server must be reached and able to write. No replica may lack data of its master, because a
// replica that stops later than its master can be elected.
func (c *cluster) unsafeToStop() string {
	for _, n := range c.nodes {
		switch {
		case n.Ordinal >= c.record.MayRun(n.Shard, n.Ordinal+1): // the record already stops this pod
		case !n.Reached && n.Running:
			return n.trouble() + ": it may be unable to write its data before it stops"
		case !n.Reached:
		case n.Terminating:
			return n.Pod + " is being stopped"
		case n.Unsaved:
			return fmt.Sprintf("%s would lose writes: %s", n.Pod, n.Refuses)
		case c.member(n) && n.self().Replica && !c.inStep(n) && len(c.shards[n.Shard].owned) > 0:
			return n.Pod + " is not in sync with its master" + c.whyNot(c.shards[n.Shard])
		}
	}
	return ""
}
