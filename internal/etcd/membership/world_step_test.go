// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// mStep is a step in a form that a state can store, so it is comparable.
type mStep struct {
	action             Action
	ordinal            int
	pod, requestTarget Place
	member             ID
	peerURL, ticket    string
	claim              ClaimAt
	mark               Mark
	record, was        Record
	expect, healthy    string
	expects            bool
	phase              AuthorityPhase
	evidence           Evidence
	silent             bool
}

// key returns a comparable form of a member list.
func key(list []Member) string {
	text := make([]byte, 0, 64)
	for _, m := range list {
		text = append(text, byte(m.ID), byte(len(m.Name)), ' ')
		if m.Learner {
			text = append(text, 'l')
		}
		text = append(text, m.PeerURLs[0]...)
	}
	return string(text)
}

func pack(s Step) mStep {
	packed := mStep{
		action: s.Action, ordinal: s.Ordinal, pod: s.Pod, requestTarget: s.Via, member: s.Member, peerURL: s.PeerURL, ticket: s.Ticket, claim: s.Claim, mark: s.Mark, evidence: s.Evidence, silent: s.Quiet,
	}
	packed.was, packed.phase = s.Was, s.Authorities
	if s.Record != nil {
		packed.record = *s.Record
	}
	if s.Expect != nil {
		packed.expect, packed.expects = key(s.Expect), true
	}
	for _, place := range s.Healthy {
		packed.healthy += fmt.Sprintf("%d ", place.Member)
	}
	return packed
}

var errRefused = errors.New("refused")

// take runs a step with the proofs of package server. An error other than errRefused is harm by the operator.
func (w *world) take(s mStep) error {
	if s.requestTarget == (Place{}) && slices.Contains([]Action{ActionAddLearner, ActionPromote, ActionRemove, ActionMoveLeader, ActionRotate}, s.action) {
		return errRefused
	}
	if s.requestTarget != (Place{}) {
		p := w.pods[w.placeOf(s.requestTarget.Pod)]
		if p.phase != running || podUIDs[p.uid] != s.requestTarget.UID || ID(p.as) != s.requestTarget.Member || p.terminating {
			return errRefused
		}
	}
	if s.expects && (!w.quorate() || key(w.list()) != s.expect) {
		return errRefused
	}
	for text := range strings.FieldsSeq(s.healthy) {
		var id uint8
		_, _ = fmt.Sscan(text, &id)
		if w.without == "who answers" {
			break
		}
		if m := w.member(id); m == nil || !w.runs(id) || w.pods[m.place].terminating || !m.learner && !w.quorate() {
			return errRefused
		}
	}
	if err := w.prove(s); err != nil {
		return err
	}
	before := *w
	err := w.effect(s)
	if err != nil {
		return err
	}
	w.elect()
	return w.harm(&before, s)
}

// prove simulates the checks of package server right before a side effect.
func (w *world) prove(s mStep) error {
	m := w.member(uint8(s.member))
	fine := true
	switch {
	case s.action == ActionRemove && s.evidence != "" && m != nil && w.without != "the target is asked again":
		p, v := w.pods[m.place], w.volumes[m.place]
		fine = p.phase != none && podUIDs[p.uid] == s.pod.UID && !p.terminating
		switch s.evidence {
		case EvidenceLost:
			fine = fine && p.phase == waiting && (v.data == 0 || v.old || w.member(v.data) == nil)
		case EvidenceDamaged:
			fine = fine && p.phase == waiting && v.bad
		case EvidenceCrashing:
			fine = fine && p.phase == crashing
		case EvidenceCorrupt:
			fine = fine && v.wrong
		}
	case s.action == ActionDeletePod && w.without != "the claim is asked again":
		i := w.placeOf(s.pod.Pod)
		p, v := w.pods[i], w.volumes[i]
		fine = !v.terminating || v.data == 0 && p.phase == waiting || s.expects && w.member(v.data) == nil
	case s.action == ActionMarkClaim || s.action == ActionDeleteClaim:
		v := w.volumes[s.ordinal]
		fine = v.uid != 0 && claimUIDs[v.uid] == s.claim.UID && (v.version() == s.claim.Version || w.without == "the claim's version")
		if s.action == ActionDeleteClaim && w.pods[s.ordinal].phase != none && w.pods[s.ordinal].phase != starting && w.member(v.data) != nil && w.without != "the pod is asked again" {
			fine = false
		}
	case s.action == ActionTicket && IsForce(s.ticket):
		fine = w.record == s.was && !w.quorate()
	case s.action == ActionRotate && w.without != "what a member trusts":
		for _, m := range w.members {
			if p := &w.pods[m.place]; m.id != 0 && (!w.runs(m.id) || p.trusts != w.secrets.trusted || p.files != w.secrets) {
				fine = false
			}
		}
	case s.action == ActionDisarm:
		right, wrong := 0, 0
		for _, m := range w.members {
			switch {
			case m.id == 0 || m.learner:
			case !w.runs(m.id):
				fine = false
			case w.volumes[m.place].wrong:
				wrong++
			default:
				right++
			}
		}
		fine = fine && min(right, wrong) == 0
	}
	if !fine {
		return errRefused
	}
	return nil
}

func (w *world) placeOf(pod string) int {
	return int(pod[len(pod)-1] - '0')
}

func (w *world) at(place Place) *mPod {
	p := &w.pods[w.placeOf(place.Pod)]
	if p.phase == none || podUIDs[p.uid] != place.UID {
		return nil
	}
	return p
}

func (w *world) effect(s mStep) error {
	m := w.member(uint8(s.member))
	switch s.action {
	case ActionWait:
	case ActionRecord:
		if w.record != s.was {
			return errRefused
		}
		w.record = s.record
		w.recorded = w.recorded || s.record.Cluster != 0
	case ActionMarkClaim:
		v := &w.volumes[s.ordinal]
		if claimUIDs[v.uid] != s.claim.UID {
			return errRefused
		}
		v.claim, v.high, v.token = uint8(s.mark.Member), s.mark.Position.Index != 0, s.mark.Tokens != ""
	case ActionTicket:
		p := w.at(s.pod)
		if p == nil {
			return errRefused
		}
		if s.ticket == TicketSeed {
			for _, v := range w.volumes {
				if w.record.Cluster != 0 || v.claim != 0 {
					return errRefused // NeverFormed refuses
				}
			}
			// Until the first step has recorded the cluster, a loss of the only volume cannot be detected. So a second
			// cluster is harm only after that.
			if w.recorded {
				return errors.New("a second cluster may be formed")
			}
		}
		p.ticket = s.ticket
	case ActionAddLearner:
		return w.addLearner(s)
	case ActionPromote:
		switch {
		case m == nil:
			return errRefused
		case !m.caught || !w.runs(m.id) || !m.named:
			return fmt.Errorf("member %d votes without the data", m.id)
		case w.volumes[m.place].wrong:
			return fmt.Errorf("member %d votes with wrong keys", m.id)
		}
		m.learner = false
	case ActionRemove:
		if m == nil {
			return errRefused
		}
		*m = mMember{}
	case ActionMoveLeader:
		if uint8(s.requestTarget.Member) != w.leader || m == nil || !w.runs(m.id) {
			return errRefused
		}
		w.leader = m.id
	case ActionDeletePod:
		p := w.at(s.pod)
		if p == nil || s.pod.Member == 0 && p.phase == running {
			return errRefused
		}
		if v := w.volumes[w.placeOf(s.pod.Pod)]; v.terminating {
			if m := w.member(v.data); m != nil && !m.learner {
				return fmt.Errorf("a pod is deleted, and the data of member %d goes with its claim", m.id)
			}
		}
		p.terminating = true
	case ActionRotate:
		return w.rotate(s.phase)
	case ActionDisarm:
		w.alarm = 0
	case ActionDeleteClaim:
		v := &w.volumes[s.ordinal]
		if claimUIDs[v.uid] != s.claim.UID {
			return errRefused
		}
		if w.member(v.data) != nil {
			return fmt.Errorf("the claim of place %d is deleted, and has the data of member %d", s.ordinal, v.data)
		}
		v.terminating = true
	case ActionScale:
		w.set = min(w.set, s.ordinal)
	default:
		return fmt.Errorf("there is no action %s", s.action)
	}
	return nil
}

// rotate begins the next phase in the replacement of the certificate authorities.
func (w *world) rotate(from AuthorityPhase) error {
	r := &w.rotation
	if authorityPhases[r.phase] != from {
		return errRefused
	}
	switch from {
	case AuthoritiesAtRest:
		w.secrets.trusted |= 1 << (w.secrets.signer + 1)
		r.wanted = false
	case AuthoritiesTrust:
		w.secrets.signer++
	case AuthoritiesSign:
		w.secrets.trusted = 1 << w.secrets.signer
	}
	r.phase = (r.phase + 1) % 3
	return nil
}

func (w *world) addLearner(s mStep) error {
	place := slices.Index(urls(), s.peerURL)
	for _, m := range w.members {
		if m.id != 0 && (m.learner || int(m.place) == place) {
			return errRefused // too many learners, or the address exists
		}
	}
	for i := range w.members {
		if w.members[i].id == 0 {
			w.ids++
			w.members[i] = mMember{id: w.ids, place: int8(place), learner: true}
			return nil
		}
	}
	return errRefused
}

// harm returns an error if a step has an effect that no step may have, or nil.
func (w *world) harm(before *world, s mStep) error {
	had, ran, intact := before.voters()
	has, runs, still := w.voters()
	small := had <= 2 && s.action == ActionDeletePod // a cluster of one or two members is interrupted when its pods are replaced
	if s.action == ActionDeletePod {
		// A terminating pod does not count, because it ends shortly afterwards without the step.
		if p := before.at(s.pod); p != nil && p.phase == running && !p.terminating {
			if m := before.member(p.as); m != nil && !m.learner {
				after := *w
				after.pods[m.place].phase = none
				_, runs, _ = after.voters()
			}
		}
	}
	switch {
	case w.members != before.members && had > 0 && !before.quorate():
		return fmt.Errorf("%s changes the members without a quorum: %d of %d voters ran", s.action, ran, had)
	case intact > 0 && still == 0:
		return fmt.Errorf("%s takes the last data away: %d of %d voters had theirs", s.action, intact, had)
	case before.quorate() && ran >= quorum(had) && runs < quorum(has) && !small:
		return fmt.Errorf("%s takes the quorum away: %d of %d voters ran, %d of %d do", s.action, ran, had, runs, has)
	case intact >= quorum(had) && still < quorum(has):
		return fmt.Errorf("%s takes data away: %d of %d voters had theirs, %d of %d do", s.action, intact, had, still, has)
	}
	learners := 0
	for _, m := range w.members {
		if m.id != 0 && m.learner {
			learners++
		}
	}
	if learners > 1 {
		return fmt.Errorf("%s: there are %d learners", s.action, learners)
	}
	return nil
}
