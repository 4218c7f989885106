// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"maps"
	"slices"
)

// claims takes in what a master says it owns: a higher epoch wins, and the loser drops its keys.
func (s *server) claims(from *server) {
	state := [3]int{from.version, s.version, int(from.me().epoch)}
	if s.heardAll[from.id] == state {
		return
	}
	if s.claimed(from, Range{0, Slots - 1}); s.version == state[1] {
		s.heardAll[from.id] = state
	}
}

// claimed is claims for some slots.
func (s *server) claimed(from *server, slots Range) {
	idx, epoch := from.idx(), from.me().epoch
	source := s.me().masterID
	if s.me().master {
		source = s.id
	}
	mine := 0
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
				s.dropSlot(slot)
			}
		}
		s.give(slot, idx)
	}
	if mine > 0 && mine == from.count(from.id) && s.count(source) == 0 {
		s.follow(from.id)
	}
}

// update tells another server of a node that owns, by a higher epoch, what that server claims.
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
		lost := 0
		for slot := range s.slotOf {
			if s.slotOf[slot] == i && other.slotOf[slot] != i && other.imports[slot] == "" {
				if other.owns(slot) {
					other.dropSlot(slot)
					lost++
				}
				other.give(slot, i)
			}
		}
		if lost > 0 && lost == s.count(p.id) && other.count(other.id) == 0 {
			other.follow(p.id)
		}
		return
	}
}
