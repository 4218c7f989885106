// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"time"
)

// A master that restarts on an old or empty volume keeps its id and its slots. A replica that copies from such a master
// loses the same data. After a single write by a client, the master no longer looks empty. So a rule first checks that
// the master has the replica's data, before it makes the replica copy or deletes the replica's pod.

// continues reports whether a master provably has the data of another node of its shard (the holder), or more. One of
// these must hold:
//
//   - the master has not restarted since it was in sync with a replica, as the record shows;
//   - the holder has no keys;
//   - the holder copied the present history of the master or the history before it (a start of the server begins a new
//     history);
//   - the master has keys, and the holder has noted a mark of the master's volume;
//   - the master has at least as many keys, because a restart on its own volume keeps the keys.
//
// The last two conditions prove nothing if another node has received a newer epoch, or has noted a later mark of the volume. All conditions
// except the first need an answer of the holder.
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
	case c.newerEpoch(master) != 0 || c.witness(master) != nil:
		return false
	}
	return master.Keys >= holder.Keys || master.Keys > 0 && !master.Used.IsZero() && !holder.Seen[master.ID].IsZero()
}

// witness returns the member that has noted the latest mark of a master's volume, if that mark is later than the volume's
// own last mark; otherwise nil. Such a note proves that storage has reset the volume to an earlier state: a master shows a
// mark only after its disk has it (alive.sh). The member is the replica, or another master. For a master from which
// replicas have copied since its start, witness returns nil, because a note proves nothing then.
func (c *cluster) witness(master *Node) (latest *Node) {
	if !master.Closed || master.Used.IsZero() || len(c.owned[master.ID]) == 0 {
		return nil
	}
	for _, n := range c.members {
		if seen := n.Seen[master.ID]; seen.After(master.Used) && (latest == nil || seen.After(latest.Seen[master.ID])) {
			latest = n
		}
	}
	return latest
}

// lastMarks is the maximum difference between the last mark of a master's volume and the mark that a replica has noted, if
// the replica was linked until the master ended. Servers make and note marks every ten seconds. start.sh has the same
// value.
const lastMarks = 30 * time.Second

// wasLinked reports whether a node was linked to a master until the master's end: it has noted one of the last marks of the master's volume.
func wasLinked(n, master *Node) bool {
	seen := n.Seen[master.ID]
	return n.Reached && !seen.IsZero() && master.Used.Sub(seen).Abs() <= lastMarks
}

// isPast describes a master whose volume was reset, and the options of the user. It returns "" if no later mark proves
// a reset, or if another node of the shard may have the data.
func (c *cluster) isPast(master *Node) string {
	witness := c.witness(master)
	if witness == nil {
		return ""
	}
	for _, n := range c.shards[master.Shard].nodes {
		if n != master && c.holderID(n) != "" && (!n.Reached || n.Keys > 0) {
			return "" // see isHeldBack
		}
	}
	return fmt.Sprintf("slots %s: storage has put the volume of %s back to an earlier state: it was last in use at %s, and %s has seen it in use at %s. "+
		"No other pod has the newer data: restore the newer volume and delete the pod, or annotate accept-data-loss: %q to go on with the %d keys of %s",
		brief(c.owned[master.ID]), master.Pod, date(master.Used), witness.Pod, date(witness.Seen[master.ID]), keeps(master.ID), master.Keys, master.Pod)
}

// keepPrefix is the beginning of a consent to go on with the old data of a node. The id of the node alone gives up all data of a node
// that does not run, so it must not have this second meaning.
const keepPrefix = "keep:"

func keeps(id string) string { return keepPrefix + id }

// whyPast describes all masters whose volumes were reset, unless the user has accepted the loss.
func (c *cluster) whyPast() (all []string) {
	for _, m := range c.masters() {
		if reason := c.isPast(m); reason != "" && !c.isFresh(keeps(m.ID)) {
			all = append(all, reason)
		}
	}
	return all
}

// acceptPast lets replicas copy from masters whose volumes were reset, after the user has accepted the loss.
func (c *cluster) acceptPast() (steps []Step) {
	for _, m := range c.masters() {
		if c.isPast(m) != "" && c.isFresh(keeps(m.ID)) {
			steps = append(steps, Step{Action: ActionAdmit, Node: m.place(), Target: m.place(), Proof: sameStart(m), Interval: linkInterval,
				Message: fmt.Sprintf("go on with the %d keys of %s: the loss of its newer data was accepted", m.Keys, m.Pod)})
		}
	}
	return steps
}

func date(t time.Time) string { return t.UTC().Format(time.DateTime) }

// isShut reports whether no node may copy from a master yet. The master has accepted no replica since its start, and a
// node of its shard may have data that the master has lost. The master cannot admit single nodes, because all nodes of
// a shard replicate with one user. An unreached node does not count if a reached node has noted one of the last marks.
func (c *cluster) isShut(master *Node) bool {
	if !master.Closed || master.Used.IsZero() || len(c.owned[master.ID]) == 0 {
		return false
	}
	if c.isPast(master) != "" {
		return true
	}
	shut, shown := false, false
	for _, n := range c.shards[master.Shard].nodes {
		switch {
		case n == master || n.LostData || !c.wants(n) || c.holderID(n) == "":
		case c.isHeldBack(master, n):
			if shut = true; n.Reached {
				return true
			}
		case wasLinked(n, master):
			shown = true
		}
	}
	return shut && !shown
}

// newerEpoch returns the config epoch of a master as other nodes have received it, if the master's own epoch is lower.
// Otherwise it returns 0. A node stores an epoch before it sends the epoch. So a lower own epoch proves that storage
// has reset the node's volume.
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
		isPast := c.newerEpoch(master) != 0 || c.witness(master) != nil
		if n != master && isPast && c.wants(n) && !n.LostData && c.holderID(n) != "" && c.isHeldBack(master, n) {
			apart = true
		}
	}
	return apart
}

// isUnbroken reports whether a master certainly has the recorded data of its shard. It has not restarted since the
// record was written, or its history is the recorded one or continues it.
func (c *cluster) isUnbroken(master *Node) bool {
	h := c.record.Histories[master.Shard]
	if h.Node == master.ID && h.Run != "" && h.Run == master.RunID {
		return true
	}
	return h.Repl != "" && (h.Repl == master.Replication.ID || h.Repl == master.Replication.FormerID)
}

// isHeldBack reports whether a rule must not change the holder, because the master of its shard may have lost the
// holder's data. If so, isHeldBack records the doubt for the user, who can give up the data of either node.
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

// doubt records the message to the user that the master may have lost data of the holder, and that only the user can
// choose between the master's and the holder's data.
func (c *cluster) doubt(master, holder *Node) {
	if c.doubts == nil {
		c.doubts = map[string]string{}
	}
	id := c.holderID(holder)
	if c.doubts[id] != "" {
		return
	}
	has := fmt.Sprintf("%d keys", holder.Keys)
	if !holder.Reached {
		has = "an unknown number of keys"
	}
	text := fmt.Sprintf("%s has %d keys since it restarted, and its replica %s has %s: %s may have lost data. "+
		"The operator changes neither %s nor its pod. If the data of %s is right, annotate accept-data-loss: %q",
		master.Pod, master.Keys, holder.Pod, has, master.Pod, holder.Pod, master.Pod, id)
	if newest := c.newerEpoch(master); newest != 0 {
		text = fmt.Sprintf("storage has put the volume of %s back to an earlier state: its config epoch is %d, and other nodes know %d. ",
			master.Pod, master.self().Epoch, newest) + text
	} else if witness := c.witness(master); witness != nil {
		text = fmt.Sprintf("storage has put the volume of %s back to an earlier state: it was last in use at %s, and %s has seen it in use at %s. ",
			master.Pod, date(master.Used), witness.Pod, date(witness.Seen[master.ID])) + text
	}
	if holder.Reached {
		text += fmt.Sprintf("; to keep the data of %s, annotate accept-data-loss: %q", holder.Pod, master.ID)
	}
	c.doubts[id] = text
}

// relinkTime is the time after the start of a master in which its replicas are expected to link to it.
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

// isDoubted reports whether an id belongs to a master that may have lost data, or to the node of its shard that may
// have that data.
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
// between the two would empty the replica as well. The proof is in the record:
//
//   - If the record names this master, the master has another run id now, the replica has the recorded history, and it
//     was linked until the restart.
//   - If the record names an earlier master, the replica's data continues the recorded history, and the two nodes have
//     different histories.
//
// Any other master without keys is legitimately empty.
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
