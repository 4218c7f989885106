// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"strings"
)

// foreignFormed reports whether the pods form a cluster that the record does not contain: the record was lost, or another actor formed the
// cluster. The operator adopts such a cluster. Pods that were only restored from a backup do not form a cluster yet.
func (c *cluster) foreignFormed() bool {
	for id := range c.owned {
		if n := c.byID[id]; n == nil || !c.isRestored(n) {
			return len(c.record.Nodes) == 0
		}
	}
	return false
}

// form makes a cluster of pods that never were a cluster. Each line takes one pass, or no pass if its work is done.
// After a crash of the operator, the state of the nodes shows which line is next.
//
//	record the pods and their node ids
//	if the cluster is restored: wait until pods get no backup any more (birth.go)
//	SET-CONFIG-EPOCH: each node gets a different epoch
//	MEET: each node meets each other node
//	wait until all nodes see all others
//	ADDSLOTSRANGE: assign the slots that have no owner in any view
//	record that the cluster is formed
//
// Replicas are attached afterwards, as in a formed cluster. The numbers of shards and pods are the recorded numbers: a
// change of the spec during forming is handled later, as scaling.
func (c *cluster) form() []Step {
	if missing := c.missing(); missing != "" && len(c.record.Nodes) == 0 {
		return wait("waits for %s", missing)
	}
	if len(c.record.Nodes) == 0 {
		return c.formRecord()
	}
	if steps := c.announce(); steps != nil {
		return steps
	}
	if steps := c.formLost(); steps != nil {
		return steps
	}
	if steps := c.epochs(); steps != nil {
		return steps
	}
	if steps := c.addresses(); steps != nil {
		return steps
	}
	if pair := c.unacquainted(); pair != "" {
		return wait("wait until all nodes see each other: %s", pair)
	}
	if len(c.unowned) > 0 {
		return c.formSlots()
	}
	record := c.copyRecord()
	record.Formed = true
	return []Step{recordStep(record, "record that the cluster is formed")}
}

func (c *cluster) formRecord() []Step {
	if reason := c.unrestored(); reason != "" {
		return wait("%s", reason)
	}
	record := c.copyRecord()
	for _, n := range c.nodes {
		if !c.wants(n) {
			continue
		}
		if !c.joinable(n) && !c.isRestored(n) {
			return wait("%s is node %s with %d keys, and the cluster was never formed: remove its volume, or restore the ConfigMap with the record of its cluster",
				n.Pod, n.ID, n.Keys)
		}
		record.remember(n)
	}
	return []Step{recordStep(record, "record %d pods as members", len(record.Nodes))}
}

// formLost handles pods that differ from the record before the cluster is formed. It waits for an absent pod. If a pod
// lost its data, the operator records the pod's new node id, and the other nodes forget the former id. As soon as any
// node has a key, clients write already, and formLost records the cluster as formed instead.
func (c *cluster) formLost() []Step {
	var absent, lost []string
	var keys int64
	for _, n := range c.nodes {
		keys += n.Keys
	}
	record := c.copyRecord()
	for _, pod := range sortedKeys(record.Nodes) {
		n := c.pods[pod]
		switch {
		case n == nil:
			absent = append(absent, pod+": there is no such pod")
		case !n.Reached:
			absent = append(absent, n.trouble())
		case n.ID != record.Nodes[pod]:
			lost = append(lost, pod)
			record.Nodes[pod] = n.ID
		}
	}
	switch {
	case len(absent) > 0 && keys == 0:
		return wait("waits for %s", strings.Join(absent, ", "))
	case len(absent)+len(lost) == 0:
		return nil
	case keys > 0:
		record = c.copyRecord()
		record.Formed = true
		return []Step{recordStep(record, "record that the cluster is formed: it has keys")}
	}
	for _, m := range c.members {
		for _, e := range m.View {
			if c.byID[e.ID] == nil && !e.Handshake && !c.isReached(e.ID) {
				return []Step{{Action: ActionForget, ID: e.ID, On: places(c.knowing(e.ID)), Mode: ModeForming,
					Message: fmt.Sprintf("forget node %s, whose pod lost its data while the cluster was formed", e.ID)}}
			}
		}
	}
	return []Step{recordStep(record, "record new node ids of %s", strings.Join(lost, ", "))}
}

func (c *cluster) isReached(id string) bool {
	for _, n := range c.nodes {
		if n.Reached && n.ID == id {
			return true
		}
	}
	return false
}

// formSlots assigns slots to each shard's master: its even share of all slots, without the slots that have an owner.
func (c *cluster) formSlots() []Step {
	var batch []Step
	count := len(c.record.Shards)
	load := map[string]int{}
	for i, s := range c.shards[:count] {
		master := c.firstMaster(s, load)
		if master == nil {
			return wait("shard %d has no master to give slots to", i)
		}
		load[master.Host]++
		part := SlotSet{{i * Slots / count, (i+1)*Slots/count - 1}}
		if part = part.Intersect(c.unowned); len(part) > 0 {
			batch = append(batch, Step{Action: ActionAddSlots, Node: master.place(), Slots: part,
				Message: fmt.Sprintf("assign slots %s to %s", part, master.Pod)})
		}
	}
	return together(ActionAddSlots, "assign all slots", batch)
}

// firstMaster returns the node of a new shard that becomes its master: a node that already owns slots, or else the one
// whose Kubernetes node has the fewest masters so far.
func (c *cluster) firstMaster(s *shard, load map[string]int) *Node {
	var best *Node
	for _, n := range s.nodes {
		if !c.member(n) || !n.self().Master {
			continue
		}
		if len(c.owned[n.ID]) > 0 {
			return n
		}
		if best == nil || load[n.Host] < load[best.Host] {
			best = n
		}
	}
	return best
}
