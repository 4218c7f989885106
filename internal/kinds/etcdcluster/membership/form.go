// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"strings"
)

// form starts a cluster that was never there, with one member: the first pod gets the ticket to seed it, once all pods
// have said that their volumes are empty.
func (c *cluster) form() []Step {
	if c.Record.Replicas != 1 || c.Record.Version != c.want.Version {
		return c.record(PhaseCreating, func(r *Record) { r.Replicas, r.Version = 1, c.want.Version },
			"begin with one member of etcd %s", c.want.Version)
	}
	for i := range c.Pods {
		p := &c.Pods[i]
		if p.Report == nil || p.Terminating {
			return c.wait(PhaseCreating, "%s: %s", p.Name, p.trouble())
		}
	}
	first := c.pods[0]
	switch {
	case first == nil:
		return c.wait(PhasePending, "the first pod does not exist yet")
	case first.Report.Used == TicketSeed:
		// It was used, and nothing came of it. What is on an empty volume is not known any more.
		return c.do(PhaseCreating, Step{Action: ActionDeletePod, Pod: first.place()},
			"delete pod %s: it began a cluster, and its volume is empty again before the cluster was there", first.Name)
	case first.Ticket != TicketSeed:
		return c.do(PhaseCreating, Step{Action: ActionTicket, Pod: first.place(), Ticket: TicketSeed}, "let %s form the cluster", first.Name)
	default:
		return c.wait(PhaseCreating, "%s forms the cluster", first.Name)
	}
}

// remember writes down what would have to be guessed otherwise: which cluster this is and, where the resource was made
// anew over kept claims, how many pods have data.
func (c *cluster) remember() []Step {
	replicas := c.Record.Replicas
	if c.Record.Cluster == 0 && replicas <= 1 {
		for ordinal, claim := range c.claims {
			if claim.Member != 0 {
				replicas = max(replicas, ordinal+1)
			}
		}
	}
	if c.proven {
		for _, s := range c.members {
			replicas = max(replicas, s.ordinal+1)
		}
	}
	version := c.Record.Version
	if version == "" {
		for _, claim := range c.claims {
			if version == "" || claim.Version != "" && newer(claim.Version, version) {
				version = claim.Version
			}
		}
	}
	if version == "" {
		version = c.want.Version
	}
	record := c.Record
	record.Cluster, record.Replicas, record.Version = c.id, replicas, version
	if record == c.Record {
		return nil
	}
	record.Scheme = c.scheme()
	c.phase = c.creating()
	return []Step{{Action: ActionRecord, Record: &record, Was: c.Record, Message: fmt.Sprintf("write down that this is cluster %s, with %d pods", c.id, replicas)}}
}

// scheme returns that of the addresses at which the members know each other, or what is recorded of it. It is written with the next
// change of the record.
func (c *cluster) scheme() string {
	for _, s := range c.members {
		if s.ordinal >= 0 {
			if scheme, _, found := strings.Cut(s.PeerURLs[0], "://"); found {
				return scheme
			}
		}
	}
	return c.Record.Scheme
}

func (c *cluster) creating() string {
	if c.Record.Cluster == 0 {
		return PhaseCreating
	}
	return PhaseDegraded
}

// formed takes back the tickets that must not be used again: those to seed, and those of a recovery that is over.
func (c *cluster) formed() []Step {
	if c.Record.Survivor != "" {
		return c.record(PhaseRecovering, func(r *Record) { r.Survivor = "" }, "write down that a quorum is there again")
	}
	for i := range c.Pods {
		p := &c.Pods[i]
		if (p.Ticket == TicketSeed || isForce(p.Ticket)) && !p.Terminating {
			return c.do(c.creating(), Step{Action: ActionTicket, Pod: p.place(), Ticket: TicketNone}, "take back the ticket of %s, which it used", p.Name)
		}
	}
	return nil
}

// mark says on each claim whose data its volume holds.
func (c *cluster) mark() []Step {
	for _, s := range c.members {
		if s.answer == nil || s.claim == nil || s.claim.Terminating {
			continue
		}
		mark := Mark{Cluster: c.id, Member: s.ID, Version: s.answer.Version}
		if (Mark{s.claim.Cluster, s.claim.Member, s.claim.Version}) != mark {
			c.ongoing = true
			return c.do(c.creating(), Step{Action: ActionMarkClaim, Ordinal: s.ordinal, ClaimUID: s.claim.UID, Mark: mark, Pod: s.place()},
				"note on claim %s that its data is that of member %s", s.claim.Name, s.ID)
		}
	}
	return nil
}

// unblock replaces pods that cannot come up as they are, and in which nothing runs: those of an old revision, because
// a revision that does not start must not keep its own correction from being rolled out, and those whose claim
// is being deleted, because they would wait for ever.
func (c *cluster) unblock() []Step {
	for i := range c.Pods {
		p := &c.Pods[i]
		if p.Terminating || p.Answer != nil {
			continue
		}
		claim := c.claims[p.Ordinal]
		dead := !p.Running || p.Crashing
		switch {
		case p.Outdated && !c.Lagging && (dead || p.Report != nil):
			return c.do(PhaseUpgrading, Step{Action: ActionDeletePod, Pod: p.place()},
				"delete pod %s: nothing runs in it (%s), and another revision is wanted", p.Name, p.trouble())
		case claim != nil && claim.Terminating && (dead || p.Report != nil):
			return c.do(c.creating(), Step{Action: ActionDeletePod, Pod: p.place()},
				"delete pod %s: its claim is being deleted, and it gets a new one with a new pod", p.Name)
		}
	}
	return nil
}
