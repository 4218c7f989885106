// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"slices"
)

// whyNotSafe returns the reason why no slot may move and no role may change now, or "". Every shard that should have
// replicas needs one in sync. Otherwise the data that a move or a failover changes would exist on only one node.
func (c *cluster) whyNotSafe() string {
	for _, s := range c.shards {
		if len(s.owned) == 0 {
			continue
		}
		if s.master == nil {
			return fmt.Sprintf("shard %d has no master", s.ordinal)
		}
		if !c.backed(s.master) {
			return fmt.Sprintf("shard %d has no replica in sync%s", s.ordinal, c.whyNot(s))
		}
		if n := c.uncopied(s); n != nil {
			return fmt.Sprintf("%s has restarted, and %s has not copied from it since%s", s.master.Pod, n.Pod, c.whyNot(s))
		}
	}
	for _, n := range c.nodes {
		if n.Terminating && c.record.Nodes[n.Pod] != "" {
			return n.Pod + " is being stopped"
		}
	}
	return ""
}

// uncopied returns a replica that has not copied from its master since the master restarted, in a shard that should
// have no replicas any more. No slot may leave the shard: without the slot's keys, the master would have fewer keys
// than the replica, and nothing could prove any more that the master has lost no key.
func (c *cluster) uncopied(s *shard) *Node {
	if c.hasReplicas(s) || c.isUnbroken(s.master) {
		return nil
	}
	for _, n := range s.nodes {
		id := c.record.Nodes[n.Pod]
		if n != s.master && id != "" && (!n.Reached || n.ID == id && c.member(n) && n.self().Replica && !c.inStep(n)) {
			return n
		}
	}
	return nil
}

// whyNot names the problems of a shard's other pods.
func (c *cluster) whyNot(s *shard) string {
	text := ""
	for _, n := range s.nodes {
		switch {
		case n == s.master:
		case !n.Reached:
			text += ": " + n.trouble()
		case n.Replication.Syncing:
			text += ": " + n.Pod + " is copying its master's data"
		case c.member(n) && n.self().Replica && !n.Replication.LinkUp:
			text += ": " + n.Pod + " has no link to its master"
		}
	}
	return text
}

// moves returns the step that moves slots: from shards that are being removed, from shards with too many slots, and by
// the table of AssignReceive. It handles one pair of shards at a time, in ascending order. Each pass computes the
// remaining moves again. The number of moved slots is minimal.
func (c *cluster) moves() []Step {
	if steps := c.table(); steps != nil {
		return steps
	}
	for _, s := range c.shards[:min(len(c.wanted.Shards), len(c.shards))] {
		// A new shard without pods changes the shares of all others. So moves wait for its pods.
		if s.master == nil && len(s.owned) == 0 {
			return c.blocked("waits for shard %d before slots are moved%s", s.ordinal, c.whyNot(s))
		}
	}
	moves := c.nextMoves()
	if len(moves) == 0 {
		return nil
	}
	if why := c.whyNotSafe(); why != "" {
		return c.blocked("no slot is moved now: %s", why)
	}
	if len(c.functions()) > 0 {
		return c.blocked("no slot is moved now: a new master has no functions yet")
	}
	if why := c.tooLarge(); why != "" {
		c.refused = why
		return nil
	}
	for _, m := range moves {
		if m.from.Version != m.to.Version {
			// An older redis cannot read the format of a newer one. The rule of the rolling update comes after this
			// one, and makes the versions equal.
			return c.blocked("no slot is moved before %s (redis %s) and %s (redis %s) have the same version", m.from.Pod, m.from.Version, m.to.Pod, m.to.Version)
		}
	}
	for _, m := range moves {
		if steps := c.begin(m); steps != nil {
			return steps
		}
	}
	return nil
}

// slotMove holds slots that move between two masters.
type slotMove struct {
	from, to *Node
	slots    SlotSet
}

// begin returns the step of a move, without slots whose move failed a short time ago. It returns nil if no slot can move now.
func (c *cluster) begin(m slotMove) []Step {
	if !c.backed(m.to) && m.from.Shard != m.to.Shard {
		return c.blocked("no slot is moved now: shard %d has no replica in sync%s", m.to.Shard, c.whyNot(c.shards[m.to.Shard]))
	}
	held, whole := c.heldSlots(m.from.place(), m.to.place(), "")
	if slots := m.slots.Minus(held); !whole && len(slots) > 0 {
		return []Step{c.move(m.from, m.to, slots, "move")}
	}
	return nil
}

// nextMoves returns the pairs of masters between which slots move, in order. Each pair is correct independently: a later pair is used when
// an earlier pair fails.
func (c *cluster) nextMoves() []slotMove {
	var moves []slotMove
	// Slots of a second owner in a shard first move to the shard's master, which does not change the shares.
	for _, n := range c.masters() {
		if m := c.shards[n.Shard].master; m != nil && m != n {
			moves = append(moves, slotMove{n, m, c.owned[n.ID]})
		}
	}
	moves = append(moves, c.tableMoves()...)
	if len(moves) > 0 {
		return moves
	}
	target := c.targets()
	for _, giver := range c.shards {
		for _, taker := range c.shards {
			more, less := giver.owned.Len()-target[giver.ordinal], target[taker.ordinal]-taker.owned.Len()
			if more <= 0 || less <= 0 || giver.master == nil || taker.master == nil {
				continue
			}
			held, _ := c.heldSlots(giver.master.place(), taker.master.place(), "")
			slots := giver.owned.Minus(held).First(min(more, less))
			if len(slots) == 0 {
				slots = giver.owned.First(min(more, less))
			}
			moves = append(moves, slotMove{giver.master, taker.master, slots})
		}
	}
	return moves
}

// targets returns the number of slots that each shard should have. AutoReceive computes even shares: the shards with
// the most slots get the larger shares, so that few slots move. AssignReceive keeps the present numbers. It gives each
// slot of a removed shard to the shard that has the fewest slots.
func (c *cluster) targets() []int {
	target := make([]int, len(c.shards))
	stay := min(len(c.wanted.Shards), len(c.shards))
	if stay == 0 {
		for i, s := range c.shards {
			target[i] = s.owned.Len()
		}
		return target
	}
	total := 0
	order := make([]int, 0, stay)
	for i, s := range c.shards {
		total += s.owned.Len()
		if i < stay {
			order = append(order, i)
		}
	}
	if c.wanted.Assign != nil {
		return c.targetsAssigned(target, stay)
	}
	slices.SortStableFunc(order, func(a, b int) int { return c.shards[b].owned.Len() - c.shards[a].owned.Len() })
	for rank, i := range order {
		target[i] = total / stay
		if rank < total%stay {
			target[i]++
		}
	}
	return target
}

func (c *cluster) targetsAssigned(target []int, stay int) []int {
	homeless := 0
	for i, s := range c.shards {
		if i < stay {
			target[i] = s.owned.Len()
		} else {
			homeless += s.owned.Len()
		}
	}
	for ; homeless > 0; homeless-- {
		least := -1
		for i := range stay {
			// A shard without slots is new, and gets only the slots of its entry in the table.
			if target[i] > 0 && (least < 0 || target[i] < target[least]) {
				least = i
			}
		}
		target[max(least, 0)]++
	}
	return target
}

// tooLarge returns the reason why the data of removed shards does not fit into the remaining shards, or "".
func (c *cluster) tooLarge() string {
	var leaving, staying []*Node
	for _, n := range c.masters() {
		if n.Shard >= len(c.wanted.Shards) {
			leaving = append(leaving, n)
		} else {
			staying = append(staying, n)
		}
	}
	var data, slots int64
	for _, n := range leaving {
		data += n.UsedMemory
		slots += int64(c.owned[n.ID].Len())
	}
	if slots == 0 {
		return ""
	}
	target := c.targets()
	for _, n := range staying {
		more := int64(target[n.Shard] - c.owned[n.ID].Len())
		if more <= 0 || n.MaxMemory == 0 || n.Evicts {
			continue // a full cache evicts keys
		}
		if after := n.UsedMemory + data*more/slots; after > n.MaxMemory {
			return fmt.Sprintf("shards are not removed: %s would need %d MiB of its %d MiB (maxmemory) for the data of these shards; raise maxmemory, delete data, or keep the shards",
				n.Pod, after>>20, n.MaxMemory>>20)
		}
	}
	return ""
}
