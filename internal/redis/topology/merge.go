// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"slices"
	"strings"
)

// Merge computes the model from the views of all nodes. It accepts every input.
func Merge(wanted Wanted, record Record, nodes []Node) Model {
	return Decide(wanted, record, nodes).Model
}

// model returns the cluster for the status and for users.
func (c *cluster) model(verdict Verdict, reason string) Model {
	m := Model{Verdict: verdict, Served: c.servedSlots.Len(), Failing: c.failing}
	thin := c.thin()
	if verdict == Parked {
		thin = ""
	}
	m.Redundant = thin == ""
	for _, s := range c.shards {
		shard := Shard{Ordinal: s.ordinal, Owned: s.owned}
		for _, n := range s.nodes {
			shard.Nodes = append(shard.Nodes, *n)
		}
		if s.master != nil {
			shard.Master = s.master.Pod
		}
		m.Shards = append(m.Shards, shard)
	}
	var reasons, doubts []string
	for _, id := range sortedKeys(c.doubts) {
		doubts = append(doubts, c.doubts[id])
	}
	for _, text := range slices.Concat([]string{c.whyLeaving()}, c.failing, []string{reason}, doubts, []string{thin, c.refused}, c.waits, c.notes) {
		if text != "" && !slices.Contains(reasons, text) {
			reasons = append(reasons, text)
		}
	}
	m.Reason = strings.Join(reasons, "; ")
	m.Phase = c.phase(verdict, m)
	return m
}

// whyLeaving names the pods whose claims are being deleted: the data of such a pod is deleted with the pod. It returns
// "" if there are none.
func (c *cluster) whyLeaving() string {
	var pods []string
	for _, n := range c.nodes {
		if n.ClaimLeaves {
			pods = append(pods, n.Pod)
		}
	}
	if len(pods) == 0 {
		return ""
	}
	if more := len(pods) - 8; more > 0 {
		pods = append(pods[:8], fmt.Sprintf("%d more pods", more))
	}
	return fmt.Sprintf("the claims of %s are being deleted: their data would be lost with these pods, so none of them is replaced. Set the reclaim policy of their volumes to Retain, "+
		"or make a backup. Then delete one of these pods at a time, while another pod of its shard is in sync: the deleted pod comes back with a new volume, and copies the data of the pod that is in sync", strings.Join(pods, ", "))
}

// phase returns the phase for a verdict. A refused change does not count as scaling.
func (c *cluster) phase(verdict Verdict, m Model) string {
	switch {
	case verdict == Parked && c.wanted.Parked:
		return PhaseParked
	case verdict == Parked:
		return PhaseScaling
	case len(c.nodes) == 0 && !c.record.Formed && len(c.record.Nodes) == 0:
		return PhaseNone
	case !c.record.Formed && !c.foreignFormed():
		return PhaseCreating
	case verdict != Complete && verdict != Healing, m.Served < Slots:
		return PhaseFailed
	case c.wanted.Parked:
		return PhaseScaling
	case c.refused == "" && c.scaling():
		return PhaseScaling
	case slices.ContainsFunc(c.nodes, func(n *Node) bool { return n.Outdated }):
		return PhaseUpgrading
	case !m.Redundant:
		return PhaseFailed
	default:
		return PhaseRunning
	}
}

// scaling reports whether shards, pods or slots differ from the spec.
func (c *cluster) scaling() bool {
	if len(c.open) > 0 || fmt.Sprint(c.record.Shards) != fmt.Sprint(c.wanted.Shards) {
		return true
	}
	return len(c.nextMoves()) > 0
}
