// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// fate classifies a node that was not reached.
type fate string

const (
	gone   fate = "gone"   // no pod has the node's data: the volume was replaced, or the pod removed
	down   fate = "down"   // the container does not run; the node returns with its data if the volume has it
	silent fate = "silent" // the container runs, but neither the operator nor other nodes reach the node
	away   fate = "away"   // other nodes reach the node, but the operator does not
)

// fateOf returns the fate of a node that is not a member.
func (c *cluster) fateOf(id string) fate {
	if slices.ContainsFunc(c.sightings[id], func(s sighting) bool { return s.entry.IsReachable() }) {
		return away
	}
	pod := c.podOf[id]
	n := c.pods[pod]
	switch {
	case pod == "" && c.mayBeHeld(id):
		return down
	case pod == "", n != nil && n.Reached && n.ID != id, n != nil && !n.Reached && n.LostData:
		return gone
	case n == nil, !n.Running:
		return down
	default:
		return silent
	}
}

// mayBeHeld reports whether an unreached pod may have the data of a node that the record does not name. That can happen
// if the record is older than the node.
func (c *cluster) mayBeHeld(id string) bool {
	for _, n := range c.nodes {
		if n.Reached || n.LostData {
			continue
		}
		if recorded := c.record.Nodes[n.Pod]; recorded == "" || recorded == id || len(c.knowing(recorded)) == 0 {
			return true
		}
	}
	return false
}

// IsReachable reports whether the node with this entry in its view is connected to the entry's node, and does not
// consider the entry's node failed.
func (e *Entry) IsReachable() bool {
	return e.Connected && !e.Fail && !e.PossiblyFail && !e.Handshake && !e.NoAddress
}

// silence returns the shortest time since any member heard from a node. It returns 0 if no member has a time.
func (c *cluster) silence(id string) time.Duration {
	var shortest time.Duration
	for _, s := range c.sightings[id] {
		m, e := s.by, s.entry
		if e.Handshake {
			continue
		}
		last := e.PongReceived
		if e.PingSent.After(last) {
			last = e.PingSent
		}
		if last.IsZero() {
			continue
		}
		if since := m.At.Sub(last); shortest == 0 || since < shortest {
			shortest = max(since, 1)
		}
	}
	return shortest
}

// describe returns the pod of a node that is not a member, if there was one, with the node's id and its fate.
func (c *cluster) describe(id string) string {
	pod := c.podOf[id]
	what := map[fate]string{
		gone:   "is gone with its data",
		down:   "does not run",
		silent: "runs, but neither the operator nor the other nodes reach it",
		away:   "is reached by other nodes, but not by the operator",
	}[c.fateOf(id)]
	if n := c.pods[pod]; n != nil && !n.Reached && cmp.Or(n.NotStarted, n.Problem) != "" {
		return fmt.Sprintf("%s: %s; it %s (node %s)", pod, cmp.Or(n.NotStarted, n.Problem), what, id)
	}
	if pod == "" {
		return fmt.Sprintf("node %s %s", id, what)
	}
	return fmt.Sprintf("%s %s (node %s)", pod, what, id)
}

// verdict returns the verdict of all views, and its reason.
func (c *cluster) verdict(served SlotSet) (Verdict, string) {
	if c.record.Parked || c.wanted.Parked && len(c.nodes) == 0 && len(c.record.Nodes) == 0 {
		return Parked, ""
	}
	if !c.record.Formed && !c.foreignFormed() {
		return c.verdictUnformed()
	}
	if reason := c.duplicates(); reason != "" {
		return Inconsistent, reason
	}
	if len(c.members) == 0 {
		return c.verdictWithoutMembers()
	}
	if reason := c.contested(); reason != "" {
		return Inconsistent, reason
	}
	if verdict, reason := c.verdictLost(); verdict != "" {
		return verdict, reason
	}
	if past := c.whyPast(); len(past) > 0 {
		return SlotsLost, strings.Join(past, "; ")
	}
	if pair := c.unacquainted(); pair != "" && served.Len() < Slots {
		return DisconnectedIntact, "every slot has an owner that runs, but " + pair
	} else if pair != "" {
		return Healing, pair
	}
	if rest := AllSlots().Minus(served); len(rest) > 0 {
		return Healing, fmt.Sprintf("the nodes do not agree yet on the node that serves slots %s", brief(rest))
	}
	if len(c.open) > 0 {
		return Healing, "open slots: " + c.describeOpen()
	}
	return Complete, ""
}

// verdictWithoutMembers returns the verdict of a formed cluster of which no node was reached.
func (c *cluster) verdictWithoutMembers() (Verdict, string) {
	switch {
	case c.isStopped():
		return Returning, "no pod runs: " + c.problems()
	case c.isEmptied():
		return SlotsLost, fmt.Sprintf("no pod has the data of the recorded cluster: put the former volumes back, restore a backup into a new cluster, "+
			"or annotate accept-data-loss: %q to have all slots served again, without data", AllSlots())
	}
	return Unknown, "no pod could be reached: " + c.problems()
}

// verdictUnformed returns the verdict of pods that never were a cluster.
func (c *cluster) verdictUnformed() (Verdict, string) {
	if missing := c.missing(); missing != "" {
		return Unknown, "not formed yet: waits for " + missing
	}
	for _, n := range c.nodes {
		if c.wants(n) && !n.blank() {
			return Healing, "being formed"
		}
	}
	return Fresh, "all pods are empty, and the cluster was never formed"
}

// verdictLost returns the verdict for slots whose owners were not reached. The worst case decides.
func (c *cluster) verdictLost() (Verdict, string) {
	var unknown, lost, returning, waiting []string
	masters, alive := 0, 0
	for _, id := range sortedKeys(c.owned) {
		slots := c.owned[id]
		masters++
		if c.byID[id] != nil {
			alive++
			continue
		}
		text := fmt.Sprintf("slots %s: owner %s", brief(slots), c.describe(id))
		switch {
		case c.fateOf(id) == away:
			unknown = append(unknown, text)
		case c.candidate(id) == nil && c.fateOf(id) == silent:
			// The server may hang or be cut off, and still have all its data.
			unknown = append(unknown, text+c.waysOut(id))
		case c.candidate(id) == nil && c.isAlone(id):
			returning = append(returning, text+fmt.Sprintf(": the slots are served again when the owner is back with its data; if that data is lost for good, annotate accept-data-loss: %q", id))
		case c.candidate(id) == nil:
			lost = append(lost, text+c.waysOut(id))
		default:
			waiting = append(waiting, text)
		}
	}
	if len(c.unowned) > 0 {
		lost = append(lost, fmt.Sprintf("slots %s have no owner: annotate accept-data-loss: %q to have these slots served again, without data",
			brief(c.unowned), pasted(c.unowned)))
	}
	switch {
	case len(unknown) > 0:
		return Unknown, strings.Join(slices.Concat(unknown, lost, returning), "; ") +
			". The operator takes no slots or data away from a node that it does not reach: look at the node's logs, its network policy, and its Kubernetes node"
	case len(lost) > 0:
		return SlotsLost, strings.Join(append(lost, returning...), "; ")
	case len(waiting) > 0 && 2*alive <= masters:
		return MajorityLost, fmt.Sprintf("%d of %d masters run, too few to elect another master: %s", alive, masters, strings.Join(waiting, "; "))
	case len(returning) > 0:
		return Returning, strings.Join(append(returning, waiting...), "; ")
	case len(waiting) > 0:
		return Healing, "a replica takes over: " + strings.Join(waiting, "; ")
	}
	return "", ""
}

// isAlone reports whether an owner that was not reached is the only pod of its shard, does not run, and may restart with its data.
func (c *cluster) isAlone(id string) bool {
	n := c.pods[c.podOf[id]]
	return n != nil && !c.hasReplicas(c.shards[n.Shard]) && c.remnant(id) == nil && c.fateOf(id) == down
}

// isStopped reports whether no pod runs, and no shard should have a replica.
func (c *cluster) isStopped() bool {
	return len(c.nodes) > 0 && !slices.ContainsFunc(c.nodes, func(n *Node) bool {
		return n.Running || n.LostData || c.hasReplicas(c.shards[n.Shard])
	})
}

// waysOut describes a user's options for a lost owner that no replica may replace.
func (c *cluster) waysOut(id string) string {
	text, after := "; no replica with its data is left", "to have the slots served again, without data"
	if r := c.remnant(id); r != nil {
		text = fmt.Sprintf("; %s has %d keys, and %s", r.Pod, r.Keys, c.whyNoHeir(r, id))
		after = "to have the slots served with the data of " + r.Pod
	}
	if c.fateOf(id) != gone {
		text += fmt.Sprintf(": bring %s back with its data", cmp.Or(c.podOf[id], "the node's pod"))
	}
	return text + fmt.Sprintf(", or annotate accept-data-loss: %q %s", id, after)
}

// whyNoHeir returns why a replica with data may not replace a lost owner.
func (c *cluster) whyNoHeir(r *Node, id string) string {
	switch {
	case c.isLeft(r):
		return "restarted since it was in sync"
	case !c.historyOf(id).follows(r):
		return "its keys may be of another master"
	case c.stayedUntil(r, c.silence(id)):
		return "not all pods of its shard were reached"
	}
	return fmt.Sprintf("was out of sync for %s when its master was lost", max(r.Replication.LinkDown-c.silence(id), time.Second).Round(time.Second))
}

// duplicates names pods with the same node id: one volume is a copy of the other.
func (c *cluster) duplicates() string {
	pod := map[string]string{}
	for _, n := range c.nodes {
		if !n.Reached {
			continue
		}
		if other := pod[n.ID]; other != "" {
			return fmt.Sprintf("%s and %s are both node %s: one volume is a copy of the other; delete the claim of the copy and its pod", other, n.Pod, n.ID)
		}
		pod[n.ID] = n.Pod
	}
	return ""
}

// contested names slots that two living nodes own. It skips two conflicts, which Redis resolves correctly:
//
//   - a replica was promoted, and its old master does not know that yet: both are in one shard, and the new owner has
//     the data;
//   - a slot was moved, and its source does not know the new owner yet: the source still marks the slot as migrating.
func (c *cluster) contested() string {
	for _, d := range c.disputed {
		winner, loser := d.winner.self(), d.loser.self()
		if winner.Epoch > loser.Epoch {
			if d.winner.Shard == d.loser.Shard && (d.winner.Keys > 0 || d.loser.Keys == 0) {
				continue
			}
			moved := true
			for slot := range d.slots.All {
				moved = moved && loser.Migrating[slot] == d.winner.ID
			}
			if moved {
				continue
			}
		}
		return fmt.Sprintf("slots %s are owned by %s (node %s, %d keys) and by %s (node %s, %d keys): nothing is changed. "+
			"Find out which node has the data, and reset the other node", brief(d.slots),
			d.winner.Pod, d.winner.ID, d.winner.Keys, d.loser.Pod, d.loser.ID, d.loser.Keys)
	}
	return ""
}

// missing names the wanted pods that were not reached, and why.
func (c *cluster) missing() string {
	var missing []string
	for i, pods := range c.wanted.Shards {
		reached := 0
		for _, n := range c.shards[i].nodes {
			switch {
			case !c.wants(n):
			case n.Reached:
				reached++
			default:
				missing = append(missing, n.trouble())
				reached++
			}
		}
		if reached < pods {
			missing = append(missing, fmt.Sprintf("%d of %d pods of shard %d", pods-reached, pods, i))
		}
	}
	return strings.Join(missing, ", ")
}

// problems names all pods that were not reached, and why.
func (c *cluster) problems() string {
	var all []string
	for _, n := range c.nodes {
		if !n.Reached {
			all = append(all, n.trouble())
		}
	}
	return strings.Join(all, ", ")
}

// trouble names a pod that was not reached, and why.
func (n *Node) trouble() string {
	switch {
	case cmp.Or(n.NotStarted, n.Problem) != "":
		return n.Pod + ": " + cmp.Or(n.NotStarted, n.Problem)
	case n.Loading:
		return n.Pod + ": loading its data"
	case n.Host == "":
		return n.Pod + ": not scheduled"
	case !n.Running:
		return n.Pod + ": not running"
	}
	return n.Pod + ": not reached"
}

// pasted returns the text of a set that a user can give as a consent. It contains only the first 60 ranges: the user
// consents to the others later.
func pasted(set SlotSet) string {
	const most = 60
	return set[:min(len(set), most)].String()
}

// brief returns the text of a set, cut after 8 ranges.
func brief(set SlotSet) string {
	const most = 8
	if len(set) <= most {
		return set.String()
	}
	return fmt.Sprintf("%s and %d more (%d in all)", set[:most], set[most:].Len(), set.Len())
}
