// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import "fmt"

// progress is everything that goes on by itself: each returns whether something changed. An error is harm.
func (w *world) progress() []func(*world) (bool, error) {
	moves := []func(*world) (bool, error){}
	for i := range spots {
		moves = append(moves,
			func(w *world) (bool, error) { return w.comeAndGo(i), nil },
			func(w *world) (bool, error) { return w.startPod(i) },
			func(w *world) (bool, error) { return w.publish(i), nil },
		)
	}
	return moves
}

// comeAndGo is what the controllers of StatefulSets and claims do at a place, and the kubelet with a pod that is deleted.
func (w *world) comeAndGo(i int) bool {
	p, v := &w.pods[i], &w.volumes[i]
	planned, _ := Planned(w.want(), w.record)
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
		*p = mPod{phase: starting, uid: w.uids, revision: w.revision}
	default:
		return false
	}
	return true
}

// startPod is the agent.
func (w *world) startPod(i int) (bool, error) {
	p, v := &w.pods[i], &w.volumes[i]
	if p.phase != starting && p.phase != waiting || p.terminating {
		return false, nil
	}
	before := *p
	err := w.agent(p, v, int8(i))
	w.elect()
	return *p != before, err
}

func (w *world) agent(p *mPod, v *mVolume, place int8) error {
	p.phase = waiting
	fresh := p.ticket != p.used
	if v.data != 0 {
		switch {
		case v.bad && place%2 == 0:
			p.phase = crashing
		case v.bad: // the agent says so
		case p.ticket == ForceTicket("t") && fresh && !v.forced:
			return w.force(p, v)
		case w.member(v.data) == nil && w.quorate():
			// Removed, by the word of those that run.
		default:
			p.phase, p.as = running, v.data
		}
		return nil
	}
	switch {
	case p.ticket == "" || p.ticket == TicketNone || !fresh:
	case p.ticket == TicketSeed && v.mark == 0:
		w.clusters++
		w.ids++
		w.members[0] = mMember{id: w.ids, place: place, named: true, caught: true}
		p.used, p.phase, p.as, v.data, v.mark = p.ticket, running, w.ids, w.ids, w.ids
	default:
		for i := range w.members {
			m := &w.members[i]
			if m.id == 0 || p.ticket != JoinTicket(ID(m.id)) || m.place != place {
				continue
			}
			if !w.quorate() || m.named || !m.learner || v.mark == m.id {
				return nil // refused
			}
			p.used, p.phase, p.as, v.data, v.mark = p.ticket, running, m.id, m.id, m.id
		}
	}
	return nil
}

// force starts a member alone.
func (w *world) force(p *mPod, v *mVolume) error {
	all, _, intact := w.voters()
	if intact >= quorum(all) {
		return fmt.Errorf("a recovery begins while %d of %d voters have their data", intact, all)
	}
	m := *w.member(v.data)
	m.learner = false
	w.members = [spots + 1]mMember{m}
	p.used, v.forced, p.phase, p.as = p.ticket, true, running, v.data
	return nil
}

// publish: a member that was started tells its name, and a learner gets the data.
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
	default:
		return false
	}
	return true
}

// faults are what happens from outside, at a place or at all.
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
			happen(func(n *world) { n.left.faults--; n.restart(i) })
			happen(func(n *world) { n.left.faults--; n.pods[i] = mPod{} })
			happen(func(n *world) {
				n.left.faults--
				n.restart(i)
				n.volumes[i].data, n.volumes[i].mark, n.volumes[i].bad = 0, 0, false
			})
			happen(func(n *world) { n.left.faults--; n.pods[i] = mPod{}; n.volumes[i] = mVolume{} })
			happen(func(n *world) {
				n.left.faults--
				if n.volumes[i].data != 0 {
					n.restart(i)
					n.volumes[i].bad = true
				}
			})
		}
	}
	if w.left.changes > 0 {
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

// restart ends a container; its pod starts it again.
func (w *world) restart(i int) {
	p := &w.pods[i]
	if p.phase == none {
		return
	}
	p.phase, p.as = starting, 0
}
