// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/kinds/rediscluster/topology"
	"d3os.com/d3os-operator/test/redis/rig"
)

// claims are faults in which nodes disagree about who owns a slot.
var claims = []fault{
	{name: "a master and a replica name another owner of a slot", happen: func(s *scenario) {
		slot, other := s.slotWithKeys(s.master(0)), s.id(s.master(1))
		for _, misled := range []*rig.Pod{s.master(2), s.replica(2)} {
			if role, err := misled.Role(s.Context()); err == nil && role == "master" { // a replica takes no such command
				s.send(misled, "CLUSTER", "SETSLOT", slot, "NODE", other)
				continue
			}
			s.send(misled, "CLUSTER", "DELSLOTS", slot)
		}
	}},
	// They have forgotten each other, which lasts a minute, so that neither hears of the other's claim. The one that has the
	// data has the higher epoch, and keeps the slot when they meet again.
	{name: "two masters own a slot", full: true, happen: func(s *scenario) {
		owner, other := s.master(0), s.master(1)
		if s.epoch(owner) < s.epoch(other) {
			owner, other = other, owner
		}
		slot := s.slotWithKeys(owner)
		ids := []string{s.id(owner), s.id(other)}
		s.send(owner, "CLUSTER", "FORGET", ids[1])
		s.send(other, "CLUSTER", "FORGET", ids[0])
		s.send(other, "CLUSTER", "ADDSLOTS", slot) // a node that is forgotten owns nothing
	}, end: func(s *scenario) {
		d := s.stays(40, topology.Inconsistent)
		if d.Model.Phase != topology.PhaseFailed {
			s.Errorf("two masters own a slot, and the phase is %s", d.Model.Phase)
		}
		s.Logf("left alone: %s", d.Model.Reason)
		s.heals(2 * time.Minute)
	}},
}

// send sends a command that has to succeed.
func (s *scenario) send(pod *rig.Pod, command ...any) {
	s.Helper()
	if err := pod.Client().Do(s.Context(), command...).Err(); err != nil {
		s.Fatalf("%v on %s: %v", command, pod.Name, err)
	}
}

func (s *scenario) id(pod *rig.Pod) string {
	s.Helper()
	place, err := pod.Place(s.Context())
	assert.NilError(s, err)
	return place.ID
}

// epoch is a node's config epoch by its own word.
func (s *scenario) epoch(pod *rig.Pod) uint64 {
	s.Helper()
	for _, e := range view(s.T, pod) {
		if e.Myself {
			return e.Epoch
		}
	}
	s.Fatalf("%s does not name itself", pod.Name)
	return 0
}

// slotWithKeys returns a slot of which a master has keys.
func (s *scenario) slotWithKeys(pod *rig.Pod) int {
	s.Helper()
	for slot := range owned(s.T, pod).All {
		if n, err := pod.Client().ClusterCountKeysInSlot(s.Context(), slot).Result(); err == nil && n > 0 {
			return slot
		}
	}
	s.Fatalf("%s has no keys", pod.Name)
	return 0
}
