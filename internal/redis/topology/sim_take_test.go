// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"maps"
	"slices"
)

func (o *operator) onEach(s Step) error {
	var all error
	for _, place := range s.On {
		n := o.at(place)
		if n == nil {
			all = errRefused
			continue
		}
		if err := o.command(); err != nil {
			return err
		}
		var err error
		if s.Action == ActionForget {
			err = n.forget(s.ID)
		} else {
			err = n.setSlotNode(s.Slots[0].From, s.ID)
		}
		if err != nil {
			all = err
		}
	}
	return all
}

func (o *operator) single(s Step, n *server) error {
	me := n.me()
	if s.Action != ActionFailover {
		if err := o.isSameStart(s); err != nil {
			return err
		}
	}
	switch s.Action {
	case ActionSetEpoch:
		if len(n.peers) > 1 || me.epoch != 0 {
			return errRefused
		}
		for _, other := range o.servers {
			if other.alive() && other.me().epoch >= s.Epoch {
				panic(fmt.Sprintf("%s gets the config epoch %d, and another node has %d", short(n.id), s.Epoch, other.me().epoch))
			}
		}
		me.epoch = s.Epoch
		n.current = max(n.current, s.Epoch)
	case ActionBumpEpoch:
		n.bump()
	case ActionMeet:
		for _, other := range o.servers {
			if other.alive() && (other == n || other.ip == s.Target.IP) && other.me().epoch == 0 && o.without == "" {
				panic(short(other.id) + " meets another node before it has a config epoch")
			}
		}
		for _, p := range n.peers {
			if p.met != 0 && p.ip == s.Target.IP {
				return nil
			}
		}
		id := o.newID()
		n.peers[id] = &peer{id: id, ip: s.Target.IP, met: o.now + simTick, pong: o.now}
	case ActionAddSlots:
		for slot := range s.Slots.All {
			if n.slotOf[slot] != 0 {
				return fmt.Errorf("%w: slot %d is busy", errRefused, slot)
			}
		}
		if !me.master {
			return errRefused
		}
		for slot := range s.Slots.All {
			n.give(slot, n.idx())
		}
	case ActionReplicate:
		target := n.peers[s.Target.ID]
		if target == nil || !target.master || target.met != 0 || me.master && (len(n.data) > 0 || n.count(n.id) > 0) {
			return errRefused
		}
		n.follow(target.id)
		n.admits, n.shut = true, false
		if t := o.at(s.Target); t != nil {
			t.admits, t.shut = true, false
		}
	case ActionAdmit:
		n.admits, n.shut = true, false
	case ActionReset:
		if me.master && len(n.data) > 0 {
			return errRefused
		}
		if !me.master {
			clear(n.data)
		}
		n.forgetAll()
	case ActionFlush:
		if !me.master {
			return errRefused
		}
		clear(n.data)
	case ActionFailover:
		if s.Mode != "" {
			if err := o.prove(s, n); err != nil {
				return err
			}
		}
		return n.failover(s.Mode)
	case ActionMarkSlot:
		for slot := range s.Slots.All {
			if err := n.markSlot(slot, s.Mode, s.ID); err != nil {
				return err
			}
		}
	case ActionConfigure:
		maps.Copy(n.settings, s.Settings)
	case ActionFunctions:
		if t := o.at(s.Target); t != nil {
			t.functions = n.functions
		}
	default:
		panic("no such action: " + string(s.Action))
	}
	return nil
}

// isSameStart simulates package server's check that the master has not restarted.
func (o *operator) isSameStart(s Step) error {
	if s.Proof.Run == "" || o.isWithout("continuation") {
		return nil
	}
	if m := o.at(s.Target); m == nil || m.run != s.Proof.Run || !m.me().master {
		return fmt.Errorf("%w: the master has restarted", errRefused)
	}
	return nil
}

// prove simulates package server's check of a replica before a failover without the master's agreement.
func (o *operator) prove(s Step, n *server) error {
	if o.isWithout("step") {
		return nil
	}
	if n.replid != s.Proof.History && !o.isWithout("history") || n.offset < s.Proof.Offset || n.linked && !n.synced {
		return fmt.Errorf("%w: it has another history", errRefused)
	}
	if s.Proof.Run != "" {
		if m := o.at(s.Target); m == nil || m.run != s.Proof.Run && !o.isWithout("run") || len(m.data) > 0 && !s.Proof.Consented || n.linked {
			return fmt.Errorf("%w: the master is another", errRefused)
		}
		return nil
	}
	if m := n.peers[n.me().masterID]; m != nil && !m.fail && !m.possibly && n.reaches(m) != nil {
		return fmt.Errorf("%w: it reaches its master", errRefused)
	}
	for key := range n.data {
		if len(s.Proof.Within) > 0 && !s.Proof.Within.Has(slotOfKey(key)) {
			return fmt.Errorf("%w: it has keys of others", errRefused)
		}
	}
	return nil
}

// claims applies the claims of another master to all slots, unless nothing has changed since the last time.
func (s *server) claims(from *server) {
	state := [3]int{from.version, s.version, int(from.me().epoch)}
	if s.heardAll[from.id] == state {
		return
	}
	if s.claimed(from, Range{0, Slots - 1}); s.version == state[1] {
		s.heardAll[from.id] = state
	}
}

// claimed applies a master's claims to a range of slots, except slots that this server imports. The higher epoch wins,
// and the loser drops its keys. There is one exception. If this server, or the master of this server, loses its last
// slots, and the claimant owns only these slots, this server follows the claimant and keeps the data.
func (s *server) claimed(from *server, slots Range) {
	idx, epoch := from.idx(), from.me().epoch
	source := s.me().masterID
	if s.me().master {
		source = s.id
	}
	mine := 0
	var taken []int
	for slot := slots.From; slot <= slots.To; slot++ {
		if from.slotOf[slot] != idx {
			continue
		}
		o := s.slotOf[slot]
		if o == idx {
			continue
		}
		if s.imports[slot] != "" {
			continue
		}
		if o != 0 {
			if p := s.peers[s.w.id(o)]; p != nil && p.epoch >= epoch {
				continue
			}
			if s.w.id(o) == source {
				mine++
			}
			if o == s.idx() {
				taken = append(taken, slot)
			}
		}
		s.give(slot, idx)
	}
	if mine > 0 && mine == from.count(from.id) && s.count(source) == 0 {
		s.demote(from.id) // keeps the data, as Redis does
		return
	}
	for _, slot := range taken {
		s.dropSlot(slot)
	}
}

// update corrects another server that claims slots with a lower epoch than their owner: the server gets the owner's
// claim.
func (s *server) update(other *server) {
	if !other.me().master {
		return
	}
	for _, i := range slices.Sorted(maps.Keys(s.counts)) {
		p := s.peers[s.w.id(i)]
		if p == nil || p.id == other.id || p.epoch <= other.me().epoch || other.peers[p.id] == nil || other.peers[p.id].epoch >= p.epoch {
			continue
		}
		s.tally()
		other.tally()
		if len(NewSlotSet(s.ranges[i]...).Intersect(NewSlotSet(other.ranges[other.idx()]...))) == 0 {
			continue
		}
		q := other.peers[p.id]
		q.epoch, q.master, q.masterID = p.epoch, true, ""
		var taken []int
		for slot := range s.slotOf {
			if s.slotOf[slot] == i && other.slotOf[slot] != i && other.imports[slot] == "" {
				if other.owns(slot) {
					taken = append(taken, slot)
				}
				other.give(slot, i)
			}
		}
		if len(taken) > 0 && len(taken) == s.count(p.id) && other.count(other.id) == 0 {
			other.demote(p.id)
			return
		}
		for _, slot := range taken {
			other.dropSlot(slot)
		}
		return
	}
}
