// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"fmt"

	"d3os.com/d3os-operator/internal/redis/topology"
)

// states counts nodes by state: master, replica, loading or unreachable.
func states(nodes []topology.Node) map[string]int {
	count := map[string]int{"master": 0, "replica": 0, "loading": 0, "unreachable": 0}
	for i := range nodes {
		switch n := &nodes[i]; {
		case n.Loading:
			count["loading"]++
		case !n.Reached:
			count["unreachable"]++
		case n.Replication.Master:
			count["master"]++
		default:
			count["replica"]++
		}
	}
	return count
}

// lost returns the number of unserved slots under the verdict SlotsLost, else 0.
func lost(model topology.Model) int {
	if model.Verdict != topology.SlotsLost {
		return 0
	}
	return topology.Slots - model.Served
}

// together names the shards with all pods on one Kubernetes node. The loss of that node would lose all copies of their data.
func together(nodes []topology.Node) (shards []string) {
	hosts, pods := map[int]map[string]bool{}, map[int]int{}
	last := -1
	for i := range nodes {
		n := &nodes[i]
		if n.Host == "" {
			continue
		}
		if hosts[n.Shard] == nil {
			hosts[n.Shard] = map[string]bool{}
		}
		hosts[n.Shard][n.Host] = true
		pods[n.Shard]++
		last = max(last, n.Shard)
	}
	for shard := range last + 1 {
		if pods[shard] < 2 || len(hosts[shard]) > 1 {
			continue
		}
		for host := range hosts[shard] {
			shards = append(shards, fmt.Sprintf("shard %d has all of its pods on node %s", shard, host))
		}
	}
	return shards
}
