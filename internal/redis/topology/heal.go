// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"time"
)

// serving returns the owners of slots and their replicas. Only the views of these members decide which slots are
// served.
func (c *cluster) serving() []*Node {
	var all []*Node
	for _, n := range c.members {
		if self := n.self(); len(self.Owned) > 0 || self.Replica && len(c.owned[self.MasterID]) > 0 && !c.leaving(n) {
			all = append(all, n)
		}
	}
	return all
}

// served returns the slots that a living master serves in the views of all serving members.
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

// unacquainted names two members that do not see each other at their present addresses, or returns "". A pair also
// counts if only one of the two members does not see the other. Empty members also count, because they are joining.
func (c *cluster) unacquainted() string {
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
		return fmt.Sprintf("%s, and other links are missing (%d in all)", first, more)
	}
	return first
}

func (n *Node) connectedTo(other *Node) bool {
	e := n.sees(other.ID)
	return e != nil && e.reaches(other)
}

func (e *Entry) reaches(other *Node) bool { return e.IsReachable() && e.IP == other.IP && e.IP != "" }

// met reports whether a node has the present address of another node, or is in a handshake with that node.
func (n *Node) met(other *Node) bool {
	for i := range n.View {
		e := &n.View[i]
		if e.ID == other.ID && !e.NoAddress && e.IP == other.IP || e.Handshake && e.IP == other.IP {
			return true
		}
	}
	return false
}

// meshLimit is the number of members up to which each member meets every other member. Above that number, all members meet the same member,
// and gossip connects the others within a few more seconds.
const meshLimit = 16

// addresses makes two members meet if one lacks the other, or has a former address of the other. If all pods restart with new addresses,
// gossip alone cannot reconnect them.
func (c *cluster) addresses() []Step {
	var batch []Step
	apart := map[*Node]bool{}
	for _, n := range c.members {
		apart[n] = c.isKeptApart(n)
	}
	hub := c.hub(apart)
	for _, x := range c.members {
		for _, y := range c.members {
			if len(c.members) > meshLimit && x != hub && y != hub {
				continue
			}
			if x == y || y.IP == "" || x.Terminating || y.Terminating || x.met(y) || c.leaving(x) || c.leaving(y) || apart[x] || apart[y] {
				continue
			}
			batch = append(batch, Step{Action: ActionMeet, Node: x.place(), Target: y.place(),
				Message: fmt.Sprintf("%s meets %s at %s", x.Pod, y.Pod, y.IP)})
		}
	}
	return together(ActionMeet, "introduce nodes that do not see each other (CLUSTER MEET)", batch)
}

// hub returns the member that all others meet: the member with the largest view, preferably an owner of slots. It never returns a member
// that is kept apart.
func (c *cluster) hub(apart map[*Node]bool) *Node {
	var hub *Node
	rank := func(n *Node) int { return min(len(c.owned[n.ID]), 1)<<16 + len(n.View) }
	for _, n := range c.members {
		if !apart[n] && (hub == nil || rank(n) > rank(hub)) {
			hub = n
		}
	}
	return hub
}

// links points replicas to the present address of their master. A replica that learns the address only by gossip stays disconnected
// forever, and `redis-cli --cluster check` reports no error. The step also lets the master accept its replicas.
func (c *cluster) links() []Step {
	var batch []Step
	for _, r := range c.members {
		master := c.byID[r.self().MasterID]
		if master == nil || !r.self().Replica || r.Replication.Master || r.Terminating ||
			r.Replication.MasterHost == master.IP && (r.Replication.LinkUp || !master.Closed) || !r.connectedTo(master) || !master.self().Master {
			continue
		}
		if c.isHeldBack(master, r) || c.isShut(master) {
			continue
		}
		text := fmt.Sprintf("point %s to its master %s at %s (it follows %s)", r.Pod, master.Pod, master.IP, r.Replication.MasterHost)
		if r.Replication.MasterHost == master.IP {
			text = fmt.Sprintf("let %s accept its replica %s, which it did not know at its restart", master.Pod, r.Pod)
		}
		batch = append(batch, Step{Action: ActionReplicate, Node: r.place(), Target: master.place(), ID: master.ID, Interval: linkInterval, Proof: sameStart(master), Message: text})
	}
	return together(ActionReplicate, "point replicas to the present address of their master", batch)
}

// agree corrects views that gossip may not correct. A node that missed a move keeps the former owner of a slot in its
// view. Gossip corrects that view if the new owner has a higher config epoch. In redis 7.0.15 (tested), but not in
// older versions, it is also enough that the former owner no longer claims the slot. So agree lets the new owner take
// the highest epoch. It does so only if both owners were reached, and the own line of each confirms the new owner.
func (c *cluster) agree() (steps []Step) {
	if len(c.disputed) > 0 || c.unacquainted() != "" {
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
				wrong = wrong.Minus(SlotSet{{slot, slot}}) // the repair of open slots corrects this entry
			}
			for _, o := range c.masters() {
				if both := wrong.Intersect(c.owned[o.ID]); len(both) > 0 && o.self().Epoch <= e.Epoch {
					steps = append(steps, Step{Action: ActionBumpEpoch, Node: o.place(), Interval: 5 * time.Second,
						Message: fmt.Sprintf("correct the view of %s: slots %s are owned by %s, not by %s", x.Pod, brief(both), o.Pod, c.byID[e.ID].Pod)})
				}
			}
		}
	}
	return steps
}

// linkInterval is the time that a replica has to connect before its link is repaired again.
const linkInterval = 5 * time.Second

// together combines several commands into one step. It returns nil for an empty batch.
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

// wait returns a step without effect. Its message names the awaited condition.
func wait(format string, args ...any) []Step {
	return []Step{{Action: ActionWait, Message: fmt.Sprintf(format, args...)}}
}
