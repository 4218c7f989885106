// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"time"
)

// defaultNodeTimeout is Redis' default of cluster-node-timeout.
const defaultNodeTimeout = 15 * time.Second

func (c *cluster) nodeTimeout() time.Duration {
	if c.wanted.NodeTimeout > 0 {
		return c.wanted.NodeTimeout
	}
	return defaultNodeTimeout
}

// promote makes replicas masters when the nodes do not elect one. There are three ways:
//
//   - Normally a majority of masters elects a replica. The operator waits for the node timeout, in which nodes detect
//     the failure, and for twice that time, in which they vote.
//   - FORCE is sent if no replica was elected although a majority of masters lives. Redis does not know the age of the
//     replica's data, and therefore may refuse to elect the replica. The operator knows the age (candidate).
//   - TAKEOVER needs no votes. It is sent if the majority is lost and no lost master can still serve, because no
//     container of a lost master runs. Takeovers are done one at a time. Once a majority is restored, it elects the
//     other masters.
//
// A lost master that cannot be replaced yet does not block other lost masters. It blocks later rules only while its
// wait is bounded.
func (c *cluster) promote() []Step {
	steps := c.promoteOverEmptied()
	var lost []string
	alive := 0
	for _, id := range sortedKeys(c.owned) {
		if c.byID[id] != nil {
			alive++
		} else if c.fateOf(id) != away && c.candidate(id) != nil {
			lost = append(lost, id)
		}
	}
	switch {
	case len(lost) == 0:
		return steps
	case 2*alive > len(c.owned):
		return append(steps, c.promoteUnelected(lost)...)
	default:
		return append(steps, c.takeOver(lost)...)
	}
}

// overdue returns the time after which a replica of a lost master should have been elected.
func (c *cluster) overdue() time.Duration { return 3*c.nodeTimeout() + 5*time.Second }

// promoteUnelected promotes replicas that a living majority did not elect.
func (c *cluster) promoteUnelected(lost []string) (steps []Step) {
	var waits []Step
	for _, id := range lost {
		heir, n := c.candidate(id), c.pods[c.podOf[id]]
		switch {
		case n != nil && n.Loading && c.fateOf(id) != gone:
			c.blocked("slots %s: %s loads its data", brief(c.owned[id]), n.Pod)
		case c.silence(id) < c.overdue():
			waits = append(waits, wait("wait for %s to be elected for slots %s, or for its master to come back: %s", heir.Pod, brief(c.owned[id]), c.describe(id))...)
		default:
			steps = append(steps, c.force(heir, "FORCE", 2*c.nodeTimeout(), fmt.Sprintf("no replica was elected for slots %s within %s: make %s the master",
				brief(c.owned[id]), c.overdue(), heir.Pod)))
		}
	}
	return append(steps, waits...)
}

// takeOver promotes replicas without a vote, while too few masters live for a vote.
func (c *cluster) takeOver(lost []string) (steps []Step) {
	for _, other := range sortedKeys(c.owned) {
		if c.byID[other] != nil {
			continue
		}
		if f := c.fateOf(other); f != gone && f != down {
			return c.blocked("too few masters run to elect another master, and %s: a replica is made master without a vote only when the container of the lost master does not run; delete its pod if the container hangs",
				c.describe(other))
		}
	}
	var waits []Step
	for _, id := range lost {
		heir, grace := c.candidate(id), c.overdue()+takeoverGrace
		if c.silence(id) < grace {
			waits = append(waits, wait("too few masters run to elect another master: waits %s for the lost masters to come back with their data before %s is made master of slots %s",
				grace, heir.Pod, brief(c.owned[id]))...)
			continue
		}
		steps = append(steps, c.force(heir, "TAKEOVER", 5*time.Second, fmt.Sprintf("too few masters run to elect another master: make %s the master of slots %s without a vote",
			heir.Pod, brief(c.owned[id]))))
	}
	return append(steps, waits...)
}

// takeoverGrace is added to the wait for lost masters when a majority of masters is lost. In this time, they may return
// with writes that their replicas lack.
const takeoverGrace = 15 * time.Second

// promoteOverEmptied promotes a replica with data over a master that restarted without data. It also promotes a replica
// over a master whose data a user gave up.
func (c *cluster) promoteOverEmptied() (steps []Step) {
	for _, r := range c.members {
		master := c.byID[r.self().MasterID]
		if master == nil || !r.self().Replica {
			continue
		}
		text := fmt.Sprintf("%s restarted without its data and kept slots %s: make %s the master, which has %d keys",
			master.Pod, brief(c.owned[master.ID]), r.Pod, r.Keys)
		given := c.isFresh(master.ID) && c.ofDoubt(r) != nil && c.mayReplace(master, r)
		if given {
			text = fmt.Sprintf("make %s the master of slots %s with the %d keys that it has: the data of %s was given up", r.Pod, brief(c.owned[master.ID]), r.Keys, master.Pod)
		} else if !c.emptied(master, r) {
			continue
		}
		step := c.force(r, "FORCE", 2*c.nodeTimeout(), text)
		step.Target, step.Proof.Run, step.Proof.Consented = master.place(), master.RunID, given
		steps = append(steps, step)
	}
	return steps
}

// failover makes a replica replace its master with the master's agreement: the replica takes over once it has all data of the master.
func (c *cluster) failover(replica *Node, message string) Step {
	step := Step{Action: ActionFailover, Node: replica.place(), Interval: 5 * time.Second, Message: message}
	if master := c.byID[replica.self().MasterID]; master != nil {
		step.Target = master.place()
	}
	return step
}

// force returns the step that makes a replica replace its master without the master's agreement. The step's Proof holds
// the facts about the replica on which the choice depends.
func (c *cluster) force(replica *Node, mode string, interval time.Duration, message string) Step {
	step := Step{Action: ActionFailover, Node: replica.place(), Mode: mode, Interval: max(interval, 5*time.Second), Message: message,
		Target: Place{ID: replica.self().MasterID}, Proof: Proof{History: replica.Replication.ID, Offset: replica.Replication.Offset}}
	if !c.historyOf(step.Target.ID).follows(replica) {
		step.Proof.Within = c.owned[step.Target.ID]
	}
	return step
}
