// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"slices"
	"strings"
)

// IsForce reports whether a ticket allows a member to continue alone.
func IsForce(ticket string) bool { return strings.HasPrefix(ticket, ticketForce) }

// fate classifies a member.
type fate int

const (
	unknown fate = iota // the member may return with its data
	alive               // the member answers
	lost                // its data is lost, or its volume has data of a removed member
	swapped             // its pod has the data of another member of the cluster
)

// fateOf returns the fate of a member and the reason. Only the report of the agent in its pod can prove that its data
// is lost.
func (c *cluster) fateOf(s *memberState) (is fate, why string) {
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
	case report.Volume == VolumeForeign && report.Owner != "":
		return swapped, s.pod.trouble()
	case report.Volume == VolumeForeign:
		return swapped, "its volume has data that this operator did not write"
	case report.Outdated != "" && (report.Member == 0 || report.Member == s.ID):
		return lost, "its volume has an older state: " + report.Outdated
	case report.Member == 0 || report.Member == s.ID:
		return unknown, s.pod.trouble()
	case c.member(report.Member) != nil:
		return swapped, fmt.Sprintf("its volume has the data of member %s", report.Member)
	case !c.proven:
		return unknown, fmt.Sprintf("its volume has the data of member %s, but no quorum can confirm whether that member was removed", report.Member)
	default:
		return lost, fmt.Sprintf("its volume has the data of member %s, which was removed", report.Member)
	}
}

// whyLost explains why there is no quorum, and names the user's options.
func (c *cluster) whyLost() string {
	if len(c.voters) == 0 {
		return c.whySilent()
	}
	var trouble, answering []string
	gone := 0
	for _, s := range c.voters {
		is, why := c.fateOf(s)
		switch is {
		case alive:
			answering = append(answering, s.name())
			continue
		case lost:
			gone++
		case unknown, swapped:
		}
		trouble = append(trouble, fmt.Sprintf("%s: %s", s.name(), why))
	}
	need := quorum(len(c.voters))
	if len(answering) >= need {
		return fmt.Sprintf("%d of %d voters answer, but do not agree on a leader yet", len(answering), len(c.voters))
	}
	text := fmt.Sprintf("%s (%d of %d voters answer, a quorum is %d)", strings.Join(trouble, "; "), len(answering), len(c.voters), need)
	if len(c.voters)-gone >= need {
		return text
	}
	c.stuck, c.dataLost = true, true
	return text + c.advice()
}

// advice names the members whose data a user may choose for a recovery.
func (c *cluster) advice() string {
	var names []string
	for _, p := range c.candidates() {
		names = append(names, p.Name)
	}
	if len(names) == 0 {
		return ""
	}
	text := ": the data of too many members is lost. Restore a backup into a new cluster, or continue with the data of one member: set spec.recovery.from to " +
		strings.Join(names, " or ") + " (or Best) and spec.recovery.token to a new value. Writes that the chosen member has not received are lost"
	if token := c.want.Recovery.Token; token != "" && c.isUsed(token) {
		text += fmt.Sprintf(". The token %s was used before", token)
	}
	return text
}

// whySilent explains why no member answers, so that even the member list is unknown.
func (c *cluster) whySilent() string {
	var trouble, rest []string // the agents' reports are printed first
	replicas := c.planned()
	gone, old, silent := 0, 0, 0
	for ordinal := range replicas {
		p := c.pods[ordinal]
		switch {
		case p == nil || p.Terminating:
		case p.isEmpty():
			gone++
		case p.isOld(c.id):
			old++
		case p.isSilent(c.id):
			silent++
		}
		text := fmt.Sprintf("pod %d: %s", ordinal, p.trouble())
		if p != nil && p.Report != nil && !p.isEmpty() {
			trouble = append(trouble, text)
		} else {
			rest = append(rest, text)
		}
	}
	said := len(trouble) > 0
	trouble = append(trouble, rest...)
	switch {
	case gone == replicas:
		c.stuck, c.dataLost = true, true
		return fmt.Sprintf("the volumes of all %d members are empty, but cluster %s had data. Restore from a backup, or begin with an empty cluster: "+
			"set spec.recovery.from to Empty and spec.recovery.token to a new value", replicas, c.id)
	case gone+old+silent == replicas && silent < quorum(replicas):
		c.stuck, c.dataLost = true, true
		return strings.Join(trouble, "; ") + c.advice()
	}
	if said {
		return strings.Join(trouble, "; ")
	}
	return "no member answers: " + strings.Join(trouble, "; ")
}

// isOld reports whether the agent in a pod reports outdated data of the cluster.
func (p *Pod) isOld(cluster ID) bool {
	return p.Report != nil && p.Report.Volume == VolumeData && p.Report.Outdated != "" && p.Report.Cluster == cluster
}

// isSilent reports whether etcd runs in a pod on data of the cluster, but does not answer.
func (p *Pod) isSilent(cluster ID) bool {
	return p.Answer == nil && p.Report == nil && p.Watched != nil && p.Watched.Volume == VolumeData && p.Watched.Cluster == cluster
}

// candidates returns the pods from which a user may recover data, the longest log first. There are three kinds:
//
//   - a voter of the cluster answers in the pod;
//   - etcd runs on data of the cluster, but has found no quorum since its start;
//   - the agent waits with undamaged data of the cluster, which may be outdated or belong to a removed member.
func (c *cluster) candidates() []*Pod {
	var found []*Pod
	for ordinal := range MaxReplicas {
		p := c.pods[ordinal]
		switch {
		case p == nil || p.Terminating:
		case p.Answer != nil && !p.Answer.Learner && p.Answer.Cluster == c.id:
			found = append(found, p)
		case p.isSilent(c.id):
			found = append(found, p)
		case p.Report != nil && p.Report.Volume == VolumeData && p.Report.Cluster == c.id && p.Report.Damage == "" && p.Report.Waiting != "":
			found = append(found, p)
		}
	}
	slices.SortStableFunc(found, func(a, b *Pod) int {
		switch x, y := a.position(), b.position(); {
		case y.Before(x):
			return -1
		case x.Before(y):
			return 1
		}
		return 0
	})
	return found
}

// position returns the position of the last log entry in a pod.
func (p *Pod) position() Position {
	if p.Answer != nil {
		return Position{Term: p.Answer.Term, Index: max(p.Answer.Index, p.Answer.Applied)}
	}
	if p.Report == nil {
		return p.Watched.Position
	}
	return p.Report.Position
}

// isUsed reports whether a token was already used for a recovery of this cluster. Claims and volumes also store the
// tokens, because claims and volumes may outlive the record.
func (c *cluster) isUsed(token string) bool {
	if hasToken(c.Record.Tokens, token) {
		return true
	}
	return slices.ContainsFunc(c.Claims, func(claim Claim) bool { return hasToken(claim.Tokens, token) }) ||
		slices.ContainsFunc(c.Pods, func(p Pod) bool { return p.Report != nil && p.Report.Token == token })
}

func hasToken(tokens, token string) bool { return slices.Contains(strings.Fields(tokens), token) }

// keptTokens limits the number of recorded tokens.
const keptTokens = 50

func addToken(tokens, token string) string {
	all := append(strings.Fields(tokens), token)
	return strings.Join(all[max(0, len(all)-keptTokens):], " ")
}

// lastToken returns the token of the latest recovery.
func (c *cluster) lastToken() string {
	all := strings.Fields(c.Record.Tokens)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

// recover continues with the data of one member, or without data, if a user consents. A token is valid for one
// recovery; a new token restarts the recovery, even if the previous survivor is lost. The recovery waits until etcd or
// the agent in each other pod answers. Otherwise, an unreachable voter could return and form a quorum of the old
// cluster, and two clusters would exist.
func (c *cluster) recover() []Step {
	consent := c.want.Recovery
	if consent.Token == "" || c.isUsed(consent.Token) {
		if c.Record.Survivor != "" {
			return c.force()
		}
		return nil
	}
	if consent.From == RecoverEmpty {
		return c.beginAgain()
	}
	candidates := c.candidates()
	if why := c.whoMayHaveData(candidates); why != "" {
		return c.blocked("the recovery waits: %s", why)
	}
	if n := len(c.voters); n > 0 && len(candidates) > 0 && c.votes(candidates) >= quorum(n) {
		return nil // the voters will form a quorum
	}
	if run := c.running(candidates); run >= quorum(max(len(c.voters), c.planned())) {
		return c.blocked("the recovery waits: %d members run, and may form a quorum", run)
	}
	for _, p := range candidates {
		if consent.From == RecoverBest || consent.From == p.Name {
			if steps := c.endForce(p); len(steps) > 0 {
				return steps
			}
			// The pod of the survivor is kept, even if it was about to be removed for a smaller cluster.
			return c.record(PhaseRecovering, func(r *Record) {
				r.Tokens, r.Survivor, r.Replicas = addToken(r.Tokens, consent.Token), p.Name, max(r.Replicas, p.Ordinal+1)
			}, "begin the recovery %s: continue with the data of %s", consent.Token, p.Name)
		}
	}
	return c.blocked("the recovery waits: spec.recovery.from is %s, but no member of that name answers", consent.From)
}

func nameOf(p *Pod, ordinal int) string {
	if p == nil {
		return fmt.Sprintf("the pod with ordinal %d", ordinal)
	}
	return p.Name
}

// whoMayHaveData describes the first member that is not a candidate and may return with data. It returns "" if there is none.
func (c *cluster) whoMayHaveData(candidates []*Pod) string {
	for ordinal := range c.planned() {
		p := c.pods[ordinal]
		known := p != nil && !p.Terminating && (p.isEmpty() || p.Answer != nil && p.Answer.Learner)
		if !known && !slices.Contains(candidates, p) {
			text := fmt.Sprintf("it is not known whether %s has data (%s). ", nameOf(p, ordinal), p.trouble())
			switch claim := c.claims[ordinal]; {
			case claim != nil && claim.Malformed != "":
				return text + fmt.Sprintf("Bring that pod back: claim %s has a malformed annotation, and may have the last copy", claim.Name)
			case claim != nil && claim.Member != 0:
				return text + fmt.Sprintf("Bring that pod back: claim %s is marked as the claim of member %s, and may have the last copy", claim.Name, claim.Member)
			}
			return text + "If the data of that pod is lost permanently, delete the pod and its claim"
		}
	}
	for _, s := range c.voters {
		if s.ordinal < 0 {
			return fmt.Sprintf("no pod of this cluster runs member %s (%s), which may have data", s.ID, s.Name)
		}
	}
	return ""
}

// endForce deletes pods that a previous recovery has allowed to continue alone. Their tickets are deleted with them.
// Otherwise two members could continue alone.
func (c *cluster) endForce(but *Pod) (steps []Step) {
	for i := range c.Pods {
		p := &c.Pods[i]
		switch {
		case p == but || p.Terminating || !IsForce(p.Ticket) || p.isEmpty():
		case c.losesData(p.Ordinal):
			c.stuck = true
			return append(steps, c.wait(PhaseRecovering, "the recovery waits: the previous recovery allows %s to continue alone, but the claim of this pod is being deleted", p.Name)...)
		default:
			steps = append(steps, c.do(PhaseRecovering, p.deletePod(), "delete pod %s: the previous recovery allowed it to continue alone, and the deletion ends that permission", p.Name)...)
		}
	}
	return steps
}

// votes returns the number of pods in which a member of the member list answers.
func (c *cluster) votes(pods []*Pod) int {
	n := 0
	for _, p := range pods {
		if p.Answer != nil && c.member(p.Answer.Member) != nil {
			n++
		}
	}
	return n
}

// running returns the number of pods in which etcd runs: a member of the member list answers, or etcd does not answer
// yet.
func (c *cluster) running(pods []*Pod) int {
	n := c.votes(pods)
	for _, p := range pods {
		if p.isSilent(c.id) {
			n++
		}
	}
	return n
}

// force allows the survivor to continue alone. Before that, it marks the token as used on the claims, because the
// record may be lost. The survivor's pod is not deleted: its agent reads the ticket and restarts etcd.
func (c *cluster) force() (steps []Step) {
	token := c.lastToken()
	for i := range c.Claims {
		claim := &c.Claims[i]
		if claim.Terminating || claim.Member == 0 || hasToken(claim.Tokens, token) || c.pods[claim.Ordinal] == nil {
			continue
		}
		mark := claim.mark()
		mark.Tokens = c.Record.Tokens
		steps = append(steps, c.do(PhaseRecovering, Step{Action: ActionMarkClaim, Ordinal: claim.Ordinal, Claim: claim.at(), Mark: mark, Pod: c.pods[claim.Ordinal].place()},
			"record on claim %s that the token %s is used", claim.Name, token)...)
	}
	if len(steps) > 0 {
		return steps
	}
	var silent []Place
	var survivor *Pod
	for i := range c.Pods {
		if p := &c.Pods[i]; p.Name == c.Record.Survivor && !p.Terminating {
			survivor = p
		} else if !p.Terminating {
			silent = append(silent, p.place())
		}
	}
	const other = "; to continue with another member, set spec.recovery.from, and spec.recovery.token to a new value"
	switch p := survivor; {
	case p == nil:
		return c.wait(PhaseRecovering, "pod %s must continue as the only member, but does not exist%s", c.Record.Survivor, other)
	case p.isEmpty():
		c.stuck = true
		return c.record(PhaseRecovering, func(r *Record) { r.Survivor = "" }, "end the recovery %s: the volume of %s is empty", token, p.Name)
	case p.Answer == nil && p.Report != nil && p.Report.Token == token:
		c.stuck = true
		return c.record(PhaseRecovering, func(r *Record) { r.Survivor = "" }, "end the recovery %s: the token was used on the volume of %s before", token, p.Name)
	case p.Ticket != ForceTicket(token):
		return c.do(PhaseRecovering, Step{Action: ActionTicket, Pod: p.place(), Ticket: ForceTicket(token), Silent: silent, Was: c.Record}, "let %s continue alone", p.Name)
	default:
		return c.wait(PhaseRecovering, "%s starts as the only member%s", p.Name, other)
	}
}

// beginAgain resets a cluster after all of its data is lost. It removes the marks on the claims before it resets the
// record. So after a crash, the next operator can continue.
func (c *cluster) beginAgain() (steps []Step) {
	for ordinal := range c.planned() {
		p := c.pods[ordinal]
		if p == nil || p.Terminating || !p.isEmpty() {
			return c.blocked("the recovery waits: it is not known whether %s has data (%s)", nameOf(p, ordinal), p.trouble())
		}
	}
	token := c.want.Recovery.Token
	tokens := addToken(c.Record.Tokens, token)
	for i := range c.Claims {
		claim := &c.Claims[i]
		if claim.Cluster == 0 && !claim.mayHaveData() || claim.Terminating {
			continue
		}
		if c.pods[claim.Ordinal] == nil {
			return c.blocked("the recovery waits: claim %s may have data, and no pod uses the claim. If the data is not needed, delete the claim", claim.Name)
		}
		steps = append(steps, c.do(PhaseRecovering, Step{Action: ActionMarkClaim, Ordinal: claim.Ordinal, Claim: claim.at(), Pod: c.pods[claim.Ordinal].place()},
			"record on claim %s that its volume is empty", claim.Name)...)
	}
	if len(steps) > 0 {
		return steps
	}
	return c.do(PhaseRecovering, Step{Action: ActionRecord, Record: &Record{Replicas: 1, Version: c.want.Version, Tokens: tokens}, Was: c.Record},
		"begin the recovery %s: all data is lost, and a new, empty cluster is formed", token)
}
