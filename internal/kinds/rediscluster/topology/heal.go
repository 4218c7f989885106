// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"time"
)

// serving are the members whose word counts on what is served: owners of slots and their replicas.
func (c *cluster) serving() []*Node {
	var all []*Node
	for _, n := range c.members {
		if self := n.self(); len(self.Owned) > 0 || self.Replica && len(c.owned[self.MasterID]) > 0 && !c.leaving(n) {
			all = append(all, n)
		}
	}
	return all
}

// served returns the slots that all serving members agree are served by a living master.
func (c *cluster) served() SlotSet {
	views := c.serving()
	if len(views) == 0 {
		return nil
	}
	served := AllSlots()
	for _, n := range views {
		var agreed []Range
		for i := range n.View {
			e := &n.View[i]
			owner := c.byID[e.ID]
			if len(e.Owned) == 0 || !e.Myself && !e.IsReachable() || owner != nil && !owner.StateOK {
				continue
			}
			agreed = append(agreed, e.Owned.Intersect(c.owned[e.ID])...)
		}
		served = served.Intersect(NewSlotSet(agreed...))
	}
	return served
}

// apart names two members of which one does not see the other where it is, or is empty. Members that
// are still empty count too: they are joining.
func (c *cluster) apart() string {
	first, more := "", 0
	for _, x := range c.members {
		for _, y := range c.unseen(x, (*Entry).reaches) {
			if c.leaving(x) || c.leaving(y) {
				continue
			}
			if more++; first == "" {
				first = fmt.Sprintf("%s does not see %s at %s", x.Pod, y.Pod, y.IP)
			}
		}
	}
	if more > 1 {
		return fmt.Sprintf("%s, nor do others (%d links are missing)", first, more)
	}
	return first
}

func (n *Node) connectedTo(other *Node) bool {
	e := n.sees(other.ID)
	return e != nil && e.reaches(other)
}

func (e *Entry) reaches(other *Node) bool { return e.IsReachable() && e.IP == other.IP && e.IP != "" }

// met reports whether a node has, or is just getting, another one's present address.
func (n *Node) met(other *Node) bool {
	for i := range n.View {
		e := &n.View[i]
		if e.ID == other.ID && !e.NoAddress && e.IP == other.IP || e.Handshake && e.IP == other.IP {
			return true
		}
	}
	return false
}

// meshLimit is the number of members up to which each one meets each other one. Above it they all meet
// one, and gossip does the rest in a few seconds more.
const meshLimit = 16

// addresses has members meet that do not know each other, or know each other at an address of the past.
// After all pods came back with new addresses nobody else would tell them.
func (c *cluster) addresses() []Step {
	var batch []Step
	hub := c.hub()
	for _, x := range c.members {
		for _, y := range c.members {
			if len(c.members) > meshLimit && x != hub && y != hub {
				continue
			}
			if x == y || y.IP == "" || x.Terminating || y.Terminating || x.met(y) || c.leaving(x) || c.leaving(y) {
				continue
			}
			batch = append(batch, Step{Action: ActionMeet, Node: x.place(), Target: y.place(),
				Message: fmt.Sprintf("%s meets %s at %s", x.Pod, y.Pod, y.IP)})
		}
	}
	return together(ActionMeet, "have nodes meet that do not see each other", batch)
}

// hub is the member that all others meet: one that owns slots and knows the most others.
func (c *cluster) hub() *Node {
	var hub *Node
	rank := func(n *Node) int { return min(len(c.owned[n.ID]), 1)<<16 + len(n.View) }
	for _, n := range c.members {
		if hub == nil || rank(n) > rank(hub) {
			hub = n
		}
	}
	return hub
}

// links points replicas to the present address of their master. An address that is learned by gossip
// does not do that: such a replica stays cut off for good, and redis-cli finds nothing wrong with it.
func (c *cluster) links() []Step {
	var batch []Step
	for _, r := range c.members {
		master := c.byID[r.self().MasterID]
		if master == nil || !r.self().Replica || r.Replication.Master || r.Terminating ||
			r.Replication.MasterHost == master.IP || !r.connectedTo(master) || !master.self().Master {
			continue
		}
		if c.isHeldBack(master, r) {
			continue
		}
		batch = append(batch, Step{Action: ActionReplicate, Node: r.place(), Target: master.place(), ID: master.ID, Interval: linkInterval, Proof: sameStart(master),
			Message: fmt.Sprintf("point %s to its master %s at %s (it follows %s)", r.Pod, master.Pod, master.IP, r.Replication.MasterHost)})
	}
	return together(ActionReplicate, "point replicas to the present address of their master", batch)
}

// agree mends views that gossip may not. A node that has missed a move goes on naming the former owner.
// It believes the new one by a higher config epoch. That the former one does not claim the slot any
// more is enough for redis 7.0.15 (tried), and not for older ones. So the owner takes the highest epoch.
// Both are reached: the one says by its own word that the slot is its, the other that it is not.
func (c *cluster) agree() []Step {
	if len(c.disputed) > 0 || c.apart() != "" {
		return nil
	}
	for _, x := range c.members {
		for i := range x.View {
			e := &x.View[i]
			if len(e.Owned) == 0 || e.Myself || c.byID[e.ID] == nil {
				continue
			}
			wrong := e.Owned.Minus(c.owned[e.ID])
			if len(wrong) == 0 {
				continue
			}
			for _, slot := range sortedKeys(x.self().Importing) {
				wrong = wrong.Minus(SlotSet{{slot, slot}}) // the repair of open slots tells it
			}
			for _, o := range c.masters() {
				if both := wrong.Intersect(c.owned[o.ID]); len(both) > 0 && o.self().Epoch <= e.Epoch {
					return []Step{{Action: ActionBumpEpoch, Node: o.place(), Interval: 5 * time.Second,
						Message: fmt.Sprintf("have %s believe that slots %s are %s's and not %s's", x.Pod, brief(both), o.Pod, c.byID[e.ID].Pod)}}
				}
			}
		}
	}
	return nil
}

// linkInterval leaves a replica time to connect.
const linkInterval = 5 * time.Second

// together makes one step of several commands, or none of none.
func together(action Action, message string, batch []Step) []Step {
	switch len(batch) {
	case 0:
		return nil
	case 1:
		return batch
	default:
		return []Step{{Action: action, Message: fmt.Sprintf("%s: %s, and %d more", message, batch[0].Message, len(batch)-1), Batch: batch}}
	}
}

// wait is a step that only says what is waited for.
func wait(format string, args ...any) []Step {
	return []Step{{Action: ActionWait, Message: fmt.Sprintf(format, args...)}}
}
