// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"time"
)

// A master that starts on a volume of the past, or on one that was emptied, keeps its id and its slots. A replica that copies
// from it loses what the master has lost. A client's write hides that such a master is empty. So rules that have a replica
// copy, or that delete what a replica runs in, ask whether the master has what the replica has.

// continues reports whether a master's data is shown to be the continuation of what another node of its shard holds. It is, if
//
//   - the master has not restarted since it was in step with a replica, as the record shows; or
//   - the node copied the history that the master has or continues. A start of the server begins a new history; or
//   - the master has at least as many keys. A restart on its own volume leaves them.
//
// The second and third need an answer of the node.
func (c *cluster) continues(master, holder *Node) bool {
	if !c.record.Formed || c.isUnbroken(master) {
		return true
	}
	if !holder.Reached {
		return false
	}
	has := holder.Replication.ID
	return has != "" && (has == master.Replication.ID || has == master.Replication.FormerID) || master.Keys >= holder.Keys
}

// isUnbroken reports whether a master runs since the recorded start, or has the recorded history, or continues it.
func (c *cluster) isUnbroken(master *Node) bool {
	h := c.record.Histories[master.Shard]
	if h.Node == master.ID && h.Run != "" && h.Run == master.RunID {
		return true
	}
	return h.Repl != "" && (h.Repl == master.Replication.ID || h.Repl == master.Replication.FormerID)
}

// isHeldBack reports whether a rule has to leave a node as it is, because the master of its shard may have lost what the node
// holds. It notes that. A person can give up the data of either.
func (c *cluster) isHeldBack(master, holder *Node) bool {
	if master == nil || c.continues(master, holder) || c.isFresh(c.holderID(holder)) {
		return false
	}
	c.doubt(master, holder)
	return true
}

// holderID returns the id of a node, the recorded one if it was not reached.
func (c *cluster) holderID(n *Node) string {
	if n.Reached {
		return n.ID
	}
	return c.record.Nodes[n.Pod]
}

// doubt notes that nothing shows what a restarted master and another node of its shard are worth.
func (c *cluster) doubt(master, holder *Node) {
	if c.doubts == nil {
		c.doubts = map[string]string{}
	}
	id := c.holderID(holder)
	if c.doubts[id] != "" {
		return
	}
	has := fmt.Sprintf("%d", holder.Keys)
	if !holder.Reached {
		has = "an unknown number"
	}
	text := fmt.Sprintf("%s has %d keys since it restarted, and its replica %s has %s: nothing shows that %s has not lost them. "+
		"%s is left as it is, and its pod stays. If what %s has is right, annotate accept-data-loss: %q",
		master.Pod, master.Keys, holder.Pod, has, master.Pod, holder.Pod, master.Pod, id)
	if holder.Reached {
		text += fmt.Sprintf("; to keep what %s has, annotate accept-data-loss: %q", holder.Pod, master.ID)
	}
	c.doubts[id] = text
}

// relinkTime is how long after a start of a master its replicas have been linked to it again, if nothing hinders that.
const relinkTime = 30 * time.Second

// findDoubts notes the masters of which a replica that has no link holds more, or that this pass would point it to.
func (c *cluster) findDoubts() {
	for _, r := range c.members {
		if master := c.ofDoubt(r); master != nil && (r.Replication.MasterHost != master.IP || master.Uptime > relinkTime) {
			c.isHeldBack(master, r)
		}
	}
}

// ofDoubt returns the master of a replica that may have lost what the replica has; nil if there is none.
func (c *cluster) ofDoubt(r *Node) *Node {
	self := r.self()
	master := c.byID[self.MasterID]
	if master == nil || !self.Replica || !master.self().Master || r.Replication.LinkUp && r.Replication.MasterHost == master.IP || c.continues(master, r) {
		return nil
	}
	return master
}

// isDoubted reports whether an id is that of a restarted master, or of a node of its shard, of which nothing shows what it is worth.
func (c *cluster) isDoubted(id string) bool {
	for _, n := range c.nodes {
		if n.Reached {
			if master := c.ofDoubt(n); c.member(n) && master != nil && (id == master.ID || id == n.ID) {
				return true
			}
		} else if master := c.shards[n.Shard].master; id == c.record.Nodes[n.Pod] && master != nil && !c.continues(master, n) {
			return true
		}
	}
	return false
}

// emptied reports whether a master restarted without its data and kept its slots, while a replica has that data. A link
// between the two would empty the replica as well. What shows it: the master runs since a later start than the recorded
// one, and the replica copied from the start before until that one ended. A master that has no keys otherwise is empty by right.
func (c *cluster) emptied(master, replica *Node) bool {
	h := c.record.Histories[master.Shard]
	return c.mayReplace(master, replica) && master.Keys == 0 && h.Node == master.ID && h.Run != "" && h.Run != master.RunID &&
		h.Repl == replica.Replication.ID && c.stayedUntil(replica, master.Uptime)
}

// mayReplace reports whether a replica with data can be made master in place of a restarted one that is reached.
func (c *cluster) mayReplace(master, replica *Node) bool {
	return c.record.Formed && replica.Keys > 0 && len(c.owned[master.ID]) > 0 && !replica.Terminating &&
		!replica.Replication.LinkUp && !replica.Replication.Syncing
}
