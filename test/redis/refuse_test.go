// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/kinds/rediscluster/topology"
	"d3os.com/d3os-operator/internal/kinds/stateful/proof"
	"d3os.com/d3os-operator/test/redis/rig"
)

// A step that the world has run away from is refused, and says what differs.
func TestStepsAreRefused(t *testing.T) {
	t.Parallel()
	f := rig.NewFleet(t, rig.Options{Shards: []int{2, 1, 1}, NodeTimeout: 5 * time.Second})
	d := rig.NewDriver(f)
	d.Form(0)
	other := rig.NewFleet(t, rig.Options{Shards: []int{1}}) // another cluster, with a password of its own
	place := func(pod *rig.Pod) topology.Place {
		p, err := pod.Place(t.Context())
		assert.NilError(t, err)
		return p
	}
	assert.NilError(t, f.Fill(t.Context(), 300, 20))
	rig.Until(t, "the replica has them", func() error { return f.Pod(0, 0).Client().Wait(t.Context(), 1, 5*time.Second).Err() })
	master, replica, second, third := place(f.Pod(0, 0)), place(f.Pod(0, 1)), place(f.Pod(1, 0)), place(f.Pod(2, 0))
	with := func(p topology.Place, change func(*topology.Place)) topology.Place {
		change(&p)
		return p
	}
	move := func(change func(*topology.Step)) topology.Step {
		s := topology.Step{Action: topology.ActionMoveSlots, Node: master, Target: second, On: []topology.Place{third}, Slots: topology.SlotSet{{From: 1, To: 1}}}
		change(&s)
		return s
	}
	foreign := place(other.Pod(0, 0))
	history := f.Pod(0, 1).Info(t.Context(), "master_replid")
	force := func(proof topology.Proof) topology.Step {
		return topology.Step{Action: topology.ActionFailover, Mode: "FORCE", Node: replica, Target: topology.Place{ID: master.ID}, Proof: proof}
	}
	replaced := force(topology.Proof{History: history, Run: "of-another-start"})
	replaced.Target = master
	assert.NilError(t, f.Pod(2, 0).Client().Do(t.Context(), "CLUSTER", "SETSLOT", 16000, "MIGRATING", second.ID).Err())
	for _, c := range []struct {
		why  string
		step topology.Step
		want string
	}{
		{"another UID", topology.Step{Action: topology.ActionSetEpoch, Node: with(master, func(p *topology.Place) { p.UID = "uid-0" })}, "has been replaced"},
		{"another address", topology.Step{Action: topology.ActionReset, Node: with(master, func(p *topology.Place) { p.IP = "127.0.0.1" })}, "has address"},
		{"no pod", topology.Step{Action: topology.ActionFlush, Node: with(master, func(p *topology.Place) { p.Pod = "rec-9-9" })}, "is gone"},
		{"another node", topology.Step{Action: topology.ActionFailover, Node: with(replica, func(p *topology.Place) { p.ID = master.ID })}, "is for"},
		{"no id", topology.Step{Action: topology.ActionFlush, Node: with(master, func(p *topology.Place) { p.ID = "" })}, "does not say"},
		{"a foreign server", topology.Step{Action: topology.ActionMeet, Node: master, Target: foreign}, "has address"},
		{"reset of an owner", topology.Step{Action: topology.ActionReset, Node: master}, "owns slots"},
		{"flush of an owner", topology.Step{Action: topology.ActionFlush, Node: second}, "owns slots"},
		{"flush of a replica", topology.Step{Action: topology.ActionFlush, Node: replica}, "is a replica"},
		{"failover of a master", topology.Step{Action: topology.ActionFailover, Node: second, Mode: "TAKEOVER"}, "not a replica"},
		{"promotion with another history", force(topology.Proof{History: strings.Repeat("0", 40)}), "has the history"},
		{"promotion with less of it", force(topology.Proof{History: history, Offset: 1 << 60}), "has read its history"},
		{"promotion beside its master", force(topology.Proof{History: history}), "reaches its master"},
		{"promotion over a master that has its data", replaced, "is to replace"},
		{"forgetting an owner", topology.Step{Action: topology.ActionForget, ID: master.ID, On: []topology.Place{second, third}}, "owns slots"},
		{"deletion of an owner's pod", topology.Step{Action: topology.ActionDeletePod, Node: second}, "owns slots"},
		{"replica of another shard", topology.Step{Action: topology.ActionReplicate, Node: replica, Target: second}, "not of one shard"},
		{"reset of a copy, and nobody owns all slots", topology.Step{Action: topology.ActionReset, Node: replica, On: []topology.Place{second, third}}, "keeps its keys"},
		{"replica of a replica", topology.Step{Action: topology.ActionReplicate, Node: third, Target: replica}, "not a master"},
		{"a slot of another", move(func(s *topology.Step) { s.Slots = topology.SlotSet{{From: 16001, To: 16001}} }), "does not own"},
		{"a slot on its way elsewhere", move(func(s *topology.Step) {
			s.Node, s.Target, s.On, s.Slots = third, master, []topology.Place{second}, topology.SlotSet{{From: 16000, To: 16000}}
		}), "being moved"},
		{"a master is not asked", move(func(s *topology.Step) { s.On = nil }), "not among those that were asked"},
		{"a replica as target", move(func(s *topology.Step) { s.Target, s.On = replica, []topology.Place{second, third} }), "not both masters"},
		{"an owner that is not told", topology.Step{Action: topology.ActionAssignSlot, ID: second.ID, On: []topology.Place{second, third}, Slots: topology.SlotSet{{From: 1, To: 1}}}, "not among those that were asked"},
	} {
		before := views(t, f)
		err := d.Take(t.Context(), c.step)
		if !errors.Is(err, proof.ErrRefused) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the step says %v, want a refusal with %q", c.why, err, c.want)
		}
		if after := views(t, f); after != before {
			t.Errorf("%s: the cluster changed from\n%s\nto\n%s", c.why, before, after)
		}
	}
}

// A slot gets no new owner while a master that is not its target holds a key of it.
func TestKeysElsewhereStopAMove(t *testing.T) {
	t.Parallel()
	f := rig.NewFleet(t, rig.Options{Shards: []int{1, 1, 1}, NodeTimeout: 5 * time.Second})
	d := rig.NewDriver(f)
	d.Form(0)
	slot := keySlots(t, f, "key-", 1)
	var from, to, other *rig.Pod
	for _, pod := range f.Pods() {
		switch {
		case owned(t, pod).Has(slot[0].From):
			from = pod
		case to == nil:
			to = pod
		default:
			other = pod
		}
	}
	assert.NilError(t, from.Client().Set(t.Context(), "key-0", "right", 0).Err())
	for _, pod := range []*rig.Pod{to, other} {
		imports(t, pod, from, slot[0].From, "wrong") // as a master that has lost a slot without losing its keys
		assert.NilError(t, pod.Client().Do(t.Context(), "CLUSTER", "SETSLOT", slot[0].From, "STABLE").Err())
		err := d.Take(t.Context(), d.MoveStep(from, to, slot))
		if !errors.Is(err, proof.ErrRefused) || !strings.Contains(err.Error(), pod.Name) {
			t.Errorf("%s holds a key, and the move says %v", pod.Name, err)
		}
		if !owned(t, from).Has(slot[0].From) {
			t.Errorf("%s holds a key, and the slot was moved nevertheless", pod.Name)
		}
		if pod == to {
			assert.NilError(t, pod.Client().FlushAll(t.Context()).Err())
		}
	}
}

// A key that is on both nodes after an interrupted MIGRATE has what its source has.
func TestKeyOnBothNodes(t *testing.T) {
	t.Parallel()
	f := rig.NewFleet(t, rig.Options{Shards: []int{1, 1, 1}, NodeTimeout: 5 * time.Second})
	d := rig.NewDriver(f)
	d.Form(0)
	slot := keySlots(t, f, "key-", 1)
	var from, to *rig.Pod
	for _, pod := range f.Pods() {
		if owned(t, pod).Has(slot[0].From) {
			from = pod
		} else {
			to = pod
		}
	}
	assert.NilError(t, from.Client().Set(t.Context(), "key-0", "new", 0).Err())
	imports(t, to, from, slot[0].From, "old")
	drive(t, d, from, to, slot)
	if value, err := to.Client().Get(t.Context(), "key-0").Result(); err != nil || value != "new" {
		t.Errorf("the key is %q (%v), want what the source had", value, err)
	}
}

// imports has a master begin to import a slot from another one, with a value of a key.
func imports(t *testing.T, pod, from *rig.Pod, slot int, value string) {
	t.Helper()
	source, err := from.Place(t.Context())
	assert.NilError(t, err)
	pipe := pod.Client().Pipeline()
	pipe.Do(t.Context(), "CLUSTER", "SETSLOT", slot, "IMPORTING", source.ID)
	pipe.Do(t.Context(), "ASKING")
	pipe.Set(t.Context(), "key-0", value, 0)
	_, err = pipe.Exec(t.Context())
	assert.NilError(t, err)
}

func views(t *testing.T, f *rig.Fleet) string {
	t.Helper()
	text := ""
	for _, pod := range f.Pods() {
		text += pod.Name + " " + owned(t, pod).String() + "\n"
	}
	return text
}
