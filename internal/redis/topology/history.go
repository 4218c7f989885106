// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"strings"
	"time"
)

// histories records the history of each shard's data while the master and a replica share that history. A new history
// begins only with a start of the master or a failover. So in a settled cluster nothing is written.
func (c *cluster) histories() (steps []Step) {
	record := c.copyRecord()
	var shards []string
	for _, s := range c.shards {
		m := s.master
		if m == nil || c.podOf[m.ID] == "" || len(c.owned[m.ID]) == 0 || m.Replication.ID == "" || m.RunID == "" || !c.sharesHistory(m) {
			continue
		}
		if c.newerEpoch(m) != 0 {
			steps = append(steps, Step{Action: ActionBumpEpoch, Node: m.place(), Interval: 5 * time.Second,
				Message: fmt.Sprintf("give %s a new config epoch: its volume was put back to an earlier state, and its replicas have its data", m.Pod)})
			continue
		}
		now := History{Node: m.ID, Run: m.RunID, Repl: m.Replication.ID}
		if record.Histories[s.ordinal] == now {
			continue
		}
		if record.Histories[s.ordinal] = now; len(shards) < 8 {
			shards = append(shards, fmt.Sprint(s.ordinal))
		}
	}
	if len(shards) > 0 {
		steps = append(steps, recordStep(record, "record the history of the data of shards %s", strings.Join(shards, ", ")))
	}
	return steps
}

// sharesHistory reports whether a replica has a master's data, and no replica has data that the master may have lost. After a restart of
// the master, all pods of the shard must have been reached: a replica that copied proves nothing about the other replicas.
func (c *cluster) sharesHistory(m *Node) bool {
	if !c.isUnbroken(m) && !c.isAsked(m.Shard) {
		return false
	}
	shared := false
	for _, r := range c.replicas(m.ID) {
		if !c.continues(m, r) {
			return false
		}
		shared = shared || c.inStep(r)
	}
	return shared
}

// follows reports whether a replica's data belongs to the recorded history of a shard, or continues that history. A replica that copied
// from another node has that node's history.
func (h History) follows(r *Node) bool {
	return h.Repl != "" && (r.Replication.ID == h.Repl || r.Replication.FormerID == h.Repl)
}

// historyOf returns the recorded history of a node's shard.
func (c *cluster) historyOf(id string) History {
	if s := c.shardOf(id); s != nil {
		return c.record.Histories[s.ordinal]
	}
	return History{}
}

// linkSlack returns the tolerance for comparing the loss of a master with the end of a replica's link. A replica that
// lost its link that much earlier still counts as in sync. Nodes ping each other within half the node timeout, and
// redis counts whole seconds.
func (c *cluster) linkSlack() time.Duration { return c.nodeTimeout()/2 + 2*time.Second }

// stayedUntil reports whether a replica was linked to its master until the master was lost. ago is the time since that
// loss.
func (c *cluster) stayedUntil(r *Node, ago time.Duration) bool {
	return r.Replication.LinkUp || r.Replication.LinkDown >= 0 && r.Replication.LinkDown <= ago+c.linkSlack()
}

// hasData reports whether a replica has data of its master at all. A replica that never got such data (offset 0 or 1,
// no keys) must not become the master: it would make the shard empty.
func hasData(r *Node) bool {
	return !r.Terminating && !r.Replication.Syncing && (r.Replication.Offset > 1 || r.Keys > 0)
}

// candidate returns the replica that may replace a lost owner without a user's consent, or nil. One of two conditions must hold:
//
//   - the replica's data belongs to the shard's history, and the replica kept
//     its link until the owner was lost, so that it lacks at most the last writes;
//   - the owner's data is lost, so that no better copy can return, and all pods
//     of the shard were reached. Then the replica's data must belong to the
//     shard's history, or the replica restarted and has not copied since.
func (c *cluster) candidate(id string) *Node {
	return c.best(id, func(r *Node) bool {
		follows := c.historyOf(id).follows(r)
		if follows && c.stayedUntil(r, c.silence(id)) {
			return true
		}
		return c.fateOf(id) == gone && c.isAsked(r.Shard) && (follows || c.isLeft(r))
	})
}

// isLeft reports whether a replica has not copied since its server started: it has only the data that was on its
// volume.
func (c *cluster) isLeft(r *Node) bool {
	return !r.Replication.LinkUp && r.Replication.LinkDown == NeverLinked && r.Keys > 0
}

// isAsked reports whether all wanted pods of a shard were reached, except those that lost their data.
func (c *cluster) isAsked(shard int) bool {
	for _, n := range c.shards[shard].nodes {
		if c.wants(n) && !n.Reached && !n.LostData {
			return false
		}
	}
	return true
}

// remnant returns the replica with the most data of a lost owner, of any history, or nil.
func (c *cluster) remnant(id string) *Node { return c.best(id, func(*Node) bool { return true }) }

// best returns the replica with the most data of a node, among the replicas that the given function accepts. A replica with the recorded
// history comes first.
func (c *cluster) best(id string, passes func(*Node) bool) *Node {
	var best *Node
	for _, r := range c.replicas(id) {
		if hasData(r) && passes(r) && (best == nil || c.isBetter(r, best, c.historyOf(id))) {
			best = r
		}
	}
	return best
}

func (c *cluster) isBetter(a, b *Node, h History) bool {
	if h.follows(a) != h.follows(b) {
		return h.follows(a)
	}
	if a.Replication.Offset != b.Replication.Offset {
		return a.Replication.Offset > b.Replication.Offset
	}
	return a.Keys > b.Keys
}
