// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"slices"
	"strings"
)

// A cluster that is made of a backup is formed of nodes that own slots and have keys before they have met: the first of
// each shard, on whose volume the backup was put before it started. Until pods can see that the cluster has begun, a pod
// with an empty volume would get the backup again. So nobody meets before that: a node that comes back from the backup
// must not claim slots beside others that have gone on.

// isRestoring reports whether a backup may yet be put on pods.
func (c *cluster) isRestoring() bool {
	return c.wanted.Restores && !c.wanted.Announced && !c.record.Formed
}

// isRestored reports whether a node is the first of its shard, with its part of a backup, and knows nobody.
func (c *cluster) isRestored(n *Node) bool {
	self := n.self()
	return c.wanted.Restores && n.Ordinal == 0 && self.Master && len(self.Owned) > 0 && len(n.View) == 1
}

// unrestored says what of the backup is not there; empty where all is, or none is expected.
func (c *cluster) unrestored() string {
	if !c.wanted.Restores {
		return ""
	}
	if len(c.disputed) > 0 {
		d := c.disputed[0]
		return fmt.Sprintf("%s and %s both own slots %s, and were to have the parts of one backup: delete the cluster and its claims, and restore again",
			d.winner.Pod, d.loser.Pod, brief(d.slots))
	}
	if len(c.unowned) == 0 {
		return ""
	}
	var without []string
	for _, n := range c.nodes {
		if c.wants(n) && n.Ordinal == 0 && len(n.self().Owned) == 0 {
			without = append(without, n.Pod)
		}
	}
	return fmt.Sprintf("the backup is not restored: slots %s have no owner, and %s no data. The log of the container d3os-restore says why. "+
		"Nothing is formed without the backup: take spec.restoreFrom away for an empty cluster", brief(c.unowned), strings.Join(without, ", "))
}

// announce waits until pods can see that the cluster has begun. A node that was restored again meanwhile is recorded anew.
func (c *cluster) announce() []Step {
	if !c.isRestoring() {
		return nil
	}
	if slices.ContainsFunc(c.nodes, func(n *Node) bool { return n.Reached && c.wants(n) && c.record.Nodes[n.Pod] != n.ID }) {
		if missing := c.missing(); missing != "" {
			return wait("waits for %s", missing)
		}
		c.record.Nodes = nil
		return c.formRecord()
	}
	return wait("wait until pods can see that the cluster has begun")
}
