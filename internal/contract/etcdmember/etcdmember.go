// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package etcdmember defines the interface of the agent of an etcd member: the report of its state, and the tickets of its pod.
package etcdmember

import "fmt"

// The verbs of tickets. A ticket is an annotation on one pod, and is valid for one start of its server.
const (
	TicketSeed  = "seed"  // seed, or seed:TOKEN: form a new cluster
	TicketJoin  = "join"  // join:ID: start as an added member that was never started
	TicketForce = "force" // force:TOKEN: become the only member, with the volume's data
	TicketNone  = "none"  // withdraws a ticket
)

// Volume is the state of a volume, as the agent found it.
type Volume string

// The states of a volume.
const (
	VolumeEmpty Volume = "Empty" // no data at all
	VolumeData  Volume = "Data"  // data with the agent's mark
	// VolumeForeign is data without the agent's mark, or with the mark of another pod. The agent never changes such data.
	VolumeForeign Volume = "Foreign"
)

// Position is a position in the log of a cluster: the term and the index of an entry.
type Position struct {
	Term  uint64 `json:"term,omitempty"`
	Index uint64 `json:"index,omitempty"`
}

// Before reports whether a log that ends at p lacks entries of a log that ends at q.
func (p Position) Before(q Position) bool {
	return p.Term < q.Term || p.Term == q.Term && p.Index < q.Index
}

// Known is a position that a member's data has reached. For each pod, the operator stores the text of a Known in the
// record's ConfigMap. The agent reads that text from a file.
type Known struct {
	Cluster, Member string // ids in hexadecimal
	Position
}

// String returns the text that ParseKnown reads.
func (k Known) String() string {
	return fmt.Sprintf("%s %s %d %d", k.Cluster, k.Member, k.Term, k.Index)
}

// ParseKnown parses the text of String. It ignores further text, such as a newline.
func ParseKnown(text string) (k Known, err error) {
	_, err = fmt.Sscan(text, &k.Cluster, &k.Member, &k.Term, &k.Index)
	return k, err
}

// Report is the answer at contract.PathState: while etcd does not run, the state of the agent; while etcd runs, the state of the watcher
// next to etcd, without a reason.
type Report struct {
	Volume Volume `json:"volume"`
	// Cluster and Member are the ids of the data, in hexadecimal: the ids in etcd's files, or else in the mark, which may outlive the data.
	Cluster string `json:"cluster,omitempty"`
	Member  string `json:"member,omitempty"`
	// Damage is the evidence that the data differs from the data that etcd wrote; empty if there is no such evidence.
	// The agent does not start etcd on damaged data.
	Damage string `json:"damage,omitempty"`
	// Position is the end of the data's log.
	Position
	// Outdated is the evidence that the data is older than data that the member had before; empty if there is no such evidence. The agent
	// does not start etcd on outdated data.
	Outdated string `json:"outdated,omitempty"`
	// Owner is the pod that foreign data belongs to, as NAMESPACE/NAME; empty if it is unknown.
	Owner string `json:"owner,omitempty"`
	// Used is the last ticket that was used in this pod, even if the volume was lost afterwards.
	Used string `json:"used,omitempty"`
	// Token is the token of the last ticket with the verb force that was used on this volume.
	Token string `json:"token,omitempty"`
	// Reason and Waiting name the condition that the agent waits for: Reason as a CamelCase word, Waiting as a text for
	// users. Both are empty while the agent starts etcd.
	Reason  string `json:"reason,omitempty"`
	Waiting string `json:"waiting,omitempty"`
	// Ticket is the text of the pod's ticket as the agent sees it.
	Ticket string `json:"ticket,omitempty"`
	// PeerURL is the address of this member for the other members.
	PeerURL string `json:"peerURL"`
	// Kept is the size in MiB of folders of former data that were set aside on the volume.
	Kept int64 `json:"kept,omitempty"`
}
