// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"strings"
)

func isForce(ticket string) bool { return strings.HasPrefix(ticket, ticketForce) }

// fate is what is known of a member that does not answer.
type fate int

const (
	unknown fate = iota // it may come back with its data
	alive               // it answers
	lost                // its data is gone, or was replaced by that of nobody
	swapped             // its pod has the data of another member of the cluster
)

// fateOf says what became of a member. It is lost by the agent's word alone, and that word is about the very pod.
func (c *cluster) fateOf(s *seat) (is fate, why string) {
	switch {
	case s.answer != nil:
		return alive, ""
	case s.pod == nil || s.pod.Terminating || s.pod.Report == nil:
		return unknown, s.pod.trouble()
	}
	report := s.pod.Report
	switch {
	case report.Volume == VolumeEmpty:
		return lost, "its volume is empty"
	case report.Volume == VolumeForeign:
		return swapped, "its volume has data that is not this operator's"
	case report.Member == 0 || report.Member == s.ID:
		return unknown, s.pod.trouble()
	case c.member(report.Member) != nil:
		return swapped, fmt.Sprintf("its volume has the data of member %s", report.Member)
	default:
		return lost, fmt.Sprintf("its volume has the data of member %s, which was removed", report.Member)
	}
}

// whyLost says why there is no quorum, and what a person can do.
func (c *cluster) whyLost() string {
	var trouble, gone, answering []string
	if len(c.voters) == 0 {
		return c.whySilent()
	}
	for _, s := range c.voters {
		switch is, why := c.fateOf(s); is {
		case alive:
			answering = append(answering, s.name())
		case lost:
			gone = append(gone, s.name())
			trouble = append(trouble, fmt.Sprintf("%s: %s", s.name(), why))
		case unknown, swapped:
			trouble = append(trouble, fmt.Sprintf("%s: %s", s.name(), why))
		}
	}
	need := quorum(len(c.voters))
	text := fmt.Sprintf("%d of %d voters answer, a quorum is %d (%s)", len(answering), len(c.voters), need, strings.Join(trouble, "; "))
	if len(answering) >= need {
		return fmt.Sprintf("%d of %d voters answer and do not agree on a leader yet", len(answering), len(c.voters))
	}
	if len(c.voters)-len(gone) >= need {
		return text
	}
	c.stuck, c.dataLost = true, true
	if len(answering) > 0 {
		return text + ": the data of too many members is gone. Restore from a backup, or go on with the data of one member: set spec.recovery.from to " +
			strings.Join(answering, " or ") + " (or Best) and spec.recovery.token to a new value. What the others had acknowledged and it had not received is lost then"
	}
	return text
}

// whySilent says why nobody answers, so that even the list of members is not known.
func (c *cluster) whySilent() string {
	var trouble []string
	replicas, _ := Planned(c.want, c.Record)
	gone := 0
	for ordinal := range replicas {
		p := c.pods[ordinal]
		if p != nil && !p.Terminating && p.Report != nil && p.Report.Volume == VolumeEmpty {
			gone++
		}
		trouble = append(trouble, fmt.Sprintf("pod %d: %s", ordinal, p.trouble()))
	}
	if gone == replicas {
		c.stuck, c.dataLost = true, true
		return fmt.Sprintf("the volumes of all %d members are empty, and cluster %s had data. Restore from a backup, or begin with an empty cluster: "+
			"set spec.recovery.from to Empty and spec.recovery.token to a new value", replicas, c.id)
	}
	return "no member answers: " + strings.Join(trouble, "; ")
}

// recover goes on with one member, or with none, where a person consents to it, once for each token. The data of every
// other voter must be known to be gone, or that voter must answer: one that may come back could find a quorum of the old
// cluster beside the new one.
func (c *cluster) recover() []Step {
	if c.Record.Survivor != "" {
		return c.force()
	}
	consent := c.want.Recovery
	if consent.Token == "" || consent.Token == c.Record.Token {
		return nil
	}
	if consent.From == RecoverEmpty {
		return c.beginAgain()
	}
	gone := 0
	for _, s := range c.voters {
		switch is, why := c.fateOf(s); is {
		case lost:
			gone++
		case alive:
		case unknown, swapped:
			return c.blocked("the recovery waits: nobody knows whether %s has data (%s). If it is gone for good, delete its claim and its pod", s.name(), why)
		}
	}
	if len(c.voters)-gone >= quorum(len(c.voters)) {
		return nil // they will find each other
	}
	survivor := c.survivor()
	if survivor == nil {
		return c.blocked("the recovery waits: spec.recovery.from is %s, and no such member answers", consent.From)
	}
	return c.record(PhaseRecovering, func(r *Record) { r.Token, r.Survivor = consent.Token, survivor.pod.Name },
		"begin the recovery %s: go on with the data of %s", consent.Token, survivor.pod.Name)
}

// survivor returns the member that is asked for, if it answers: the best has the highest term, and then the longest log.
func (c *cluster) survivor() *seat {
	var best *seat
	for _, s := range c.voters {
		if s.answer == nil || s.pod.Terminating || c.want.Recovery.From != RecoverBest && s.pod.Name != c.want.Recovery.From {
			continue
		}
		if best == nil || s.answer.Term > best.answer.Term || s.answer.Term == best.answer.Term && s.answer.Index > best.answer.Index {
			best = s
		}
	}
	return best
}

// force lets the survivor go on alone. Its agent reads the ticket when it starts, so a pod in which etcd runs already is
// replaced, and the new one gets the ticket before its container starts. Where that was too late, etcd runs as before,
// without a quorum, and it is done again.
func (c *cluster) force() []Step {
	for i := range c.Pods {
		p := &c.Pods[i]
		if p.Name != c.Record.Survivor || p.Terminating {
			continue
		}
		if p.Report != nil && p.Report.Volume == VolumeEmpty {
			c.stuck = true
			return c.record(PhaseRecovering, func(r *Record) { r.Survivor = "" }, "end the recovery %s: the volume of %s is empty", c.Record.Token, p.Name)
		}
		if p.Answer != nil && len(p.Answer.Members) > 1 {
			return c.do(PhaseRecovering, Step{Action: ActionDeletePod, Pod: p.place()}, "replace pod %s, so that it goes on alone", p.Name)
		}
		if ticket := ForceTicket(c.Record.Token); p.Ticket != ticket && p.Answer == nil {
			return c.do(PhaseRecovering, Step{Action: ActionTicket, Pod: p.place(), Ticket: ticket}, "let %s go on alone", p.Name)
		}
		return c.wait(PhaseRecovering, "%s starts as the only member", p.Name)
	}
	return c.wait(PhaseRecovering, "pod %s is to go on alone, and does not exist", c.Record.Survivor)
}

// beginAgain forgets a cluster of which nothing is left. What says that it was there goes first, so that an operator that
// ends in between goes on with it.
func (c *cluster) beginAgain() []Step {
	replicas, _ := Planned(c.want, c.Record)
	for ordinal := range replicas {
		p := c.pods[ordinal]
		if p == nil || p.Terminating || p.Report == nil || p.Report.Volume != VolumeEmpty {
			return c.blocked("the recovery waits: nobody knows whether the pod with ordinal %d has data (%s)", ordinal, p.trouble())
		}
	}
	for i := range c.Claims {
		claim := &c.Claims[i]
		if claim.Cluster == 0 && claim.Member == 0 || claim.Terminating {
			continue
		}
		if c.pods[claim.Ordinal] == nil {
			return c.blocked("the recovery waits: claim %s may have data, and no pod uses it. If it is not needed, delete it", claim.Name)
		}
		return c.do(PhaseRecovering, Step{Action: ActionMarkClaim, Ordinal: claim.Ordinal, ClaimUID: claim.UID, Pod: c.pods[claim.Ordinal].place()},
			"note on claim %s that its volume is empty", claim.Name)
	}
	return c.do(PhaseRecovering, Step{Action: ActionRecord, Record: &Record{Replicas: 1, Version: c.want.Version, Token: c.want.Recovery.Token}, Was: c.Record},
		"begin the recovery %s: all data is gone, and a new, empty cluster is formed", c.want.Recovery.Token)
}
