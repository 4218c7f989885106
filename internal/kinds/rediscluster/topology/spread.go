// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"slices"
)

// spread makes replicas masters where that evens out how many masters each Kubernetes node has. Each
// such failover takes one from a node with at least two more than the other, so they come to an end.
// While pods are being replaced it waits: a replica of the old revision could be of an older redis.
func (c *cluster) spread() []Step {
	if slices.ContainsFunc(c.nodes, func(n *Node) bool { return n.Outdated }) {
		return nil
	}
	load := map[string]int{}
	for _, s := range c.shards {
		if s.master == nil || s.master.Host == "" {
			return nil
		}
		load[s.master.Host]++
	}
	if c.calm() != "" || c.thin() != "" {
		return nil
	}
	var best *Node
	gain := 1
	for _, s := range c.shards {
		for _, r := range c.replicas(s.master.ID) {
			if g := load[s.master.Host] - load[r.Host]; g > gain && r.Host != "" && c.inStep(r) && !r.Saving {
				best, gain = r, g
			}
		}
	}
	if best == nil {
		return nil
	}
	from := c.shards[best.Shard].master
	return []Step{c.failover(best, "", 0, fmt.Sprintf("make %s on %s the master of shard %d: %s has %d masters",
		best.Pod, best.Host, best.Shard, from.Host, load[from.Host]))}
}
