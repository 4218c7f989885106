// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

// Verdict is what all the views of a cluster amount to.
type Verdict string

// The verdicts. Steps that remove, empty or re-assign anything are decided on Complete only, or with a
// proof of their own.
const (
	// Fresh: every pod is empty and knows nobody, and the record says that the cluster was never formed.
	Fresh Verdict = "Fresh"
	// Complete: all slots are served, all views agree, and no slot is open.
	Complete Verdict = "Complete"
	// Healing: all slots have a living owner, and slots are open or nodes are joining.
	Healing Verdict = "Healing"
	// DisconnectedIntact: every slot has a living owner by its own word, but nodes do not see each other.
	DisconnectedIntact Verdict = "DisconnectedIntact"
	// MajorityLost: too few masters live to elect a new one.
	MajorityLost Verdict = "MajorityLost"
	// SlotsLost: the owner of slots is gone, and so are its replicas.
	SlotsLost Verdict = "SlotsLost"
	// Inconsistent: two living nodes own the same slot by their own words.
	Inconsistent Verdict = "Inconsistent"
	// Unknown: a pod that may hold slots was not reached.
	Unknown Verdict = "Unknown"
)

// The phases of a model.
const (
	PhaseNone      = "None"      // nothing exists yet
	PhaseCreating  = "Creating"  // slots were never assigned
	PhaseRunning   = "Running"   // all slots are served, and every shard has the replicas that it should have
	PhaseFailed    = "Failed"    // slots are not served, or redundancy is missing, and no change that was asked for explains it
	PhaseScaling   = "Scaling"   // shards, replicas or slots are being added, moved or removed
	PhaseUpgrading = "Upgrading" // pods are being replaced by those of another revision
)

// Model is the cluster as a whole.
type Model struct {
	Verdict Verdict
	// Reason is for people: what the verdict rests on, which slots or nodes it concerns, and what a
	// person can do if the operator does nothing.
	Reason string
	// Failing are the causes of steps that keep failing and are left out for a while; others are taken meanwhile.
	Failing []string
	// Shards by ordinal.
	Shards []Shard
	// Served is the number of slots that all reached nodes agree are served by a living master.
	Served int
	// Redundant reports whether every shard has the replicas that it should have, linked and in step.
	Redundant bool
	// Settled reports whether nothing is left to be done.
	Settled bool
	// Phase is what the cluster is being brought through: None, Creating, Running, Failed, Scaling or Upgrading.
	Phase string
}

// Shard is the nodes of one StatefulSet.
type Shard struct {
	Ordinal int
	Nodes   []Node
	Master  string // pod of the one that owns the shard's slots, or of the master without slots; empty if there is none
	Owned   SlotSet
}
