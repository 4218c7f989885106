// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// restore is what the container does that puts a backup on the empty volume of a shard's first pod.
func (o *operator) restore(p *pod) {
	if !o.wanted.Restores || o.wanted.Announced || p.ordinal > 0 {
		return
	}
	s, shards := o.volumes[p.name], len(o.wanted.Shards)
	for slot := p.shard * Slots / shards; slot < (p.shard+1)*Slots/shards; slot++ {
		s.give(slot, o.index[s.id])
	}
	s.current = uint64(p.shard + 1)
	s.me().epoch = s.current
	for _, key := range o.keys {
		if s.owns(slotOfKey(key)) {
			s.data[key] = 1
			o.acked[key] = 1 // what was written since is lost with a volume that nobody has a copy of
		}
	}
}

// born is a run whose pods get a backup.
func born(t *testing.T, seed uint64) *run {
	r := newRun(t, seed, 2, 2, 2)
	r.wanted.Restores = true
	return r
}

// grow has pods see, some time after it was recorded, that the cluster has begun; until then something may happen.
func (r *run) grow(happens func()) {
	r.t.Helper()
	for end := r.now + 5*time.Minute; !r.wanted.Announced; {
		r.onePass()
		happens()
		all := true // a volume that is lost in the moment between would be lost with its part of the backup
		for _, p := range r.pods {
			all = all && p.running && r.record.Nodes[p.name] == p.s.id
		}
		if all && r.rnd.IntN(4) == 0 {
			r.wanted.Announced = true
		}
		if r.now > end {
			r.t.Fatalf("not begun: %s, steps %v", r.last.Model.Reason, r.last.Steps)
		}
	}
	r.settle(2 * time.Minute)
	assert.Equal(r.t, r.record.Formed, true)
	for _, key := range r.keys {
		assert.Assert(r.t, r.acked[key] > 0 && r.atOwner(key) >= r.acked[key], "key %d: %d at its owner, %d acknowledged", key, r.atOwner(key), r.acked[key])
	}
}

// A cluster that is made of a backup has all of it, with the operator dying at any command and pods coming and going.
func TestModelBirth(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t, 5) {
		t.Run(name(seed), func(t *testing.T) {
			t.Parallel()
			r := born(t, seed)
			r.crashes(20)
			r.grow(func() {
				if p := r.pods["a-1-0"]; p != nil && p.running && r.rnd.IntN(6) == 0 {
					r.logf("EVENT %s restarts", p.name)
					r.kill(p, time.Second)
				}
			})
		})
	}
}

// A volume that is lost before the cluster has begun gets the backup again.
func TestModelBirthLosesVolumes(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t, 5) {
		t.Run(name(seed), func(t *testing.T) {
			t.Parallel()
			r := born(t, seed)
			r.planned = false
			lost := 0
			r.grow(func() {
				if p := r.pods["a-2-0"]; p != nil && p.running && lost < 3 && !r.wanted.Announced && r.rnd.IntN(3) == 0 {
					r.logf("EVENT %s loses its volume", p.name)
					r.kill(p, time.Second)
					r.volumes[p.name] = nil
					lost++
				}
			})
		})
	}
}

// restored is three shards on whose first pods a backup was put, and that have not met.
func restored() *scene {
	s := settled(3)
	s.wanted.Restores, s.record = true, Record{}
	for i := range s.nodes {
		n := &s.nodes[i]
		self := *n.self()
		if n.Ordinal > 0 {
			self.Master, self.Replica, self.MasterID, self.Epoch, n.Keys, n.Replication = true, false, "", 0, 0, Replication{Master: true}
		}
		n.View = []Entry{self}
	}
	return s
}

func TestBirth(t *testing.T) {
	t.Parallel()
	recorded := func(s *scene) {
		s.record.Shards, s.record.Nodes = []int{2, 2, 2}, map[string]string{}
		for _, n := range s.nodes {
			s.record.Nodes[n.Pod] = n.ID
		}
	}
	for name, c := range map[string]struct {
		change func(s *scene)
		action Action
		says   string
	}{
		"all is there":          {func(*scene) {}, ActionRecord, "record 6 pods"},
		"one is not there":      {func(s *scene) { s.lose("a-1-0", time.Minute) }, ActionWait, "waits for a-1-0"},
		"a replica is away":     {func(s *scene) { s.lose("a-1-1", time.Minute) }, ActionWait, "waits for a-1-1"},
		"one was not put on":    {func(s *scene) { s.node("a-1-0").self().Owned, s.node("a-1-0").Keys = nil, 0 }, ActionWait, "slots 5461-10921 have no owner, and a-1-0 no data"},
		"one was put on twice":  {func(s *scene) { s.node("a-1-0").self().Owned = s.node("a-0-0").self().Owned }, ActionWait, "both own slots 0-5460"},
		"a second pod has data": {func(s *scene) { s.node("a-1-1").Keys = 1 }, ActionWait, "a-1-1 is node"},
		"recorded":              {recorded, ActionWait, "until pods can see"},
		"recorded, put on again": {func(s *scene) {
			recorded(s)
			s.record.Nodes["a-2-0"] = "0123"
		}, ActionRecord, "record 6 pods"},
		"announced": {func(s *scene) {
			recorded(s)
			s.wanted.Announced = true
		}, ActionSetEpoch, "give each new node a config epoch"},
		"announced, with epochs": {func(s *scene) {
			recorded(s)
			s.wanted.Announced = true
			for i := range s.nodes {
				s.nodes[i].self().Epoch = uint64(i + 1)
			}
		}, ActionMeet, "have nodes meet"},
		"a cluster whose record is gone": {func(s *scene) {
			*s = *settled(3)
			s.wanted.Restores, s.record = true, Record{}
		}, ActionRecord, "as members"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := restored()
			c.change(s)
			d := s.decide()
			assert.Assert(t, len(d.Steps) > 0)
			assert.Equal(t, d.Steps[0].Action, c.action, d.Steps[0].Message)
			assert.Assert(t, strings.Contains(d.Steps[0].Message, c.says), d.Steps[0].Message)
		})
	}
}
