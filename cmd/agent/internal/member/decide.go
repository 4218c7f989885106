// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"fmt"
	"slices"
	"strings"
)

// Volume classifies the state of a volume.
type Volume string

// The kinds of volumes.
const (
	// Empty: no server has ever completed data on the volume.
	Empty Volume = "Empty"
	// Own: the volume has data of this pod.
	Own Volume = "Own"
	// Lost: the mark names data that no longer exists.
	Lost Volume = "Lost"
	// Foreign: the data has no readable mark, or the mark names another pod or another member.
	Foreign Volume = "Foreign"
)

// Reason names the cause of a wait.
type Reason string

// The reasons to wait.
const (
	// NeedsTicket: the volume has no data, and the pod has no ticket.
	NeedsTicket Reason = "NeedsTicket"
	// TicketUsed: the ticket was used already; another ticket is needed.
	TicketUsed Reason = "TicketUsed"
	// TicketRefused: the ticket does not match the volume or the running members.
	TicketRefused Reason = "TicketRefused"
	// NoPeers: no running member lists the member that the ticket names.
	NoPeers Reason = "NoPeers"
	// DataLost: the data that the mark names does not exist.
	DataLost Reason = "DataLost"
	// DataForeign: the data belongs to another pod, or to an unknown one.
	DataForeign Reason = "DataForeign"
	// DataDamaged: the data differs from what the server wrote.
	DataDamaged Reason = "DataDamaged"
	// TLSChanged: this member's address in the member list has another scheme, http or https, than the address of this pod.
	TLSChanged Reason = "TLSChanged"
	// DataOutdated: the log of the data ends before the member's furthest known position, or the known positions cannot be read.
	DataOutdated Reason = "DataOutdated"
	// Removed: the running members have removed the member that the data belongs to.
	Removed Reason = "Removed"
)

// Decision is the action of the agent: start the server, or wait because of a Reason.
type Decision struct {
	Volume Volume
	// Reason is the reason why the server does not start; empty if it starts.
	Reason Reason
	// Message explains Reason to users and names the next step.
	Message string
	// Start is the verb of the ticket that the start uses; empty for a start without a ticket.
	Start Verb
	// SetAside reports whether the data folder is renamed before the start.
	SetAside bool
	// Members is the member list of the cluster to join, including this member; set only if Start is Join.
	Members []Listed
}

// Decide returns whether the server starts, or the reason to wait. It has no side effects.
func Decide(s Situation) Decision {
	d := Decision{Volume: volumeOf(s)}
	switch d.Volume {
	case Foreign:
		return d.foreign(s)
	case Own:
		return d.own(s)
	case Lost:
		return d.withoutData(s, DataLost, fmt.Sprintf("the volume had data of member %s, which is lost: the member does not start empty under that id", s.Mark.Member))
	default:
		return d.withoutData(s, NeedsTicket, "the volume is empty: waiting for the operator's permission to form a cluster or to join it")
	}
}

func (d Decision) wait(reason Reason, format string, args ...any) Decision {
	d.Reason, d.Message = reason, fmt.Sprintf(format, args...)
	return d
}

// schemeOf returns the scheme of a URL.
func schemeOf(url string) string {
	scheme, _, _ := strings.Cut(url, "://")
	return scheme
}

func volumeOf(s Situation) Volume {
	switch {
	case s.MarkProblem != "" || s.Mark != nil && s.Mark.Pod != s.Pod:
		return Foreign
	case s.Data.Exists && s.Data.Problem != "" && s.Mark.started():
		return Own // according to its mark
	case s.Data.Exists && !belongs(s.Mark, s.Data.Identity):
		return Foreign
	case s.Data.Exists:
		return Own
	case s.Mark.started():
		return Lost
	case s.Data.Leftovers && s.Mark == nil:
		return Foreign
	}
	return Empty
}

// belongs reports whether the mark names the cluster and the member of the data. A mark without IDs was written before the start that
// created the data. In that case, its ticket decides: a join ticket must name the data's member, but with a seed ticket the data may have
// any IDs.
func belongs(m *Mark, of Identity) bool {
	if m == nil || of.Member == "" {
		return false
	}
	if m.started() {
		return m.Cluster == of.Cluster && m.Member == of.Member
	}
	ticket, err := ParseTicket(m.Ticket)
	return err == nil && (ticket.Verb == Seed || ticket.Verb == Join && ticket.Argument == of.Member)
}

func (d Decision) foreign(s Situation) Decision {
	whose := "without a mark of the operator"
	switch {
	case s.MarkProblem != "":
		whose = "that is not known: " + s.MarkProblem
	case s.Data.Problem != "":
		whose = "that is not known: " + s.Data.Problem
	case s.Mark != nil && s.Mark.Pod != s.Pod:
		whose = "of pod " + s.Mark.Pod
	case s.Mark.started():
		whose = fmt.Sprintf("of member %s, but its mark says member %s", s.Data.Identity.Member, s.Mark.Member)
	case s.Mark != nil:
		whose = fmt.Sprintf("of member %s, but the volume was prepared for the ticket %s", s.Data.Identity.Member, s.Mark.Ticket)
	}
	return d.wait(DataForeign, "the volume has data %s: no member starts on the volume. Put the right volume under the claim, or delete the claim and the pod", whose)
}

// own decides for a volume with data of this pod.
func (d Decision) own(s Situation) Decision {
	if has := schemeOf(s.PeerURL); s.Mark != nil && s.Mark.Scheme != "" && s.Mark.Scheme != has {
		return d.wait(TLSChanged, "the members know each other by %s addresses, but this one would use %s: restore spec.tls.mode. "+
			"To change it, restore a backup into a new cluster", s.Mark.Scheme, has)
	}
	id := s.identity()
	member, known := s.Peers.find(id)
	removed := known && member == nil
	if s.Ticket.Text == "" || s.used() || s.Ticket.Verb == Seed || s.Ticket.Verb == Join && s.Ticket.Argument == id.Member {
		if removed {
			return d.wait(Removed, "the data is of member %s, which was removed from the cluster: waiting for the operator's permission to join as another member", id.Member)
		}
		if s.Data.Damage != "" {
			return d.wait(DataDamaged, "the data of member %s is damaged (%s): the member does not start on incomplete data. The operator replaces the member while the other members form a quorum; "+
				"otherwise restore a backup into a new cluster, or continue with the data of another member (spec.recovery)", id.Member, s.Data.Damage)
		}
		if s.KnownProblem != "" {
			return d.wait(DataOutdated, "it is not known whether the data of member %s is the latest: %s", id.Member, s.KnownProblem)
		}
		if outdated := s.outdated(); outdated != "" {
			return d.wait(DataOutdated, "the volume has an older state: %s. A member on it would vote without the entries that member %s has acknowledged since. The operator replaces the member while the other members form a quorum; "+
				"otherwise put the latest volume under the claim, or continue with the data of one member (spec.recovery)", outdated, id.Member)
		}
		return d
	}
	if s.Ticket.Verb == Force {
		d.Start = Force
		return d
	}
	if !removed {
		return d.wait(TicketRefused, "the ticket %s is for another member: the volume has the data of member %s, and no running member has confirmed its removal", s.Ticket.Text, id.Member)
	}
	d.SetAside = true
	return d.join(s)
}

// withoutData decides for a volume without data. Without a ticket, the agent waits with the reason and the message.
func (d Decision) withoutData(s Situation, reason Reason, message string) Decision {
	switch {
	case s.Ticket.Text == "":
		return d.wait(reason, "%s", message)
	case s.used():
		return d.wait(TicketUsed, "%s; the ticket %s was used for a start that did not finish", message, s.Ticket.Text)
	case s.Ticket.Verb == Force:
		return d.wait(TicketRefused, "%s; the ticket %s requires a volume with data", message, s.Ticket.Text)
	case d.Volume == Lost && s.Ticket.Verb == Seed:
		return d.wait(TicketRefused, "%s; the ticket %s is for a volume that never had data: delete the claim and the pod to get an empty volume", message, s.Ticket.Text)
	case d.Volume == Lost && s.Ticket.Argument == s.Mark.Member:
		return d.wait(TicketRefused, "%s; the ticket %s names the id of the lost member", message, s.Ticket.Text)
	}
	d.SetAside = s.Data.Leftovers
	if s.Ticket.Verb == Seed {
		d.Start = Seed
		return d
	}
	return d.join(s)
}

// join decides for a join ticket. Each running member that lists the ID must list it as a learner that was never
// started: a started member may have voted already.
func (d Decision) join(s Situation) Decision {
	id := s.Ticket.Argument
	refuse := func(why string) Decision {
		d.SetAside = false
		return d.wait(TicketRefused, "the ticket %s is refused: %s", s.Ticket.Text, why)
	}
	var members []Listed
	for _, answer := range s.Peers.Answers {
		if answer.Cluster != s.Peers.Answers[0].Cluster {
			return refuse(fmt.Sprintf("the running members belong to two clusters, %s and %s", s.Peers.Answers[0].Cluster, answer.Cluster))
		}
		i := slices.IndexFunc(answer.Members, func(m Listed) bool { return m.ID == id })
		if i < 0 {
			continue
		}
		switch m := answer.Members[i]; {
		case m.Name != "":
			return refuse(fmt.Sprintf("member %s was started before under the name %s", id, m.Name))
		case !m.Learner:
			return refuse(fmt.Sprintf("member %s is not a learner", id))
		case !slices.Contains(m.PeerURLs, s.PeerURL):
			return refuse(fmt.Sprintf("member %s has the address %v, but this pod has the address %s", id, m.PeerURLs, s.PeerURL))
		}
		members = answer.Members
	}
	if members == nil {
		d.SetAside = false
		return d.wait(NoPeers, "the ticket %s waits for a running member that knows the id %s (%d answered)", s.Ticket.Text, id, len(s.Peers.Answers))
	}
	d.Start, d.Members = Join, members
	return d
}
