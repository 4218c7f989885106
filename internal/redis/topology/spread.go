// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"fmt"
	"slices"
)

// spread promotes replicas to even out the number of masters per zone. Where zones are even, it evens out the masters
// per Kubernetes node. A failover must reduce a difference of at least two masters, between two zones or between two
// nodes: otherwise failovers would never end. spread waits while pods are being replaced, because a replica of the old
// revision could run an older redis.
func (c *cluster) spread() (steps []Step) {
	if slices.ContainsFunc(c.nodes, func(n *Node) bool { return n.Outdated }) {
		return nil
	}
	load, zones := c.mastersBy()
	if load == nil || c.whyNotSafe() != "" || c.thin() != "" {
		return nil
	}
	type heir struct {
		*Node

		gain int
	}
	var heirs []heir
	for _, s := range c.shards {
		for _, r := range c.replicas(s.master.ID) {
			zone, host := zones[s.master.Zone]-zones[r.Zone], load[s.master.Host]-load[r.Host]
			if s.master.Zone == "" || r.Zone == "" || s.master.Zone == r.Zone {
				zone = 1 // the failover changes no zone
			}
			evens := zone > 1 || zone == 1 && host > 1
			if evens && r.Host != "" && c.inStep(r) && !r.Saving {
				heirs = append(heirs, heir{r, zone*Slots + host})
			}
		}
	}
	slices.SortStableFunc(heirs, func(a, b heir) int { return cmp.Compare(b.gain, a.gain) })
	for _, r := range heirs {
		from := c.shards[r.Shard].master
		where, masters := from.Host, load[from.Host]
		if r.gain >= 2*Slots-len(c.shards) {
			where, masters = "zone "+from.Zone, zones[from.Zone]
		}
		steps = append(steps, c.failover(r.Node, fmt.Sprintf("make %s on %s the master of shard %d: %s has %d masters", r.Pod, r.Host, r.Shard, where, masters)))
	}
	return steps
}

// mastersBy counts masters by Kubernetes node and by zone. It returns nil while a shard has no master, or a master that is not scheduled.
func (c *cluster) mastersBy() (load, zones map[string]int) {
	load, zones = map[string]int{}, map[string]int{}
	for _, s := range c.shards {
		if s.master == nil || s.master.Host == "" {
			return nil, nil
		}
		load[s.master.Host]++
		zones[s.master.Zone]++
	}
	return load, zones
}
