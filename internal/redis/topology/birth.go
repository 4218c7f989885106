// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"slices"
	"strings"
)

// When a cluster is restored, the first node of each shard gets its part of the backup before it starts. So these nodes
// own slots and hold keys before they meet each other.
//
// Until pods can see that the cluster has begun, a pod with an empty volume gets the backup again. So nodes meet only
// after pods can see this. Otherwise a node that is restored a second time could claim slots to which other nodes have
// written since.

// isRestoring reports whether pods may still get data from the backup.
func (c *cluster) isRestoring() bool {
	return c.wanted.Restores && !c.wanted.Announced && !c.record.Formed
}

// isRestored reports whether a node is the first of its shard, has the shard's part of the backup, and has met no other node.
func (c *cluster) isRestored(n *Node) bool {
	self := n.self()
	return c.wanted.Restores && n.Ordinal == 0 && self.Master && len(self.Owned) > 0 && len(n.View) == 1
}

// unrestored describes the missing parts of the backup. It returns "" if no part is missing or no backup is expected.
func (c *cluster) unrestored() string {
	if !c.wanted.Restores {
		return ""
	}
	if len(c.disputed) > 0 {
		d := c.disputed[0]
		return fmt.Sprintf("%s and %s both own slots %s, but must have different parts of one backup: delete the cluster and its claims, and restore again",
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
	return fmt.Sprintf("the backup is not restored: slots %s have no owner (pods without data: %s). The log of the container d3os-restore has the cause. "+
		"The cluster does not begin without the backup: remove spec.restoreFrom for an empty cluster", brief(c.unowned), strings.Join(without, ", "))
}

// announce waits until pods can see that the cluster has begun. If a node is restored again during that wait, its new
// id is recorded.
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
