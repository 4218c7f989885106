// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"time"
)

// defaultNodeTimeout is what redis has if nothing is said.
const defaultNodeTimeout = 15 * time.Second

func (c *cluster) nodeTimeout() time.Duration {
	if c.wanted.NodeTimeout > 0 {
		return c.wanted.NodeTimeout
	}
	return defaultNodeTimeout
}

// candidate returns the replica that may take a dead owner's place: the one with the most of its data.
// One that never had it (offset 0 or 1, no keys) is none: elected, it would make an empty shard.
func (c *cluster) candidate(id string) *Node {
	var best *Node
	for _, r := range c.replicas(id) {
		if r.Terminating || r.Replication.Syncing || r.Replication.Offset <= 1 && r.Keys == 0 {
			continue
		}
		if best == nil || r.Replication.Offset > best.Replication.Offset ||
			r.Replication.Offset == best.Replication.Offset && r.Keys > best.Keys {
			best = r
		}
	}
	return best
}

// promote makes replicas masters where the nodes do not do it by themselves.
//
//   - Normally a majority of masters elects a replica: the operator waits, for the node timeout to find
//     the failure and twice that for votes.
//   - FORCE if that did not happen though a majority lives: the replica's data is too old for redis to
//     elect it by itself, and there is none better.
//   - TAKEOVER, which asks nobody, if the majority is lost and none of the lost masters can be serving
//     still: their containers do not run. One at a time; a majority then elects the others.
func (c *cluster) promote() []Step {
	if steps := c.promoteOverEmptied(); steps != nil {
		return steps
	}
	var lost []string
	alive := 0
	for _, id := range sortedKeys(c.owned) {
		if c.byID[id] != nil {
			alive++
		} else if c.fateOf(id) != away && c.candidate(id) != nil {
			lost = append(lost, id)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	id := lost[0]
	heir := c.candidate(id)
	overdue := 3*c.nodeTimeout() + 5*time.Second
	silence := c.silence(id)
	if 2*alive > len(c.owned) {
		n := c.pods[c.podOf[id]]
		if n != nil && n.Loading && c.fateOf(id) != gone {
			return wait("slots %s: %s loads its data", brief(c.owned[id]), n.Pod)
		}
		if c.fateOf(id) != gone && !c.unaddressed(id) {
			overdue += forceGrace
		}
		if silence < overdue {
			return wait("wait for %s to be elected for slots %s, or for its master to come back: %s", heir.Pod, brief(c.owned[id]), c.describe(id))
		}
		return []Step{c.failover(heir, "FORCE", 2*c.nodeTimeout(), fmt.Sprintf("no replica was elected for slots %s within %s: make %s the master",
			brief(c.owned[id]), overdue, heir.Pod))}
	}
	for _, other := range sortedKeys(c.owned) {
		if c.byID[other] != nil {
			continue
		}
		if f := c.fateOf(other); f != gone && f != down {
			return wait("too few masters live to elect another, and %s: a replica is made master without a vote only when that container does not run; delete its pod if it hangs",
				c.describe(other))
		}
	}
	if silence < overdue+takeoverGrace {
		return wait("too few masters live to elect another: waits %s for the lost ones to come back with their data before %s is made master of slots %s",
			overdue+takeoverGrace, heir.Pod, brief(c.owned[id]))
	}
	return []Step{c.failover(heir, "TAKEOVER", 5*time.Second, fmt.Sprintf("too few masters live to elect another: make %s the master of slots %s without a vote",
		heir.Pod, brief(c.owned[id])))}
}

// unaddressed reports whether no member has an address of a node any more: another one answered there.
// Redis never finds such a node to have failed, and so elects nobody in its place, however fresh its
// replicas' data.
func (c *cluster) unaddressed(id string) bool {
	for _, m := range c.members {
		if e := m.sees(id); e != nil && !e.NoAddress {
			return false
		}
	}
	return true
}

// forceGrace is how much longer a lost master is waited for that may come back with its data, when
// redis elects no replica: it does not because the replica has been cut off for long, or has restarted.
const forceGrace = time.Minute

// takeoverGrace is how much longer lost masters are waited for when a majority of them is lost. They
// come back with writes that their replicas may not have.
const takeoverGrace = 15 * time.Second

// promoteOverEmptied makes a replica with data the master, in place of one that came back without.
func (c *cluster) promoteOverEmptied() []Step {
	for _, r := range c.members {
		master := c.byID[r.self().MasterID]
		if master == nil || r.Terminating || !r.self().Replica || !c.emptied(master, r) {
			continue
		}
		return []Step{c.failover(r, "FORCE", 2*c.nodeTimeout(), fmt.Sprintf("%s lost its data and kept slots %s: make %s the master, which has %d keys",
			master.Pod, brief(c.owned[master.ID]), r.Pod, r.Keys))}
	}
	return nil
}

func (c *cluster) failover(replica *Node, mode string, interval time.Duration, message string) Step {
	return Step{Action: ActionFailover, Node: replica.place(), Mode: mode, Interval: max(interval, 5*time.Second), Message: message}
}
