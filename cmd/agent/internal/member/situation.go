// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"slices"

	"d3os.com/d3os-operator/internal/contract/etcdmember"
)

// Identity names the cluster and the member of some data; ids are hexadecimal.
type Identity struct{ Cluster, Member string }

// Data describes the content of the server's own files.
type Data struct {
	// Exists reports whether the server would start with existing data, instead of making new data.
	Exists bool
	// Leftovers reports whether files exist without complete data: the first start was interrupted, or a part of the data is lost.
	Leftovers bool
	// Identity is the identity of the data. Empty without data.
	Identity Identity
	// Problem is the cause for which the data does not identify its owner; empty if it does.
	Problem string
	// Damage is the evidence that the data differs from what the server wrote; empty for none.
	Damage string
	// Last is the end of the data's log.
	Last Position
}

// Listed is one entry of a running member's list of members.
type Listed struct {
	ID       string
	Name     string // empty while it has never been started
	PeerURLs []string
	Learner  bool
}

// Peers holds the answers of the running members.
type Peers struct {
	// Answers are the lists of all members that answered, in any order.
	Answers []Answer
}

// Answer is one member's view: its cluster, and the member list.
type Answer struct {
	From    string // its address
	Cluster string
	Members []Listed
}

// Situation holds everything that a decision depends on.
type Situation struct {
	Pod    string // NAMESPACE/NAME
	PodUID string
	Mark   *Mark // nil for none
	// MarkProblem is the cause for which the mark cannot be read; empty if it can.
	MarkProblem string
	Data        Data
	Ticket      Ticket
	Used        []string // texts of tickets that this pod has used
	Peers       Peers
	// PeerURL is the address at which other members find this one.
	PeerURL string
	// Known has the positions of this pod's members that are stored outside the volume: storage may put a volume back to an earlier state,
	// and the volume cannot show that. KnownProblem is the cause for which they cannot be read.
	Known        []etcdmember.Known
	KnownProblem string
}

// identity identifies the owner of the data: by the server's files, or else by the mark.
func (s Situation) identity() Identity {
	if s.Data.Identity.Member == "" && s.Mark != nil {
		return Identity{Cluster: s.Mark.Cluster, Member: s.Mark.Member}
	}
	return s.Data.Identity
}

// used reports whether the ticket was used in this pod, or the token of force on this volume.
func (s Situation) used() bool {
	if slices.Contains(s.Used, s.Ticket.Text) {
		return true
	}
	if s.Mark == nil {
		return false
	}
	return s.Mark.Ticket == s.Ticket.Text && s.Mark.PodUID == s.PodUID || s.Ticket.Verb == Force && s.Mark.Token == s.Ticket.Argument
}

// find returns a member from the lists of the running members of its cluster, and whether any of these answered. nil with true: all of them
// agree that it is not a member.
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
