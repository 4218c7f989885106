// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// mStep is a step that is kept in a state: it must be comparable.
type mStep struct {
	action          Action
	ordinal         int
	pod, via        Place
	member          ID
	peerURL, ticket string
	claim           string
	mark            Mark
	record, was     Record
	expect, healthy string
	expects         bool
}

// key is a list of members in a form that can be compared.
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
		action: s.Action, ordinal: s.Ordinal, pod: s.Pod, via: s.Via, member: s.Member, peerURL: s.PeerURL, ticket: s.Ticket, claim: s.ClaimUID, mark: s.Mark,
	}
	if s.Record != nil {
		packed.record, packed.was = *s.Record, s.Was
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

// take takes a step as package server does: it proves first. An error that is not errRefused is harm that the operator did.
func (w *world) take(s mStep) error {
	if s.via != (Place{}) {
		p := w.pods[w.placeOf(s.via.Pod)]
		if p.phase != running || podUIDs[p.uid] != s.via.UID || ID(p.as) != s.via.Member || p.terminating {
			return errRefused
		}
	}
	if s.expects && (!w.quorate() || key(w.list()) != s.expect) {
		return errRefused
	}
	for text := range strings.FieldsSeq(s.healthy) {
		var id uint8
		_, _ = fmt.Sscan(text, &id)
		if m := w.member(id); m == nil || !w.runs(id) || w.pods[m.place].terminating || !m.learner && !w.quorate() {
			return errRefused
		}
	}
	before := *w
	err := w.effect(s)
	if err != nil {
		return err
	}
	w.elect()
	return w.harm(&before, s)
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
		if claimUIDs[v.uid] != s.claim {
			return errRefused
		}
		v.claim = uint8(s.mark.Member)
	case ActionTicket:
		p := w.at(s.pod)
		if p == nil {
			return errRefused
		}
		if s.ticket == TicketSeed {
			for _, v := range w.volumes {
				if w.record.Cluster != 0 || v.claim != 0 {
					return errRefused // NeverFormed
				}
			}
			// Until a cluster is written down, which is the first thing that is done, its only volume may get lost unnoticed.
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
		}
		m.learner = false
	case ActionRemove:
		if m == nil {
			return errRefused
		}
		*m = mMember{}
	case ActionMoveLeader:
		if uint8(s.via.Member) != w.leader || m == nil || !w.runs(m.id) {
			return errRefused
		}
		w.leader = m.id
	case ActionDeletePod:
		p := w.at(s.pod)
		if p == nil || s.pod.Member == 0 && p.phase == running {
			return errRefused
		}
		p.terminating = true
	case ActionDeleteClaim:
		v := &w.volumes[s.ordinal]
		if claimUIDs[v.uid] != s.claim {
			return errRefused
		}
		if w.member(v.data) != nil {
			return fmt.Errorf("the claim of place %d is deleted, and has the data of member %d", s.ordinal, v.data)
		}
		v.terminating = true
	default:
		return fmt.Errorf("there is no action %s", s.action)
	}
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

// harm says what a step did that it must not.
func (w *world) harm(before *world, s mStep) error {
	had, ran, intact := before.voters()
	has, runs, still := w.voters()
	small := had <= 2 && s.action == ActionDeletePod // a cluster of one or two cannot be rolled without a pause
	if s.action == ActionDeletePod {
		// A pod that is told to go has gone in a moment.
		if p := before.at(s.pod); p != nil && p.phase == running && !p.terminating {
			if m := before.member(p.as); m != nil && !m.learner {
				runs--
			}
		}
	}
	switch {
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
