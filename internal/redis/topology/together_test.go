// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"errors"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// Slots that an interrupted move left open are repaired together if they need the same step.
func TestOpenSlotsTogether(t *testing.T) {
	t.Parallel()
	open := func(migrating, importing []int, keys map[int]map[string]int64) *scene {
		s := settled(3)
		from, to := s.node("a-0-0").self(), s.node("a-2-0").self()
		from.Migrating, to.Importing = map[int]string{}, map[int]string{}
		for _, slot := range migrating {
			from.Migrating[slot] = idOf("a-2-0")
		}
		for _, slot := range importing {
			to.Importing[slot] = idOf("a-0-0")
		}
		for i := range s.nodes {
			if n := &s.nodes[i]; n.self().Master {
				n.SlotKeys = map[int]int64{}
				for slot := range 200 {
					n.SlotKeys[slot] = keys[slot][n.Pod]
				}
			}
		}
		return s
	}
	some := map[string]int64{"a-0-0": 3}
	for _, c := range []struct {
		name   string
		scene  *scene
		action Action
		slots  string
		says   string
	}{
		{"one end alone, without keys", open(nil, []int{100, 101, 150}, nil), ActionMarkSlot, "100-101,150",
			"mark slot 100 on a-2-0 as stable: no key of the slot is left to move; the step also changes 2 more slots"},
		{"one end alone, some with keys", open(nil, []int{100, 101, 150}, map[int]map[string]int64{101: some}), ActionMarkSlot, "100,150",
			"mark slot 100 on a-2-0 as stable: no key of the slot is left to move; the step also changes 1 more slots"},
		{"both ends", open([]int{100, 101, 102}, []int{100, 101, 102}, map[int]map[string]int64{101: some}), ActionMoveSlots, "100-102",
			"finish moving 3 slots (100-102) from a-0-0 to a-2-0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := c.scene.decide()
			assert.Equal(t, len(d.Steps), 1, "%v", d.Steps)
			assert.Equal(t, d.Steps[0].Action, c.action)
			assert.Equal(t, d.Steps[0].Slots.String(), c.slots)
			assert.Equal(t, d.Steps[0].Message, c.says)
		})
	}
}

// Masters are spread over zones first, then over nodes.
func TestSpreadOverZones(t *testing.T) {
	t.Parallel()
	place := func(s *scene, pods map[string]string) {
		for pod, at := range pods {
			s.node(pod).Zone, s.node(pod).Host = at[:1], at
		}
	}
	for _, c := range []struct {
		name string
		at   map[string]string // zone and node
		want string            // the pod that becomes master
	}{
		{"three masters in one zone", map[string]string{"a-0-0": "x1", "a-1-0": "x2", "a-2-0": "x3", "a-0-1": "y1", "a-1-1": "y2", "a-2-1": "x1"}, "a-0-1"},
		{"zones are even, nodes are not", map[string]string{"a-0-0": "x1", "a-1-0": "x1", "a-2-0": "y1", "a-0-1": "x2", "a-1-1": "y2", "a-2-1": "y2"}, "a-0-1"},
		{"zones and nodes are even", map[string]string{"a-0-0": "x1", "a-1-0": "y1", "a-2-0": "z1", "a-0-1": "y1", "a-1-1": "z1", "a-2-1": "x1"}, ""},
		{"no zone is known", map[string]string{"a-0-0": " 1", "a-1-0": " 1", "a-2-0": " 1", "a-0-1": " 2", "a-1-1": " 3", "a-2-1": " 3"}, "a-0-1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := settled(3)
			place(s, c.at)
			if c.at["a-0-0"][:1] == " " {
				for i := range s.nodes {
					s.nodes[i].Zone = ""
				}
			}
			d := s.decide()
			if c.want == "" {
				assert.Equal(t, len(d.Steps), 0, "%v", d.Steps)
				return
			}
			assert.Equal(t, len(d.Steps), 1)
			assert.Equal(t, d.Steps[0].Action, ActionFailover)
			assert.Equal(t, d.Steps[0].Node.Pod, c.want, d.Steps[0].Message)
		})
	}
}

// A setting that Redis does not support is named in the reason and blocks no other setting.
func TestUnknownSetting(t *testing.T) {
	t.Parallel()
	s := settled(3)
	s.wanted.Settings = map[string]string{"maxmemory-polcy": "allkeys-lru", "hz": "10"}
	for i := range s.nodes {
		s.nodes[i].Settings = map[string]string{"hz": "10"}
	}
	d := s.decide()
	assert.Equal(t, d.Model.Settled, false)
	assert.Equal(t, d.Model.Phase, PhaseRunning)
	assert.ErrorContains(t, wantWait(d), `does not know the setting "maxmemory-polcy"`)
	assert.DeepEqual(t, Unset(s.wanted.Settings, s.nodes), map[string]bool{"maxmemory-polcy": true})
}

// wantWait returns the message of a wait step as an error.
func wantWait(d Decision) error {
	if len(d.Steps) != 1 || d.Steps[0].Action != ActionWait {
		return nil
	}
	return errors.New(d.Steps[0].Message)
}

// restore simulates the container that writes a backup to the empty volume of a shard's first pod.
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
			o.acked[key] = 1 // the backup has only this value: later writes are lost with the only volume that has them
		}
	}
}

// born returns a run whose pods get a backup.
func born(t *testing.T, seed uint64) *run {
	r := newRun(t, seed, 2, 2, 2)
	r.wanted.Restores = true
	return r
}

// grow runs passes until pods can see that the cluster has begun. That is some time after all nodes were recorded.
// happens is called after each pass.
func (r *run) grow(happens func()) {
	r.t.Helper()
	for end := r.now + 5*time.Minute; !r.wanted.Announced; {
		r.onePass()
		happens()
		all := true // once the cluster is announced, a lost volume gets no backup
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

// A restored cluster contains the whole backup, even if the operator crashes at any command and pods restart.
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

// A volume that is lost before the cluster has begun gets the backup a second time.
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

// restored returns a scene of three shards whose nodes have not met, and whose first pods have the backup.
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
		"all parts of the backup are restored":               {func(*scene) {}, ActionRecord, "record 6 pods"},
		"a first pod is not reached":                         {func(s *scene) { s.lose("a-1-0", time.Minute) }, ActionWait, "waits for a-1-0"},
		"a replica is not reached":                           {func(s *scene) { s.lose("a-1-1", time.Minute) }, ActionWait, "waits for a-1-1"},
		"a part of the backup is missing":                    {func(s *scene) { s.node("a-1-0").self().Owned, s.node("a-1-0").Keys = nil, 0 }, ActionWait, "slots 5461-10921 have no owner (pods without data: a-1-0)"},
		"a part of the backup is on two pods":                {func(s *scene) { s.node("a-1-0").self().Owned = s.node("a-0-0").self().Owned }, ActionWait, "both own slots 0-5460"},
		"a second pod has data":                              {func(s *scene) { s.node("a-1-1").Keys = 1 }, ActionWait, "a-1-1 is node"},
		"the nodes are recorded":                             {recorded, ActionWait, "until pods can see"},
		"the nodes are recorded, and one was restored again": {func(s *scene) { recorded(s); s.record.Nodes["a-2-0"] = "0123" }, ActionRecord, "record 6 pods"},
		"pods can see that the cluster has begun":            {func(s *scene) { recorded(s); s.wanted.Announced = true }, ActionSetEpoch, "give each new node a config epoch"},
		"pods can see that the cluster has begun, and nodes have epochs": {func(s *scene) {
			recorded(s)
			s.wanted.Announced = true
			for i := range s.nodes {
				s.nodes[i].self().Epoch = uint64(i + 1)
			}
		}, ActionMeet, "introduce nodes"},
		"a cluster whose record is gone": {func(s *scene) { *s = *settled(3); s.wanted.Restores, s.record = true, Record{} }, ActionRecord, "as members"},
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
