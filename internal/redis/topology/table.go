// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"slices"
)

// table creates the table of AssignReceive, or removes a completed one.
//
// The i-th entry belongs to the i-th new shard. A new shard has no slots. Either all entries are valid, or none is
// applied: if only some were applied, the entries would no longer match the shards that are still new.
func (c *cluster) table() []Step {
	if t := c.record.Table; t != nil {
		for _, ordinal := range sortedKeys(t.Targets) {
			if c.wanted.Assign != nil && ordinal < len(c.wanted.Shards) && len(t.Targets[ordinal].Minus(c.shards[ordinal].owned)) > 0 {
				return nil
			}
		}
		record := c.copyRecord()
		record.Table = nil
		return []Step{recordStep(record, "record that the slots of assignStrategies were moved")}
	}
	if c.wanted.Assign == nil {
		return nil
	}
	var fresh []int
	for _, s := range c.shards[:min(len(c.wanted.Shards), len(c.shards))] {
		if len(s.owned) > 0 {
			continue
		}
		if s.master == nil || !c.backed(s.master) {
			return c.blocked("waits for shard %d before slots are assigned%s", s.ordinal, c.whyNot(s))
		}
		fresh = append(fresh, s.ordinal)
	}
	if len(fresh) == 0 {
		return nil
	}
	targets, err := c.assign(fresh)
	if err != nil {
		c.refused = fmt.Sprintf("no slot is moved to the new shards: %s", err)
		return nil
	}
	record := c.copyRecord()
	record.Table = &Table{Generation: c.wanted.Generation, Targets: targets}
	return []Step{recordStep(record, "record which slots go to the new shards %v", fresh)}
}

// assign computes the slots of each new shard. Several sources give slots in proportion to their numbers of slots, the
// largest source first. A source gives its lowest slots first.
func (c *cluster) assign(fresh []int) (map[int]SlotSet, error) {
	if len(c.wanted.Assign) != len(fresh) {
		return nil, fmt.Errorf("assignStrategies has %d entries, but %d shards are new (%v): give one entry for each new shard",
			len(c.wanted.Assign), len(fresh), fresh)
	}
	left := map[int]SlotSet{}
	for _, s := range c.shards {
		left[s.ordinal] = s.owned
	}
	targets := map[int]SlotSet{}
	for i, entry := range c.wanted.Assign {
		sources, total, err := c.sources(entry, left)
		if err != nil {
			return nil, fmt.Errorf("assignStrategies[%d]: %w", i, err)
		}
		if entry.Slots < 1 || entry.Slots > total {
			return nil, fmt.Errorf("assignStrategies[%d]: slots is %d, but must be from 1 to %d, the number of slots that fromReplicas own", i, entry.Slots, total)
		}
		slices.SortStableFunc(sources, func(a, b int) int { return left[b].Len() - left[a].Len() })
		for rest, of := entry.Slots, total; len(sources) > 0; sources = sources[1:] {
			// The share is rounded up. So the first sources give the remainder, and the last source gives what is left.
			has := left[sources[0]].Len()
			share := (rest*has + of - 1) / of
			give := left[sources[0]].First(share)
			targets[fresh[i]] = targets[fresh[i]].Union(give)
			left[sources[0]] = left[sources[0]].Minus(give)
			rest, of = rest-share, of-has
		}
	}
	for _, s := range c.shards[:len(c.wanted.Shards)] {
		if len(s.owned) > 0 && len(left[s.ordinal]) == 0 {
			return nil, fmt.Errorf("shard %d would be left without slots: leave at least one slot to it", s.ordinal)
		}
	}
	return targets, nil
}

// sources returns the shards that an entry names, by node id or pod name of their masters.
func (c *cluster) sources(entry Assignment, left map[int]SlotSet) (sources []int, total int, err error) {
	for _, name := range entry.From {
		n := c.byID[name]
		if n == nil {
			n = c.pods[name]
		}
		switch {
		case n == nil || !c.member(n):
			return nil, 0, fmt.Errorf("fromReplicas names %q, which is neither a node ID nor a pod of this cluster", name)
		case n.self().Replica:
			of := n.self().MasterID
			if m := c.byID[of]; m != nil {
				of = m.Pod + " or " + of
			}
			return nil, 0, fmt.Errorf("fromReplicas names %q, which is a replica: name its master, %s", name, of)
		case slices.Contains(sources, n.Shard):
			return nil, 0, fmt.Errorf("fromReplicas names shard %d twice", n.Shard)
		case len(left[n.Shard]) == 0:
			return nil, 0, fmt.Errorf("fromReplicas names %q, which owns no slots", name)
		}
		sources = append(sources, n.Shard)
		total += left[n.Shard].Len()
	}
	if len(sources) == 0 {
		return nil, 0, fmt.Errorf("fromReplicas is empty: name the masters that give slots")
	}
	return sources, total, nil
}

// tableMoves returns the pairs of masters between which the table moves slots.
func (c *cluster) tableMoves() (moves []slotMove) {
	t := c.record.Table
	if t == nil || c.wanted.Assign == nil {
		return nil
	}
	for _, ordinal := range sortedKeys(t.Targets) {
		if ordinal >= len(c.wanted.Shards) || c.shards[ordinal].master == nil {
			continue
		}
		for _, s := range c.shards {
			if slots := s.owned.Intersect(t.Targets[ordinal]); len(slots) > 0 && s.ordinal != ordinal && s.master != nil {
				moves = append(moves, slotMove{s.master, c.shards[ordinal].master, slots})
			}
		}
	}
	return moves
}
