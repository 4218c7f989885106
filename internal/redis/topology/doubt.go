// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"time"
)

// A master that restarts on an old or emptied volume keeps its id and its slots. A replica that copies from such a master loses the same
// data. After a single write by a client, the master no longer looks empty. So rules that make a replica copy, or that delete its pod,
// check that the master has the replica's data.

// continues reports whether a master's data provably continues that of another node of its shard. One of these must hold:
//
//   - the master has not restarted since it was in step with a replica, as
//     the record shows;
//   - the node copied the history that the master has or continues (a start
//     of the server begins a new history);
//   - the master's volume was in use until the node lost its link to the master, and if the node has keys, the master has keys, too;
//   - the master has at least as many keys, because a restart on its own volume keeps the keys. This is no proof if another node has
//     received a newer epoch, or was linked after the last use of the master's volume.
//
// All conditions except the first need an answer of the node.
func (c *cluster) continues(master, holder *Node) bool {
	if !c.record.Formed || c.isUnbroken(master) {
		return true
	}
	if !holder.Reached {
		return false
	}
	has := holder.Replication.ID
	switch {
	case has != "" && (has == master.Replication.ID || has == master.Replication.FormerID), holder.Keys == 0:
		return true
	case c.newerEpoch(master) != 0 || isPutBack(master, holder):
		return false
	}
	return master.Keys >= holder.Keys || master.Keys > 0 && !master.Used.IsZero() && !holder.linkedUntil().IsZero()
}

// leastPast is the least time between the last use of a master's volume and the end of a replica's link that proves a loss. Pods write both
// times every ten seconds, and a server that no probe reaches is killed after a minute. start.sh has the same time.
const leastPast = 2 * time.Minute

// linkedUntil returns the time until which a replica had its link. It is zero if the link is up, or if nothing shows a time.
func (n *Node) linkedUntil() time.Time {
	if r := n.Replication; !r.Master && !r.LinkUp && r.LinkDown != NeverLinked {
		return n.At.Add(-r.LinkDown)
	}
	return n.Linked
}

// isPutBack reports whether storage has reset a master's volume to an earlier state that lacks data of another node in the shard. The
// proof: the node was linked to the master after the last recorded use of the volume. If replicas have copied from the master since its
// start, nothing can be proved.
func isPutBack(master, holder *Node) bool {
	return master.Closed && !master.Used.IsZero() && holder.linkedUntil().Sub(master.Used) > leastPast
}

// isShut reports whether no node may copy yet from a master that has accepted no replica since its start: a node of its shard may have data
// that the master has lost. The master cannot admit single nodes, because all nodes of a shard replicate with one user. An unreached node
// does not count if another node was linked to the end.
func (c *cluster) isShut(master *Node) bool {
	if !master.Closed || master.Used.IsZero() || len(c.owned[master.ID]) == 0 {
		return false
	}
	shut, shown := false, false
	for _, n := range c.shards[master.Shard].nodes {
		switch {
		case n == master || n.LostData || !c.wants(n) || c.holderID(n) == "":
		case c.isHeldBack(master, n):
			if shut = true; n.Reached {
				return true
			}
		case n.Reached && n.linkedUntil().Sub(master.Used).Abs() <= leastPast:
			shown = true
		}
	}
	return shut && !shown
}

// newerEpoch returns a config epoch that another node received from an owner of slots, if the owner itself has a lower epoch, or 0. A node
// stores an epoch before it sends the epoch, so storage has reset the volume of such an owner to an earlier state.
func (c *cluster) newerEpoch(master *Node) uint64 {
	if newest := c.heard[master.ID]; len(c.owned[master.ID]) > 0 && newest > master.self().Epoch {
		return newest
	}
	return 0
}

// isKeptApart reports whether no node may meet a master because its volume was reset and a node of its shard may have newer data. Otherwise
// Redis itself would make a replica copy from its master once the replica learns the master's address.
func (c *cluster) isKeptApart(master *Node) bool {
	apart := false
	for _, n := range c.shards[master.Shard].nodes {
		isPast := c.newerEpoch(master) != 0 || len(c.owned[master.ID]) > 0 && isPutBack(master, n)
		if n != master && isPast && c.wants(n) && !n.LostData && c.holderID(n) != "" && c.isHeldBack(master, n) {
			apart = true
		}
	}
	return apart
}

// isUnbroken reports whether a master has not restarted since the record, or whether its history is or continues the recorded history.
func (c *cluster) isUnbroken(master *Node) bool {
	h := c.record.Histories[master.Shard]
	if h.Node == master.ID && h.Run != "" && h.Run == master.RunID {
		return true
	}
	return h.Repl != "" && (h.Repl == master.Replication.ID || h.Repl == master.Replication.FormerID)
}

// isHeldBack reports whether a rule must not change a node because the master of its shard may have lost the node's data. It records the
// doubt. A user can give up the data of either node.
func (c *cluster) isHeldBack(master, holder *Node) bool {
	if master == nil || c.continues(master, holder) || c.isFresh(c.holderID(holder)) {
		return false
	}
	c.doubt(master, holder)
	return true
}

// holderID returns the id of a node, or the recorded id if the node was not reached.
func (c *cluster) holderID(n *Node) string {
	if n.Reached {
		return n.ID
	}
	return c.record.Nodes[n.Pod]
}

// doubt records the message that neither a restarted master nor another node of its shard provably has the right data.
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
	if newest := c.newerEpoch(master); newest != 0 {
		text = fmt.Sprintf("storage has put the volume of %s back to an earlier state: its config epoch is %d, and other nodes know %d. ",
			master.Pod, master.self().Epoch, newest) + text
	} else if isPutBack(master, holder) {
		text = fmt.Sprintf("storage has put the volume of %s back to an earlier state: it was last in use at %s, and %s had its link until %s. ",
			master.Pod, master.Used.UTC().Format(time.DateTime), holder.Pod, holder.linkedUntil().UTC().Format(time.DateTime)) + text
	}
	if holder.Reached {
		text += fmt.Sprintf("; to keep what %s has, annotate accept-data-loss: %q", holder.Pod, master.ID)
	}
	c.doubts[id] = text
}

// relinkTime limits how long replicas may take to link to their master after it starts.
const relinkTime = 30 * time.Second

// findDoubts records a doubt for each unlinked replica that has more data than its master. If the master has just started, findDoubts
// records the doubt only if this pass would link the replica to the master.
func (c *cluster) findDoubts() {
	for _, r := range c.members {
		if master := c.ofDoubt(r); master != nil && (r.Replication.MasterHost != master.IP || master.Uptime > relinkTime) {
			c.isHeldBack(master, r)
		}
	}
}

// ofDoubt returns the master of a replica if the master may have lost data of the replica, or nil.
func (c *cluster) ofDoubt(r *Node) *Node {
	self := r.self()
	master := c.byID[self.MasterID]
	if master == nil || !self.Replica || !master.self().Master || r.Replication.LinkUp && r.Replication.MasterHost == master.IP || c.continues(master, r) {
		return nil
	}
	return master
}

// isDoubted reports whether an id belongs to a restarted master, or to a node of its shard, while neither provably has the right data.
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

// emptied reports whether a master restarted without its data and kept its slots, while a replica has that data. A link between the two
// would empty the replica as well. Proof: the master started after the recorded start, and the replica copied from the recorded start until
// it ended. If the record is about an earlier master, the replica's data must continue the recorded history, and the master's history must
// differ from the replica's. Any other master without keys is legitimately empty.
func (c *cluster) emptied(master, replica *Node) bool {
	h, has, now := c.record.Histories[master.Shard], replica.Replication, master.Replication
	if !c.mayReplace(master, replica) || master.Keys > 0 || h.Run == "" || h.Repl == "" || !c.stayedUntil(replica, master.Uptime) {
		return false
	}
	if h.Node == master.ID {
		return h.Run != master.RunID && h.Repl == has.ID
	}
	return h.Repl == has.FormerID && h.Repl != now.ID && h.Repl != now.FormerID && has.ID != now.ID && has.ID != now.FormerID
}

// mayReplace reports whether a replica with data can replace a restarted master that is reached.
func (c *cluster) mayReplace(master, replica *Node) bool {
	return c.record.Formed && replica.Keys > 0 && len(c.owned[master.ID]) > 0 && !replica.Terminating &&
		!replica.Replication.LinkUp && !replica.Replication.Syncing
}
