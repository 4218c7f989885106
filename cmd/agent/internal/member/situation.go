// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"slices"

	"d3os.com/d3os-operator/internal/contract/etcdmember"
)

// Identity names the cluster and the member of some data by hexadecimal IDs.
type Identity struct{ Cluster, Member string }

// Data describes the content of the server's own files.
type Data struct {
	// Exists reports whether the server would start with existing data instead of creating new data.
	Exists bool
	// Leftovers reports whether files exist without complete data: the first start was interrupted, or a part of the data was lost.
	Leftovers bool
	// Identity names the cluster and the member that the data belongs to; empty if the server's files do not name them.
	Identity Identity
	// Problem is the reason why the data does not identify its owner; empty if it does.
	Problem string
	// Damage is the evidence that the data differs from what the server wrote; empty for none.
	Damage string
	// Last is the end of the data's log.
	Last Position
}

// Listed is one entry of a running member's list of members.
type Listed struct {
	ID       string
	Name     string // empty if the member was never started
	PeerURLs []string
	Learner  bool
}

// Peers holds the answers of the running members.
type Peers struct {
	// Answers are the member lists of all members that answered, in any order.
	Answers []Answer
}

// Answer is the answer of one member: its cluster and its member list.
type Answer struct {
	From    string // address of the answering member
	Cluster string
	Members []Listed
}

// Situation holds everything that a decision depends on.
type Situation struct {
	Pod    string // NAMESPACE/NAME
	PodUID string
	Mark   *Mark // nil for none
	// MarkProblem is the reason why the mark cannot be read; empty if it can be read.
	MarkProblem string
	Data        Data
	Ticket      Ticket
	Used        []string // texts of the tickets that this pod has used
	Peers       Peers
	// PeerURL is the address at which other members reach this member.
	PeerURL string
	// Known holds the positions of this pod's members that are stored outside the volume. They reveal that the storage has restored
	// an earlier state of the volume. KnownProblem is the reason why they cannot be read.
	Known        []etcdmember.Known
	KnownProblem string
}

// identity returns the owner of the data: from the server's files, or else from the mark.
func (s Situation) identity() Identity {
	if s.Data.Identity.Member == "" && s.Mark != nil {
		return Identity{Cluster: s.Mark.Cluster, Member: s.Mark.Member}
	}
	return s.Data.Identity
}

// used reports whether this pod has used the ticket. For a force ticket, it also returns true if this volume has used
// the ticket's token.
func (s Situation) used() bool {
	if slices.Contains(s.Used, s.Ticket.Text) {
		return true
	}
	if s.Mark == nil {
		return false
	}
	return s.Mark.Ticket == s.Ticket.Text && s.Mark.PodUID == s.PodUID || s.Ticket.Verb == Force && s.Mark.Token == s.Ticket.Argument
}

// find returns a member from the lists of the running members of its cluster. It also reports whether any of these
// members answered. So nil and true mean that their lists lack the member.
func (p Peers) find(id Identity) (*Listed, bool) {
	known := false
	for _, answer := range p.Answers {
		if answer.Cluster != id.Cluster {
			continue
		}
		known = true
		for i := range answer.Members {
			if answer.Members[i].ID == id.Member {
				return &answer.Members[i], true
			}
		}
	}
	return nil, known
}
