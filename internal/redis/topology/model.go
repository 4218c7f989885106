// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

// Verdict summarizes the views of all nodes.
type Verdict string

// The verdicts. Steps that remove, empty or re-assign anything need the verdict Complete, or a proof in the step.
const (
	// Fresh: every pod is empty and has met no node, and the record shows that the cluster was never formed.
	Fresh Verdict = "Fresh"
	// Complete: all slots are served, all views agree, and no slot is open.
	Complete Verdict = "Complete"
	// Healing: all slots have a living owner, but slots are open or nodes are joining.
	Healing Verdict = "Healing"
	// DisconnectedIntact: every slot has a living owner that claims it, but nodes do not see each other.
	DisconnectedIntact Verdict = "DisconnectedIntact"
	// MajorityLost: too few masters live to elect a new master.
	MajorityLost Verdict = "MajorityLost"
	// SlotsLost: the owner of slots is lost, and all its replicas are lost.
	SlotsLost Verdict = "SlotsLost"
	// Inconsistent: two living nodes claim the same slot.
	Inconsistent Verdict = "Inconsistent"
	// Unknown: a pod that may hold slots was not reached.
	Unknown Verdict = "Unknown"
	// Returning: the only pod of a shard does not run, and no other node has its data. Its slots are served again after the pod has
	// restarted.
	Returning Verdict = "Returning"
	// Parked: no pod is wanted and none may start; the data is kept.
	Parked Verdict = "Parked"
)

// The phases of a model.
const (
	PhaseNone      = "None"      // nothing exists yet
	PhaseCreating  = "Creating"  // slots were never assigned
	PhaseRunning   = "Running"   // all slots are served, and every shard has its wanted replicas
	PhaseFailed    = "Failed"    // slots are not served, or redundancy is missing without a requested change that explains it
	PhaseScaling   = "Scaling"   // shards, replicas or slots are being added, moved or removed
	PhaseUpgrading = "Upgrading" // pods are being replaced with another revision
	PhaseParked    = "Parked"    // no pod is wanted; the data is kept
)

// Model describes the whole cluster.
type Model struct {
	Verdict Verdict
	// Reason is for users: it explains the verdict, names the affected slots or nodes, and gives the user's next step if the operator can
	// take none.
	Reason string
	// Failing holds the causes of steps that keep failing. Such steps are skipped for a while, and other steps are taken.
	Failing []string
	// Shards are sorted by ordinal.
	Shards []Shard
	// Served is the number of slots that a living master serves in the views of all reached nodes.
	Served int
	// Redundant reports whether every shard has its wanted replicas, linked and in sync.
	Redundant bool
	// Settled reports whether no step is left.
	Settled bool
	// Phase is None, Creating, Running, Failed, Scaling, Upgrading or Parked.
	Phase string
}

// Shard describes the nodes of one StatefulSet.
type Shard struct {
	Ordinal int
	Nodes   []Node
	Master  string // pod that owns the shard's slots, or the master without slots; empty if there is none
	Owned   SlotSet
}
