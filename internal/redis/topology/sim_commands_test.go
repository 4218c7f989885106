// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"maps"
)

// The methods in this file execute the commands of a server as Redis does.

func (s *server) forget(id string) error {
	p := s.peers[id]
	if p == nil || id == s.id || s.me().masterID == id {
		return errRefused
	}
	idx := s.w.index[id]
	for slot := range s.slotOf {
		if s.slotOf[slot] == idx {
			s.give(slot, 0)
		}
	}
	delete(s.peers, id)
	s.banned[id] = s.w.now + 60e9
	return nil
}

// setSlotNode executes SETSLOT NODE. On the importing target, it increases the epoch and broadcasts the claim. It returns errRefused if
// this server is a replica, does not have the node as a peer, or would give away a slot with keys.
func (s *server) setSlotNode(slot int, id string) error {
	if !s.me().master || s.peers[id] == nil {
		return errRefused
	}
	if s.owns(slot) && id != s.id && s.keysIn(slot) > 0 {
		return fmt.Errorf("%w: it has keys", errRefused)
	}
	if s.keysIn(slot) == 0 {
		delete(s.moving, slot)
	}
	s.give(slot, s.w.index[id])
	if id == s.id && s.imports[slot] != "" {
		delete(s.imports, slot)
		s.w.moved++
		s.bump()
		for _, p := range s.known() {
			if other := s.reaches(p); other != nil && other != s && other.peers[s.id] != nil {
				other.peers[s.id].epoch = s.me().epoch
				other.current = max(other.current, s.current)
				other.claimed(s, Range{slot, slot})
			}
		}
	}
	return nil
}

// bump takes a config epoch above all known ones, without votes.
func (s *server) bump() {
	highest := s.current
	for _, p := range s.peers {
		highest = max(highest, p.epoch)
	}
	if s.me().epoch == 0 || s.me().epoch != highest {
		s.current = highest + 1
		s.me().epoch = s.current
	}
}

func (s *server) markSlot(slot int, mode, id string) error {
	s.version++
	p := s.peers[id]
	switch {
	case !s.me().master:
		return errRefused
	case mode == "STABLE":
		delete(s.moving, slot)
		delete(s.imports, slot)
	case p == nil || !p.master:
		return errRefused
	case mode == "IMPORTING" && !s.owns(slot):
		s.imports[slot] = id
	case mode == "MIGRATING" && s.owns(slot):
		s.moving[slot] = id
	default:
		return errRefused
	}
	return nil
}

func (s *server) failover(mode string) error {
	me := s.me()
	if me.master {
		return errRefused
	}
	p := s.peers[me.masterID]
	if p == nil {
		return errRefused
	}
	switch mode {
	case "":
		// The master stops writes until the replica has all writes.
		m := s.reaches(p)
		if m == nil || !s.linked || !s.synced || s.count(p.id) == 0 {
			return errRefused
		}
		s.copyFrom(m)
		s.ask(true)
	case "FORCE":
		if s.count(p.id) == 0 {
			return errRefused
		}
		s.ask(true)
	case "TAKEOVER":
		s.bump()
		s.takeOver(s.me().epoch)
	}
	return nil
}

// moveSlots moves slots for a while, as package server does. The operator may crash between any two commands.
func (o *operator) moveSlots(step Step, from *server) error {
	to := o.at(step.Target)
	if to == nil {
		return errRefused
	}
	slice := 20 + o.rnd.IntN(3000)
	for slot := range step.Slots.All {
		if slice--; slice < 0 {
			return nil
		}
		if !from.owns(slot) || to.owns(slot) {
			return nil
		}
		if step.Mode == ModeBack {
			if err := o.moveBack(slot, from, to, step.On); err != nil {
				return err
			}
			continue
		}
		if err := o.moveSlot(slot, from, to, step.On); err != nil {
			return err
		}
	}
	return nil
}

func (o *operator) moveSlot(slot int, from, to *server, on []Place) error {
	// Both ends of a move that is continued are already open.
	if to.imports[slot] != from.id {
		if err := o.try(func() error { return to.markSlot(slot, "IMPORTING", from.id) }); err != nil {
			return err
		}
	}
	if from.moving[slot] != to.id {
		if err := o.try(func() error { return from.markSlot(slot, "MIGRATING", to.id) }); err != nil {
			return err
		}
	}
	for _, key := range o.keys {
		if slotOfKey(key) != slot {
			continue
		}
		if err := o.try(func() error { return from.migrate(key, to) }); err != nil {
			return err
		}
	}
	if from.keysIn(slot) > 0 {
		return errRefused
	}
	if err := o.try(func() error { return to.setSlotNode(slot, to.id) }); err != nil {
		return err
	}
	if err := o.try(func() error { return from.setSlotNode(slot, to.id) }); err != nil {
		return err
	}
	for _, place := range on {
		if n := o.at(place); n != nil {
			if err := o.try(func() error { return n.setSlotNode(slot, to.id) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// moveBack undoes the move of a slot as package server does, with its three scripts.
func (o *operator) moveBack(slot int, owner, to *server, on []Place) error {
	script := func(s *server, do func()) error {
		return o.try(func() error {
			if !s.alive() || !owner.owns(slot) || to.owns(slot) {
				return errRefused
			}
			do()
			return nil
		})
	}
	if owner.moving[slot] == to.id && to.imports[slot] == owner.id {
		var taken map[int]int
		if err := script(to, func() { taken = maps.Clone(to.data); delete(to.imports, slot); to.version++ }); err != nil {
			return err
		}
		if err := script(owner, func() {
			for key, value := range taken {
				if _, has := owner.data[key]; !has && slotOfKey(key) == slot {
					owner.data[key] = value
				}
			}
			owner.offset += 10
			owner.moving[slot] = owner.id
		}); err != nil {
			return err
		}
	} else if owner.moving[slot] != owner.id {
		return errRefused
	}
	if err := script(to, func() { to.dropSlot(slot); delete(to.imports, slot); to.version++ }); err != nil {
		return err
	}
	for _, place := range on {
		if n := o.at(place); n == nil || n.keysIn(slot) > 0 {
			return errRefused
		}
	}
	return o.try(func() error { return owner.markSlot(slot, "STABLE", "") })
}

func (o *operator) try(command func() error) error {
	if err := o.command(); err != nil {
		return err
	}
	return command()
}

func (s *server) migrate(key int, to *server) error {
	value, has := s.data[key]
	if !has {
		return nil
	}
	if !s.owns(slotOfKey(key)) || to.imports[slotOfKey(key)] != s.id || !to.alive() || !s.alive() {
		return errRefused
	}
	to.data[key] = value
	to.offset += 10
	delete(s.data, key)
	return nil
}
