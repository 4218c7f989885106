// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"strings"
	"time"
)

// histories records which history the data of a shard is of, while its master and a replica have it in common. A start of the
// master and a failover make a new one, so at rest nothing is written.
func (c *cluster) histories() []Step {
	record := c.copyRecord()
	var shards []string
	for _, s := range c.shards {
		m := s.master
		if m == nil || c.podOf[m.ID] == "" || len(c.owned[m.ID]) == 0 || m.Replication.ID == "" || m.RunID == "" || !c.sharesHistory(m) {
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
	if len(shards) == 0 {
		return nil
	}
	return []Step{recordStep(record, "record the history of the data of shards %s", strings.Join(shards, ", "))}
}

// sharesHistory reports whether a replica has what a master has, and none has data that the master may have lost. After a restart
// of the master all pods of the shard are asked: a replica that has copied says nothing of what another one has.
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

// follows reports whether a replica's data is of the recorded history of a shard, or continues it. A replica that copied
// another node has that one's history.
func (h History) follows(r *Node) bool {
	return h.Repl != "" && (r.Replication.ID == h.Repl || r.Replication.FormerID == h.Repl)
}

// historyOf returns the recorded history of the shard that a node is of.
func (c *cluster) historyOf(id string) History {
	if s := c.shardOf(id); s != nil {
		return c.record.Histories[s.ordinal]
	}
	return History{}
}

// linkSlack is how much longer than its master a replica may be cut off and still count as in step when the master was lost:
// nodes ping each other within half the node timeout, and redis counts whole seconds.
func (c *cluster) linkSlack() time.Duration { return c.nodeTimeout()/2 + 2*time.Second }

// stayedUntil reports whether a replica had its link until its master was lost, some time ago.
func (c *cluster) stayedUntil(r *Node, ago time.Duration) bool {
	return r.Replication.LinkUp || r.Replication.LinkDown >= 0 && r.Replication.LinkDown <= ago+c.linkSlack()
}

// hasData reports whether a replica may become a master at all. One that never had its master's data (offset 0 or 1, no keys)
// would make an empty shard.
func hasData(r *Node) bool {
	return !r.Terminating && !r.Replication.Syncing && (r.Replication.Offset > 1 || r.Keys > 0)
}

// candidate returns the replica that may replace a lost owner without anybody's consent, or nil. Its data is of the shard's
// history, and
//
//   - it had its link until the owner was lost, so that it has all but the last moment; or
//   - the owner's data is gone, so that nothing better comes back, and all pods of the shard were asked. Then a replica counts,
//     too, that restarted and copied from nobody since.
func (c *cluster) candidate(id string) *Node {
	return c.best(id, func(r *Node) bool {
		follows := c.historyOf(id).follows(r)
		if follows && c.stayedUntil(r, c.silence(id)) {
			return true
		}
		return c.fateOf(id) == gone && c.isAsked(r.Shard) && (follows || c.isLeft(r))
	})
}

// isLeft reports whether a replica has what was on its volume when its server started, and nothing else.
func (c *cluster) isLeft(r *Node) bool {
	return !r.Replication.LinkUp && r.Replication.LinkDown == NeverLinked && r.Keys > 0
}

// isAsked reports whether all wanted pods of a shard were reached, but those that have no data.
func (c *cluster) isAsked(shard int) bool {
	for _, n := range c.shards[shard].nodes {
		if c.wants(n) && !n.Reached && !n.LostData {
			return false
		}
	}
	return true
}

// remnant returns the replica of a lost owner with the most data, whatever it is worth, or nil.
func (c *cluster) remnant(id string) *Node { return c.best(id, func(*Node) bool { return true }) }

// best returns the replica of a node that passes a test with the most of its data: that of the recorded history first.
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
