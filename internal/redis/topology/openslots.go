// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"slices"
	"strings"
)

// openSlot is a slot that at least one member marks as migrating or importing.
type openSlot struct {
	slot      int
	owner     *Node   // nil if the owner is not reached
	migrating []*Node // members that mark the slot as migrating
	importing []*Node
}

func (c *cluster) findOpen() {
	bySlot := map[int]*openSlot{}
	get := func(slot int) *openSlot {
		if bySlot[slot] == nil {
			bySlot[slot] = &openSlot{slot: slot, owner: c.ownerOf(slot)}
		}
		return bySlot[slot]
	}
	for _, n := range c.members {
		for slot := range n.self().Migrating {
			o := get(slot)
			o.migrating = append(o.migrating, n)
		}
		for slot := range n.self().Importing {
			o := get(slot)
			o.importing = append(o.importing, n)
		}
	}
	for _, slot := range sortedKeys(bySlot) {
		c.open = append(c.open, *bySlot[slot])
	}
}

func (c *cluster) ownerOf(slot int) *Node {
	for _, n := range c.members {
		if c.owned[n.ID].Has(slot) {
			return n
		}
	}
	return nil
}

func (c *cluster) describeOpen() string {
	var all []string
	for _, o := range c.open {
		if len(all) == 8 {
			all = append(all, fmt.Sprintf("and %d more", len(c.open)-len(all)))
			break
		}
		all = append(all, fmt.Sprint(o.slot))
	}
	return strings.Join(all, ", ")
}

// openSlots repairs slots that an interrupted move left open. It begins with the lowest slot, and adds all other slots
// that need the same step. Marks are corrected immediately. Keys move only while both shards have a replica in sync. A
// slot that cannot be repaired yet is skipped: a later rule repairs the cause.
func (c *cluster) openSlots() []Step {
	var first []Step
	for _, o := range c.open {
		steps := c.due(c.repair(o))
		switch {
		case steps == nil:
		case first == nil:
			first = steps
		case sameButSlots(first[0], steps[0]):
			first[0].Slots = first[0].Slots.Union(steps[0].Slots)
		}
	}
	if first == nil || first[0].Slots.Len() == 1 {
		return first
	}
	if s := first[0]; s.Action == ActionMoveSlots && s.Mode == ModeBack {
		return []Step{c.moveBack(c.byID[s.Node.ID], c.byID[s.Target.ID], s.Slots)}
	} else if s.Action == ActionMoveSlots {
		return []Step{c.move(c.byID[s.Node.ID], c.byID[s.Target.ID], s.Slots, "finish moving")}
	}
	first[0].Message += fmt.Sprintf("; the step also changes %d more slots", first[0].Slots.Len()-1)
	return first
}

// sameButSlots reports whether two steps differ only in their slots.
func sameButSlots(a, b Step) bool {
	return a.Action == b.Action && a.Mode == b.Mode && a.ID == b.ID && a.Node == b.Node && a.Target == b.Target
}

// repair returns the step for one open slot, by this table. O is the slot's owner, T the node that the slot moves to.
//
//	O was not reached                           no step
//	O marks its own slot as importing           STABLE on O: a completed move left the mark
//	a node other than O marks it as migrating   STABLE on that node
//	O and T have marks                          continue the move
//	the move failed, or T is being removed      move the keys back to O
//	only T has a mark, O or T has keys          MIGRATING on O
//	only T has a mark, T has no keys            STABLE on T
//	T's mark names a former owner               NODE on T if T's view has another owner, then IMPORTING
//	only O has a mark, T has keys               IMPORTING on T
//	only O has a mark, T has no keys            STABLE on O
//	O's mark names an unreached node            the master of that node's shard counts as T
//	O's mark names a replica                    the master of that replica's shard counts as T
//	O's mark names O itself                     delete the copies on other masters (O has all keys), then STABLE on O
//
// The owner of a slot changes only when a move completes, and the move first checks that no key is left. NODE in this
// table names the owner that all other nodes already have in their views.
func (c *cluster) repair(o openSlot) []Step {
	if o.owner == nil {
		return nil
	}
	if n := o.leftover(); n != nil {
		return c.mark(n, o.slot, "STABLE", nil, o.owner.Pod+" owns the slot")
	}
	if o.owner.self().Migrating[o.slot] == o.owner.ID {
		return c.dropCopies(o)
	}
	if target, moving := c.targetOf(o); target != nil {
		return c.repairWith(o, target, moving)
	}
	return nil
}

// repairWith repairs an open slot whose keys are on its owner and on target. moving reports whether the owner marks the slot as migrating
// to target.
func (c *cluster) repairWith(o openSlot, target *Node, moving bool) []Step {
	// A mark without key counts proves nothing.
	ownerKeys, known := o.owner.SlotKeys[o.slot]
	targetKeys, alsoKnown := target.SlotKeys[o.slot]
	if !known || !alsoKnown {
		return nil
	}
	source, importing := target.self().Importing[o.slot]
	switch {
	case !importing && targetKeys == 0 && c.strangers(o, target) == "":
		return c.mark(o.owner, o.slot, "STABLE", nil, "no key of the slot was moved yet")
	case !moving && ownerKeys == 0 && targetKeys == 0:
		return c.mark(target, o.slot, "STABLE", nil, "no key of the slot is left to move")
	case source != o.owner.ID:
		return c.importFrom(target, o)
	case !moving || o.owner.self().Migrating[o.slot] != target.ID:
		return c.mark(o.owner, o.slot, "MIGRATING", target, "the move of the slot was interrupted")
	case !c.backed(o.owner) || !c.backed(target):
		return nil
	}
	slot := SlotSet{{o.slot, o.slot}}
	on, back := c.move(o.owner, target, slot, "finish moving"), c.moveBack(o.owner, target, slot)
	if leaves := len(c.wanted.Shards); target.Shard >= leaves && o.owner.Shard < leaves {
		return []Step{back, on}
	}
	if len(o.importing) > 1 {
		return []Step{on} // a second importer may hold keys, too
	}
	return []Step{on, back}
}

// leftover returns a node with a mark that a completed move left behind, or nil.
func (o openSlot) leftover() *Node {
	for _, n := range o.migrating {
		if n != o.owner {
			return n
		}
	}
	if slices.Contains(o.importing, o.owner) {
		return o.owner
	}
	return nil
}

// dropCopies completes the step of moveBack after the owner has all keys of the slot. Other masters may still hold
// copies of keys that clients have deleted since. If a master with copies restarts, it marks the slot as importing. So dropCopies
// checks all shards with members before the owner closes the slot.
func (c *cluster) dropCopies(o openSlot) []Step {
	holder := c.anyOther(o.owner)
	for _, s := range c.shards {
		hasMembers := slices.ContainsFunc(s.nodes, func(n *Node) bool { return c.record.Nodes[n.Pod] != "" })
		if s.master == nil && hasMembers {
			return nil
		}
		if s.master == nil || s.master == o.owner {
			continue
		}
		keys, known := s.master.SlotKeys[o.slot]
		if !known {
			return nil
		}
		if keys > 0 {
			holder = s.master
		}
	}
	if holder == nil {
		return c.mark(o.owner, o.slot, "STABLE", nil, "the owner has all keys of the slot")
	}
	return []Step{c.moveBack(o.owner, holder, SlotSet{{o.slot, o.slot}})}
}

// targetOf returns the node that a slot moves to, and whether the owner marks the slot as migrating. The target in the
// owner's mark comes first. Otherwise, it is the importer with the most keys.
func (c *cluster) targetOf(o openSlot) (target *Node, moving bool) {
	var named string
	if named, moving = o.owner.self().Migrating[o.slot]; moving {
		if n := c.byID[named]; n != nil && n.self().Master {
			return n, true
		}
		// If the marked node is not a master member, the master of its shard replaces it. If a node still imports the
		// slot, the move was restarted to that node.
		if s := c.shardOf(named); len(o.importing) == 0 && s != nil && s.master != nil && s.master != o.owner {
			return s.master, true
		}
		if len(o.importing) == 0 {
			// No view contains the named node any more. Its keys, if any, are lost.
			if c.fateOf(named) == gone && c.shardOf(named) == nil {
				return c.anyOther(o.owner), true
			}
			return nil, true
		}
	}
	for _, n := range o.importing {
		if target == nil || n.SlotKeys[o.slot] > target.SlotKeys[o.slot] {
			target = n
		}
	}
	return target, moving
}

// anyOther returns any master other than the owner. That master replaces the permanently lost node in the owner's mark.
func (c *cluster) anyOther(than *Node) *Node {
	for _, n := range c.masters() {
		if n != than {
			return n
		}
	}
	return nil
}

// strangers names masters other than the two ends that hold keys of a slot.
func (c *cluster) strangers(o openSlot, target *Node) string {
	var names []string
	for _, n := range c.members {
		if n != o.owner && n != target && n.self().Master && n.SlotKeys[o.slot] > 0 {
			names = append(names, n.Pod)
		}
	}
	return strings.Join(names, ", ")
}

// importFrom returns the step for the mark on target: target imports the slot from its present owner. A node that
// imports a slot never updates the slot's owner in its view, even if the owner is dead. So that view is corrected
// first.
func (c *cluster) importFrom(target *Node, o openSlot) []Step {
	if e := target.sees(o.owner.ID); e == nil || e.Handshake {
		return nil
	} else if !e.Owned.Has(o.slot) {
		return []Step{{Action: ActionAssignSlot, On: []Place{target.place()}, Node: target.place(), ID: o.owner.ID, Slots: SlotSet{{o.slot, o.slot}},
			Message: fmt.Sprintf("correct the view of %s: %s owns slot %d", target.Pod, o.owner.Pod, o.slot)}}
	}
	return c.mark(target, o.slot, "IMPORTING", o.owner, o.owner.Pod+" owns the slot now")
}

func (c *cluster) mark(n *Node, slot int, mode string, peer *Node, why string) []Step {
	s := Step{Action: ActionMarkSlot, Node: n.place(), Slots: SlotSet{{slot, slot}}, Mode: mode,
		Message: fmt.Sprintf("mark slot %d on %s as stable: %s", slot, n.Pod, why)}
	if peer != nil {
		direction := map[string]string{"IMPORTING": "importing from", "MIGRATING": "migrating to"}[mode]
		s.ID, s.Target = peer.ID, peer.place()
		s.Message = fmt.Sprintf("mark slot %d on %s as %s %s: %s", slot, n.Pod, direction, peer.Pod, why)
	}
	return []Step{s}
}

// move returns the step that moves slots and then updates their owner on the other masters that have the new owner in their view.
func (c *cluster) move(from, to *Node, slots SlotSet, verb string) Step {
	s := Step{Action: ActionMoveSlots, Node: from.place(), Target: to.place(), Slots: slots, Largest: c.largest(),
		Message: fmt.Sprintf("%s %d slots (%s) from %s to %s", verb, slots.Len(), brief(slots), from.Pod, to.Pod)}
	for _, n := range c.members {
		if n != from && n != to && n.self().Master && n.sees(to.ID) != nil {
			s.On = append(s.On, n.place())
		}
	}
	return s
}

// moveBack returns the step that undoes started moves.
func (c *cluster) moveBack(owner, from *Node, slots SlotSet) Step {
	s := c.move(owner, from, slots, "")
	s.Mode, s.Message = ModeBack, fmt.Sprintf("move the keys of %d slots (%s) from %s back to %s", slots.Len(), brief(slots), from.Pod, owner.Pod)
	return s
}

// backed reports whether the shard of a master has a replica in sync, or should have none.
func (c *cluster) backed(master *Node) bool {
	return !c.hasReplicas(c.shards[master.Shard]) || slices.ContainsFunc(c.replicas(master.ID), c.inStep)
}
