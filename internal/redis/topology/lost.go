// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"slices"
	"strings"
)

// consent makes lost slots available again, without their data, after a user accepted the loss. No other rule
// re-assigns lost slots.
//
//  1. Record the consent, and remove the lost node from the members.
//  2. Make a replica the master, with the keys that it has. Without a replica,
//     all members forget the lost node.
//  3. Assign the slots that have no owner after step 2 to a master.
//  4. Record that the consent is used.
func (c *cluster) consent() []Step {
	record := c.copyRecord()
	lost := c.unowned
	var given []string
	for _, id := range sortedKeys(c.owned) {
		if c.byID[id] != nil || c.candidate(id) != nil || c.fateOf(id) == away {
			continue
		}
		values := c.consentFor(id, c.owned[id])
		if len(values) == 0 && len(c.owned[id].Minus(record.Accepted)) > 0 {
			continue
		}
		record.accept(values, c.owned[id])
		if given = append(given, id); !slices.Contains(record.GivenUp, id) {
			record.GivenUp = append(record.GivenUp, id)
			record.GivenUp = record.GivenUp[max(0, len(record.GivenUp)-mostGivenUp):]
		}
		delete(record.Nodes, c.podOf[id])
	}
	for _, value := range c.wanted.Consent {
		if set, err := ParseSlotSet(value); err == nil && !slices.Contains(c.record.Consents, value) && len(set.Intersect(lost)) > 0 {
			record.accept([]string{value}, set.Intersect(lost))
		}
	}
	if len(record.Consents) > len(c.record.Consents) || len(record.Accepted) > 0 && len(record.Nodes) < len(c.record.Nodes) {
		return []Step{recordStep(record, "record that the loss of slots %s was accepted", brief(record.Accepted))}
	}
	return c.replaceLost(given)
}

// replaceLost reassigns the slots of nodes whose loss was accepted.
func (c *cluster) replaceLost(given []string) (steps []Step) {
	for _, id := range given {
		heir := c.remnant(id)
		if all := c.replicas(id); heir == nil && len(all) > 0 {
			heir = all[0]
		}
		if heir != nil {
			steps = append(steps, c.force(heir, "TAKEOVER", 0, fmt.Sprintf("make %s the master of slots %s with the %d keys that it has: the loss of these slots was accepted",
				heir.Pod, brief(c.owned[id]), heir.Keys)))
		} else if knowing := c.knowing(id); len(knowing) > 0 {
			steps = append(steps, Step{Action: ActionForget, ID: id, On: places(knowing), Mode: ModeConsent,
				Message: fmt.Sprintf("forget node %s, whose loss was accepted", id)})
		}
	}
	for _, id := range sortedKeys(c.owned) {
		if c.byID[id] == nil && c.fateOf(id) == away {
			return steps // the node may own more slots than the views show
		}
	}
	if to, slots := c.receiverOfLost(c.unowned.Intersect(c.record.Accepted)); to != nil {
		steps = append(steps, Step{Action: ActionAddSlots, Node: to.place(), Slots: slots,
			Message: fmt.Sprintf("assign slots %s to %s: the loss of these slots was accepted", brief(slots), to.Pod)})
	}
	return steps
}

// isEmptied reports whether every wanted pod was reached, and is an empty node that the record does not contain.
func (c *cluster) isEmptied() bool {
	return len(c.nodes) > 0 && !slices.ContainsFunc(c.nodes, func(n *Node) bool { return c.wants(n) && (!n.Reached || !c.joinable(n)) })
}

// isLostWhole reports whether no recorded node was reached, and the user has not accepted the loss of all slots. Until then, the record keeps
// its nodes: if the former volumes return, their nodes are members again.
func (c *cluster) isLostWhole() bool {
	if len(c.members) > 0 || !c.record.Formed {
		return false
	}
	accepted := c.record.Accepted
	for _, value := range c.wanted.Consent {
		if set, err := ParseSlotSet(value); err == nil && c.isFresh(value) {
			accepted = accepted.Union(set)
		}
	}
	return len(AllSlots().Minus(accepted)) > 0
}

// usedConsents marks a consent as used if it names a member whose data is not in doubt, so that the consent covers no later loss.
func (c *cluster) usedConsents() []Step {
	record := c.copyRecord()
	for _, value := range c.wanted.Consent {
		if c.byID[value] != nil && c.isFresh(value) && !c.isPending(value) {
			record.accept([]string{value}, nil)
		}
	}
	if len(record.Consents) == len(c.record.Consents) {
		return nil
	}
	return []Step{recordStep(record, "record which values of accept-data-loss were used")}
}

// mostGivenUp limits the number of ids in Record.GivenUp.
const mostGivenUp = 64

// isFresh reports whether the annotation has a value that was not used yet.
func (c *cluster) isFresh(value string) bool {
	return slices.Contains(c.wanted.Consent, value) && !slices.Contains(c.record.Consents, value)
}

// consentFor returns the unused values of the annotation that together cover a lost node: its id, or ranges that contain all its slots.
func (c *cluster) consentFor(id string, owned SlotSet) []string {
	if c.isFresh(id) {
		return []string{id}
	}
	var values []string
	var covered SlotSet
	for _, value := range c.wanted.Consent {
		if set, err := ParseSlotSet(value); err == nil && c.isFresh(value) && len(set.Intersect(owned)) > 0 {
			values, covered = append(values, value), covered.Union(set)
		}
	}
	if len(owned.Minus(covered)) > 0 {
		return nil
	}
	return values
}

// isPending reports whether a value of the annotation names lost slots, a lost node, or a node whose data can be given up. Any other value
// counts as used: it must not cover a later loss.
func (c *cluster) isPending(value string) bool {
	if id, isKept := strings.CutPrefix(value, keepPrefix); isKept {
		m := c.byID[id]
		return m != nil && c.isPast(m) != ""
	}
	set, err := ParseSlotSet(value)
	if err != nil {
		return len(c.owned[value]) > 0 && c.byID[value] == nil || c.isDoubted(value) ||
			slices.ContainsFunc(c.nodes, func(n *Node) bool { return n.Reached && n.ID == value && !c.member(n) })
	}
	lost := c.unowned
	for id, slots := range c.owned {
		if c.byID[id] == nil {
			lost = lost.Union(slots)
		}
	}
	return len(set.Intersect(lost)) > 0
}

// receiverOfLost returns the master that gets lost slots, and these slots. It prefers the master with the fewest slots. A shard that
// is being removed is chosen only if no other shard can be chosen. A master gets only slots without an owner in its own view,
// because Redis refuses the others.
func (c *cluster) receiverOfLost(lost SlotSet) (best *Node, slots SlotSet) {
	for _, s := range c.shards {
		if s.master == nil || best != nil && s.ordinal >= len(c.wanted.Shards) {
			continue
		}
		free := lost
		for _, e := range s.master.View {
			free = free.Minus(e.Owned)
		}
		if len(free) > 0 && (best == nil || c.owned[s.master.ID].Len() < c.owned[best.ID].Len()) {
			best, slots = s.master, free
		}
	}
	return best, slots
}

// knowing returns the members whose views contain a node.
func (c *cluster) knowing(id string) []*Node {
	var all []*Node
	if c.byID[id] == nil {
		for _, s := range c.sightings[id] {
			if !s.entry.Handshake {
				all = append(all, s.by)
			}
		}
		return all
	}
	for _, m := range c.members {
		if e := m.sees(id); m.ID != id && e != nil && !e.Handshake {
			all = append(all, m)
		}
	}
	return all
}

// ghosts makes members forget nodes that are lost permanently. A node is lost permanently if no pod has the node's data, the node
// owns no slot in any view, and no member follows the node.
func (c *cluster) ghosts() []Step {
	var batch []Step
	for _, id := range sortedKeys(c.sightings) {
		if on := c.knowing(id); len(on) > 0 && c.fateOf(id) == gone && c.harmless(id) {
			batch = append(batch, Step{Action: ActionForget, ID: id, On: places(on),
				Message: fmt.Sprintf("forget node %s, which is gone and owns no slots", id)})
		}
	}
	return together(ActionForget, "forget nodes that are gone", batch)
}

// harmless reports whether a node owns no slot in any view and has no replica.
func (c *cluster) harmless(id string) bool {
	if c.followers(id) > 0 {
		return false
	}
	for _, m := range c.members {
		if e := m.sees(id); e != nil && len(e.Owned) > 0 {
			return false
		}
		for _, other := range m.View {
			if other.MasterID == id && c.byID[other.ID] == nil && c.fateOf(other.ID) != gone {
				return false
			}
		}
	}
	return true
}

// ownersOf returns the members that own the given slots, or nil if a slot has no such owner.
func (c *cluster) ownersOf(slots SlotSet) []*Node {
	var on []*Node
	rest := slots
	for _, m := range c.masters() {
		if own := m.self().Owned; len(own.Intersect(slots)) > 0 {
			on, rest = append(on, m), rest.Minus(own)
		}
	}
	if len(rest) > 0 {
		return nil
	}
	return on
}

// resetStale resets a node outside the cluster if the node is empty, or if all its keys are copies of a member's keys.
func (c *cluster) resetStale(n *Node) []Step {
	self := n.self()
	if self.Master && len(self.Owned) == 0 && n.Keys == 0 {
		return []Step{{Action: ActionReset, Node: n.place(), On: places(c.masters()), Message: fmt.Sprintf("reset %s, which is empty and has former nodes in its view", n.Pod)}}
	}
	master := c.byID[self.MasterID]
	if !self.Replica || master == nil || !c.stale(n) || c.isHeldBack(master, n) {
		return nil
	}
	return []Step{{Action: ActionReset, Node: n.place(), Mode: ModeStale, On: places(c.masters()), Target: master.place(), Proof: sameStart(master),
		Message: fmt.Sprintf("reset %s, a former replica of %s that was removed", n.Pod, master.Pod)}}
}

// outsiders handles reached pods outside the cluster whose node has keys, or other nodes in its view. Such a node was
// removed while it was down, or a user gave up its data, or its volume belongs to another cluster. outsiders resets a
// node without keys, and a replica of a member, because the replica's keys are copies. outsiders empties any other node
// only with a user's consent.
func (c *cluster) outsiders() (steps []Step) {
	for _, n := range c.nodes {
		if !n.Reached || c.member(n) || n.Terminating || !c.needs(n) || c.joinable(n) {
			continue
		}
		if reset := c.resetStale(n); reset != nil {
			steps = append(steps, reset...)
			continue
		}
		if slots := n.self().Owned; len(slots) > 0 && c.isReplaced(n) {
			if on := c.ownersOf(slots); on != nil {
				steps = append(steps, Step{Action: ActionDropSlots, Node: n.place(), On: places(on), Slots: slots, Message: fmt.Sprintf("have %s drop slots %s: its data was given up, and other nodes own the slots",
					n.Pod, brief(slots))})
				continue
			}
		}
		if !c.isFresh(n.ID) {
			again := ""
			if slices.Contains(c.wanted.Consent, n.ID) {
				again = " (the annotation's present value was used already: remove the annotation first)"
			}
			c.note("%s is node %s with %d keys, which is not of this cluster: remove its volume, or annotate accept-data-loss: %q to empty it%s",
				n.Pod, n.ID, n.Keys, n.ID, again)
			continue
		}
		if n.self().Master && n.Keys > 0 {
			steps = append(steps, Step{Action: ActionFlush, Node: n.place(), Mode: ModeConsent, Message: "empty " + n.Pod + ", whose data was given up"})
			continue
		}
		steps = append(steps, Step{Action: ActionReset, Node: n.place(), Mode: ModeConsent, Message: "reset " + n.Pod + ", whose data was given up"})
	}
	return steps
}
