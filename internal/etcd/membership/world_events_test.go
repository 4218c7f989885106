// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"errors"
	"fmt"
)

// progress returns all changes that happen without the operator. Each function reports whether it has changed the world. An error reports
// harm.
func (w *world) progress() []func(*world) (bool, error) {
	moves := []func(*world) (bool, error){}
	for i := range spots {
		moves = append(moves,
			func(w *world) (bool, error) {
				before := *w
				changed := w.comeAndGo(i)
				return changed, w.takenAway(&before, i)
			},
			func(w *world) (bool, error) { return w.startPod(i) },
			func(w *world) (bool, error) { return w.refresh(i) },
			func(w *world) (bool, error) { return w.publish(i), nil },
		)
	}
	return append(moves, func(w *world) (bool, error) {
		was := w.mixed
		w.mixed = 0 // the operator has observed the pods again
		return was != 0, nil
	})
}

// refresh copies the Secrets to the volumes of a pod. etcd reads its own certificates at each handshake.
func (w *world) refresh(i int) (bool, error) {
	p := &w.pods[i]
	if p.phase == none || p.files == w.secrets {
		return false, nil
	}
	had := w.quorate()
	p.files = w.secrets
	w.elect()
	if had && !w.quorate() {
		return true, fmt.Errorf("the members do not accept the certificates of each other: the Secrets are %+v, the pods %+v", w.secrets, w.pods)
	}
	return true, nil
}

// takenAway returns an error if the plan has removed the pod of a wanted voter, or parks the cluster while the claim of
// a member is being deleted.
func (w *world) takenAway(before *world, i int) error {
	for j, v := range w.volumes {
		if before.set > 0 && w.set == 0 && v.terminating && w.member(v.claim) != nil && w.pods[j].phase != none {
			return fmt.Errorf("the cluster is parked, and the data of member %d goes with its claim", v.claim)
		}
	}
	if p := before.pods[i]; p.phase == none || p.terminating || !w.pods[i].terminating {
		return nil
	}
	if m := w.member(w.volumes[i].data); m != nil && !m.learner && w.replicas > 0 {
		return fmt.Errorf("the plan takes the pod of voter %d away", m.id)
	}
	return nil
}

// comeAndGo simulates, for one ordinal, the controllers of StatefulSets and of claims, and the kubelet at the end of a
// deleted pod.
func (w *world) comeAndGo(i int) bool {
	p, v := &w.pods[i], &w.volumes[i]
	live, claims := w.set, w.claims()
	if w.without == "the live set" {
		live, claims = 0, nil
	}
	planned, _ := Planned(w.want(), w.record, live, claims)
	changed := planned != w.set
	w.set = planned
	switch {
	case p.phase != none && p.terminating:
		*p = mPod{}
		w.elect()
	case p.phase != none && i >= planned:
		p.terminating = true
	case p.phase == none && v.uid != 0 && v.terminating:
		*v = mVolume{}
	case p.phase == none && i < planned:
		if v.uid == 0 {
			w.uids++
			*v = mVolume{uid: w.uids}
		}
		w.uids++
		*p = mPod{phase: starting, uid: w.uids, revision: w.revision, files: w.secrets}
	default:
		return changed
	}
	return true
}

// startPod simulates the agent.
func (w *world) startPod(i int) (bool, error) {
	p, v := &w.pods[i], &w.volumes[i]
	if p.phase == running && p.ticket == ForceTicket("t") && p.ticket != p.used && !v.forced {
		p.phase, p.as = starting, 0 // the agent's watcher has seen the ticket and stops etcd
	}
	if p.phase != starting && p.phase != waiting || p.terminating || w.neverStarts(p) || w.lacksRoom(i) {
		return false, nil
	}
	before := *p
	err := w.agent(p, v, int8(i))
	if p.phase == running {
		p.trusts = p.files.trusted
	}
	p.mute = p.phase == running && before.phase != running
	w.elect()
	if m := w.member(p.as); p.mute && (w.quorate() || m != nil && m.learner) {
		p.mute = false
	}
	return *p != before, err
}

func (w *world) agent(p *mPod, v *mVolume, place int8) error {
	p.phase = waiting
	fresh := p.ticket != p.used
	if w.spoiled != 0 && p.revision == w.spoiled {
		p.phase = crashing
		return nil
	}
	if v.data != 0 {
		switch {
		case v.bad && place%2 == 0:
			p.phase = crashing
		case v.bad: // the agent reports the damage
		case p.ticket == ForceTicket("t") && fresh && !v.forced:
			return w.force(p, v, place)
		case w.member(v.data) == nil && w.quorate():
			// The running members report that they have removed this member, so it does not start.
		case v.old && w.without != "how far the data went":
			// The agent does not start etcd on outdated data.
		default:
			p.phase, p.as = running, v.data
			if m := w.member(v.data); v.old && m != nil && !m.learner {
				return fmt.Errorf("member %d votes, but lacks what it has acknowledged", m.id)
			}
		}
		return nil
	}
	switch {
	case p.ticket == "" || p.ticket == TicketNone || !fresh:
	case p.ticket == TicketSeed && v.mark == 0:
		w.clusters++
		w.ids++
		w.members[0] = mMember{id: w.ids, place: place, named: true, caught: true}
		v.old, v.wrong = false, false
		p.used, p.phase, p.as, v.data, v.mark = p.ticket, running, w.ids, w.ids, w.ids
	default:
		for i := range w.members {
			m := &w.members[i]
			if m.id == 0 || p.ticket != JoinTicket(ID(m.id)) || m.place != place {
				continue
			}
			if !w.quorate() || m.named || !m.learner || v.mark == m.id {
				return nil // the agent refuses the ticket
			}
			v.old, v.wrong = false, false
			p.used, p.phase, p.as, v.data, v.mark = p.ticket, running, m.id, m.id, m.id
		}
	}
	return nil
}

// force starts a member that continues alone.
func (w *world) force(p *mPod, v *mVolume, place int8) error {
	all, _, intact := w.voters()
	if intact >= quorum(all) {
		return fmt.Errorf("a recovery begins while %d of %d voters have their data", intact, all)
	}
	if w.forces++; w.forces > 1 {
		return errors.New("a consent is used twice")
	}
	m := mMember{id: v.data, place: place, named: true, caught: true} // a removed member may have owned the data
	if known := w.member(v.data); known != nil {
		m = *known
	}
	m.learner, v.old = false, false
	w.members = [spots + 1]mMember{m}
	p.used, v.forced, p.phase, p.as = p.ticket, true, running, v.data
	return nil
}

// publish simulates two events: a started member publishes its name, and a learner receives the data.
func (w *world) publish(i int) bool {
	p := w.pods[i]
	m := w.member(p.as)
	if p.phase != running || m == nil || !w.quorate() || int(m.place) != i {
		return false
	}
	switch {
	case !m.named:
		m.named = true
	case !m.caught:
		m.caught = true
		if l := w.member(w.leader); l != nil {
			w.volumes[i].wrong = w.volumes[l.place].wrong
		}
	default:
		return false
	}
	return true
}

// usualFaults are the common faults of a pod and its volume: the container ends; the pod is deleted; the volume is
// emptied; claim and pod are deleted; the data is damaged.
var usualFaults = []func(n *world, i int){
	func(n *world, i int) { n.restart(i) },
	func(n *world, i int) { n.pods[i] = mPod{} },
	func(n *world, i int) {
		n.restart(i)
		n.volumes[i].data, n.volumes[i].mark, n.volumes[i].bad, n.volumes[i].old, n.volumes[i].wrong = 0, 0, false, false, false
	},
	func(n *world, i int) { n.pods[i] = mPod{}; n.volumes[i] = mVolume{} },
	func(n *world, i int) {
		if n.volumes[i].data != 0 {
			n.restart(i)
			n.volumes[i].bad = true
		}
	},
}

// faults returns one world for each fault, and for each change by a user, that can happen now.
func (w *world) faults() []world {
	var after []world
	happen := func(change func(*world)) {
		next := *w
		change(&next)
		if next != *w {
			next.elect()
			after = append(after, next)
		}
	}
	if w.left.faults > 0 {
		for i := range spots {
			if w.pods[i].phase == none {
				continue
			}
			for kind, fault := range usualFaults {
				if w.usual&(1<<kind) != 0 {
					happen(func(n *world) { n.left.faults--; fault(n, i) })
				}
			}
		}
	}
	if w.left.faults > 0 {
		w.oddFaults(happen)
	}
	if w.left.changes > 0 {
		if w.odd&(oddTemplate|oddImage) != 0 && w.recorded {
			happen(func(n *world) { n.left.changes--; n.revision++; n.spoiled = n.revision })
		}
		if w.odd&oddRotation != 0 && w.recorded {
			happen(func(n *world) { n.left.changes--; n.rotation.wanted = true })
		}
		for _, replicas := range []int{0, 1, 2, 3} {
			if replicas != w.replicas {
				happen(func(n *world) { n.left.changes--; n.replicas = replicas })
			}
		}
		happen(func(n *world) { n.left.changes--; n.revision++ })
		if all, _, intact := w.voters(); !w.token && all > 0 && intact < quorum(all) {
			happen(func(n *world) { n.left.changes--; n.token = true })
		}
	}
	return after
}

// oddFaults applies each rare fault that can happen now. Each of these faults has once revealed a defect.
func (w *world) oddFaults(happen func(func(*world))) {
	all, _, _ := w.voters()
	marked := false
	for i := range spots {
		marked = marked || w.volumes[i].claim != 0
		m := w.member(w.volumes[i].data)
		voter := m != nil && !m.learner && int(m.place) == i
		if w.odd&oddPast != 0 && voter && w.volumes[i].high {
			happen(func(n *world) { n.left.faults--; n.restart(i); n.volumes[i].old = true })
		}
		if w.odd&oddClaims != 0 && w.pods[i].phase != none && w.volumes[i].uid != 0 {
			happen(func(n *world) { n.left.faults--; n.volumes[i].terminating = true })
		}
		if w.odd&oddMends != 0 && w.volumes[i].bad {
			happen(func(n *world) { n.left.faults--; n.restart(i); n.volumes[i].bad = false })
		}
		if w.odd&oddCorrupt != 0 && voter && w.alarm == 0 && w.quorate() && w.runs(m.id) && all > 2 {
			happen(func(n *world) { n.left.faults--; n.volumes[i].wrong = true; n.raise() })
		}
	}
	if w.odd&oddClaims != 0 {
		happen(func(n *world) {
			n.left.faults--
			for i := range n.pods {
				n.volumes[i].terminating = n.volumes[i].terminating || n.pods[i].phase != none && n.volumes[i].uid != 0
			}
		})
	}
	for i := range uint8(spots - 1) {
		if w.odd&oddMixed != 0 && w.mixed == 0 && w.pods[i].phase != none && w.pods[i+1].phase != none {
			happen(func(n *world) { n.left.faults--; n.mixed = i + 1 })
		}
	}
	if w.odd&oddRecord != 0 && marked {
		happen(func(n *world) { n.left.faults--; n.record.Replicas = 1 })
		happen(func(n *world) { n.left.faults--; n.record, n.recorded = Record{}, false })
	}
}

// raise simulates the check of keys in etcd. The leader names the first voter whose keys differ from its own. Without a
// leader, or with fewer than three voters, the alarm names no member.
func (w *world) raise() {
	l := w.member(w.leader)
	all, _, _ := w.voters()
	if l == nil || all < 3 {
		w.alarm = 1
		return
	}
	for _, m := range w.members {
		if m.id != 0 && !m.learner && w.volumes[m.place].wrong != w.volumes[l.place].wrong {
			w.alarm = 1 + m.id
			return
		}
	}
}

// restart ends a container. The pod starts the container again.
func (w *world) restart(i int) {
	p := &w.pods[i]
	if p.phase == none {
		return
	}
	p.phase, p.as = starting, 0
}
