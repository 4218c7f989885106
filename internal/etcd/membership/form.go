// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// form starts a new cluster with one member. When the agents of all pods report empty volumes, it gives the first pod the ticket to seed.
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
	for i := range c.Claims {
		if claim := &c.Claims[i]; claim.Malformed != "" {
			c.stuck = true
			return c.wait(PhaseFailed, "no cluster is formed: claim %s has a malformed annotation: %s. The annotation shows that the volume had data: restore the volume; or remove the annotation if the data is not needed",
				claim.Name, claim.Malformed)
		}
	}
	first := c.pods[0]
	switch {
	case first == nil:
		return c.wait(PhasePending, "the first pod does not exist yet")
	case first.Report.Used == TicketSeed:
		// The ticket was used, but no cluster exists. The former content of the empty volume is unknown.
		return c.do(PhaseCreating, first.deletePod(), "delete pod %s: it was allowed to form the cluster, but no cluster exists, and its volume is empty", first.Name)
	case first.Ticket != TicketSeed:
		return c.do(PhaseCreating, Step{Action: ActionTicket, Pod: first.place(), Ticket: TicketSeed}, "let %s form the cluster", first.Name)
	default:
		return c.wait(PhaseCreating, "%s forms the cluster", first.Name)
	}
}

// remember records facts that could otherwise only be guessed: the ID of the cluster, and the number of pods with data.
// This number is needed if a user has created the resource again while the claims of the earlier resource still exist.
func (c *cluster) remember() []Step {
	replicas := c.Record.Replicas
	if c.Record.Cluster == 0 && replicas <= 1 {
		for ordinal, claim := range c.claims {
			if claim.mayHaveData() {
				replicas = max(replicas, ordinal+1)
			}
		}
	}
	for _, s := range c.members { // also from a list that no quorum confirms, because an extra pod does no harm
		replicas = max(replicas, s.ordinal+1)
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
	for i := range c.Claims { // used tokens are restored, in case the record was lost
		for token := range strings.FieldsSeq(c.Claims[i].Tokens) {
			if all := strings.Fields(record.Tokens); !slices.Contains(all, token) && len(all) < keptTokens {
				record.Tokens = strings.Join(append([]string{token}, all...), " ") // the latest token stays last
			}
		}
	}
	if record == c.Record {
		return nil
	}
	record.Scheme = c.scheme()
	return c.do(c.creating(), Step{Action: ActionRecord, Record: &record, Was: c.Record}, "record that this is cluster %s, with %d pods", c.id, replicas)
}

// scheme returns the scheme in the members' peer URLs, or else the recorded scheme. The next change of the record stores
// the scheme.
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

// formed revokes tickets that must not be used a second time: the ticket to seed, and the tickets of a completed recovery. It
// is also the only rule that lowers the position on a claim: after a recovery, the survivor's data may be older than
// that position.
func (c *cluster) formed() (steps []Step) {
	for _, s := range c.members {
		if c.Record.Survivor == "" || s.answer == nil || s.claim == nil || s.claim.Terminating || s.pod.Name != c.Record.Survivor {
			continue
		}
		if mark := c.markOf(s); s.answer.Position().Before(s.claim.Position) && mark != s.claim.mark() {
			return c.do(PhaseRecovering, c.markClaim(s, mark), "annotate claim %s with the position of the last log entry in the recovered data", s.claim.Name)
		}
	}
	if c.Record.Survivor != "" {
		return c.record(PhaseRecovering, func(r *Record) { r.Survivor = "" }, "record that a quorum answers again")
	}
	for i := range c.Pods {
		p := &c.Pods[i]
		if (p.Ticket == TicketSeed || IsForce(p.Ticket)) && !p.Terminating {
			steps = append(steps, c.do(c.creating(), Step{Action: ActionTicket, Pod: p.place(), Ticket: TicketNone}, "remove the ticket of %s, which was used", p.Name)...)
		}
	}
	return steps
}

const (
	// markEvery is the minimum time between two updates of a claim's position.
	markEvery = 2 * time.Second
	// fewEntries is a number of log entries. If a claim's position lags by fewer entries, another pass soon writes the
	// new position. This happens, for example, after members have joined an idle cluster.
	fewEntries = 100
)

// mark annotates each claim with the member that owns the data on the claim's volume.
func (c *cluster) mark() (steps []Step) {
	for _, s := range c.members {
		if s.answer == nil || s.claim == nil || s.claim.Terminating {
			continue
		}
		mark, was := c.markOf(s), s.claim.mark()
		if mark.Member == was.Member {
			mark.Position = was.Position
		}
		if mark != was {
			step := c.markClaim(s, mark)
			step.ongoing = true
			steps = append(steps, c.do(c.creating(), step, "record on claim %s that its data belongs to member %s", s.claim.Name, s.ID)...)
		}
	}
	return steps
}

// markPositions returns a step that annotates a claim with the last log entry of its data. The step does not change the
// cluster and is not shown to users. It runs in addition to any other step, unless that step changes the same claim.
func (c *cluster) markPositions(steps []Step) (marks []Step) {
	if !c.proven || len(c.ids) > 1 || c.Record.Survivor != "" {
		return nil
	}
	for _, s := range c.members {
		if s.answer == nil || s.claim == nil || s.claim.Terminating || s.claim.Member != s.ID || s.claim.Cluster != c.id {
			continue
		}
		if len(steps) > 0 && (steps[0].Action == ActionMarkClaim || steps[0].Action == ActionDeleteClaim) && steps[0].Ordinal == s.ordinal {
			continue
		}
		now, was := s.answer.Position(), s.claim.Position
		if !was.Before(now) { // a member that has just started may still be reading its log
			continue
		}
		if was.Index != 0 && s.claim.MarkedFor < markEvery {
			c.markSoon = c.markSoon || now.Index-was.Index < fewEntries
			continue
		}
		mark := s.claim.mark()
		mark.Position = now
		step := c.markClaim(s, mark)
		step.Quiet, step.Message = true, fmt.Sprintf("record on claim %s that its data goes up to entry %d", s.claim.Name, now.Index)
		marks = append(marks, step)
	}
	return c.due(marks)
}

func (c *cluster) markOf(s *memberState) Mark {
	return Mark{Cluster: c.id, Member: s.ID, Version: s.answer.Version, Position: s.answer.Position(), Tokens: c.Record.Tokens}
}

func (c *cluster) markClaim(s *memberState, mark Mark) Step {
	return Step{Action: ActionMarkClaim, Ordinal: s.ordinal, Claim: s.claim.at(), Mark: mark, Pod: s.place()}
}

// unblock replaces two kinds of pods in which etcd does not run and cannot start:
//
//   - pods of an old revision, because a revision that does not start must not block the rollout of its fix;
//   - pods whose claim is being deleted and whose data is not needed, because they would wait forever.
//
// It keeps a pod in three cases: its data may be needed; its claim is being deleted while no quorum has the same keys;
// or the latest revision has failed on another voter while a quorum is proven, so that the old revision may serve
// again.
func (c *cluster) unblock() (steps []Step) {
	for i := range c.Pods {
		p := &c.Pods[i]
		claim := c.claims[p.Ordinal]
		leaves := claim != nil && claim.Terminating
		if p.Terminating || p.Answer != nil || c.losesData(p.Ordinal) || leaves && c.alarmed && !c.agreed {
			continue
		}
		step := p.deletePod()
		if c.proven && leaves {
			step.Via, step.Expect = c.requestTarget(nil), c.list // a quorum must have removed the member that owned the data
		}
		switch {
		case !leaves && c.mayServeAgain(p):
			c.failedChange(c.failed())
		case p.Outdated && !c.Lagging && (!p.Running || p.Crashing || p.Report != nil):
			steps = append(steps, c.do(PhaseUpgrading, step, "delete pod %s: nothing runs in it (%s), and another revision is wanted", p.Name, p.trouble())...)
		case leaves && p.Report != nil:
			steps = append(steps, c.do(c.creating(), step, "delete pod %s: its claim is being deleted, and the new pod gets a new claim", p.Name)...)
		}
	}
	return steps
}
