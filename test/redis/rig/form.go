// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"fmt"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/kinds/rediscluster/topology"
)

// Form makes a cluster of the fleet's pods by steps that no decision is asked for: the first pod of each shard is its
// master. The first of the shards get slots: all, if owners is 0.
func (d *Driver) Form(owners int) {
	d.Fleet.t.Helper()
	t, ctx := d.Fleet.t, d.Fleet.t.Context()
	shards := len(d.Wanted.Shards)
	if owners == 0 {
		owners = shards
	}
	hub, err := d.Fleet.Pod(0, 0).Place(ctx)
	assert.NilError(t, err)
	for i, pod := range d.Fleet.Pods() {
		place, err := pod.Place(ctx)
		assert.NilError(t, err)
		assert.NilError(t, d.Take(ctx, topology.Step{Action: topology.ActionSetEpoch, Node: place, Epoch: uint64(i + 1)}))
		if pod.Ordinal == 0 && pod.Shard < owners {
			from, to := topology.Slots*pod.Shard/owners, topology.Slots*(pod.Shard+1)/owners-1
			assert.NilError(t, d.Take(ctx, topology.Step{Action: topology.ActionAddSlots, Node: place, Slots: topology.SlotSet{{From: from, To: to}}}))
		}
		if i > 0 {
			assert.NilError(t, d.Take(ctx, topology.Step{Action: topology.ActionMeet, Node: hub, Target: place}))
		}
	}
	for _, pod := range d.Fleet.Pods() {
		if pod.Ordinal == 0 {
			continue
		}
		master, err := d.Fleet.Pod(pod.Shard, 0).Place(ctx)
		assert.NilError(t, err)
		node, err := pod.Place(ctx)
		assert.NilError(t, err)
		Until(t, pod.Name+" replicates "+master.Pod, func() error {
			return d.Take(ctx, topology.Step{Action: topology.ActionReplicate, Node: node, Target: master})
		})
	}
	d.Fleet.record.Formed = true
	if owners == shards {
		Until(t, "the cluster is complete", func() error { return d.Fleet.Check(ctx) })
		return
	}
	Until(t, "all nodes know each other", func() error { return d.Fleet.know(ctx) })
}

// know fails unless all nodes know each other and say that the cluster is well.
func (f *Fleet) know(ctx context.Context) error {
	said, err := views(ctx, f.nodes())
	if err != nil {
		return err
	}
	for _, v := range said {
		if len(v.view) != len(said) || !v.stateOK || v.links != 2*(len(said)-1) {
			return fmt.Errorf("%s knows %d of %d, cluster_state ok: %v, %d links", v.pod.Name, len(v.view), len(said), v.stateOK, v.links)
		}
		if err := v.same(said[0]); err != nil {
			return err
		}
		if err := v.replication(said); err != nil {
			return err
		}
	}
	return nil
}

// MoveStep is a step that moves slots between the masters of two shards, with all others as it must name them.
func (d *Driver) MoveStep(from, to *Pod, slots topology.SlotSet) topology.Step {
	d.Fleet.t.Helper()
	step := topology.Step{Action: topology.ActionMoveSlots, Slots: slots}
	for _, node := range d.Observe(d.Fleet.t.Context()) {
		place := topology.Place{Pod: node.Pod, UID: node.UID, IP: node.IP, ID: node.ID}
		switch {
		case node.Pod == from.Name:
			step.Node = place
		case node.Pod == to.Name:
			step.Target = place
		case node.Reached && node.Replication.Master:
			step.On = append(step.On, place)
		}
	}
	step.Message = fmt.Sprintf("move slots %s from %s to %s", slots, from.Name, to.Name)
	return step
}
