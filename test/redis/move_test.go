// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/kinds/rediscluster/topology"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/redis/rig"
)

// The operator moves slots at least about as fast as redis-cli does, with the same data in the same run.
func TestMovesSlotsAsFastAsRedisCLI(t *testing.T) {
	harness.Long(t)
	const bound, keys = 1.25, 100_000
	f := rig.NewFleet(t, rig.Options{Shards: []int{1, 1, 1, 1}, NodeTimeout: 5 * time.Second})
	d := rig.NewDriver(f)
	d.Form(3)
	assert.NilError(t, f.Fill(t.Context(), keys, 100))
	before := digest(t, f)
	hub := f.Pod(0, 0)
	rig.Until(t, "redis-cli finds nothing wrong", func() error { return f.CLICheck(t.Context()) })

	began := time.Now()
	if _, err := hub.CLI(t.Context(), "--cluster", "rebalance", hub.IP()+":6379", "--cluster-use-empty-masters", "--cluster-pipeline", "10"); err != nil {
		t.Fatal(err)
	}
	theirs := time.Since(began)
	gained := owned(t, f.Pod(3, 0))
	if gained.Len() < topology.Slots/4-100 {
		t.Fatalf("redis-cli moved %d slots", gained.Len())
	}
	moveBack(t, f, d) // the same number of slots, the other way round
	began = time.Now()
	moved := 0
	for shard := range 3 {
		slots := owned(t, f.Pod(shard, 0)).First(gained.Len() / 3)
		moved += slots.Len()
		drive(t, d, f.Pod(shard, 0), f.Pod(3, 0), slots)
	}
	ours := time.Since(began)
	unchanged(t, f, before)
	rig.Until(t, "all nodes agree", func() error { return f.CLICheck(t.Context()) })
	ratio := ours.Seconds() / theirs.Seconds() * float64(gained.Len()) / float64(moved)
	t.Logf("%d keys: redis-cli --cluster rebalance moved %d slots in %s, the operator %d in %s: %.2f times as long for each (bound %.2f)",
		keys, gained.Len(), theirs.Round(time.Millisecond), moved, ours.Round(time.Millisecond), ratio, bound)
	if ratio > bound {
		t.Errorf("moving a slot takes %.2f times as long as redis-cli takes, more than %.2f", ratio, bound)
	}
}

// view returns what a node says of the cluster.
func view(t *testing.T, pod *rig.Pod) []topology.Entry {
	t.Helper()
	text, err := pod.Client().ClusterNodes(t.Context()).Result()
	assert.NilError(t, err)
	entries, err := topology.ParseNodes(text)
	assert.NilError(t, err)
	return entries
}

// owned returns the slots that a node owns by its own word.
func owned(t *testing.T, pod *rig.Pod) topology.SlotSet {
	t.Helper()
	for _, e := range view(t, pod) {
		if e.Myself {
			return e.Owned
		}
	}
	t.Fatalf("CLUSTER NODES of %s does not name it", pod.Name)
	return nil
}

// drive takes steps until all slots are where they are to be.
func drive(t *testing.T, d *rig.Driver, from, to *rig.Pod, slots topology.SlotSet) {
	t.Helper()
	rig.Until(t, "slots "+slots.String()+" move", func() error {
		if err := d.Take(t.Context(), d.MoveStep(from, to, slots)); err != nil {
			return err
		}
		if left := slots.Minus(owned(t, to)); left.Len() > 0 {
			return fmt.Errorf("%d slots are not at %s", left.Len(), to.Name)
		}
		return nil
	})
}

// moveBack gives the slots of the fourth master to the first three.
func moveBack(t *testing.T, f *rig.Fleet, d *rig.Driver) {
	t.Helper()
	slots := owned(t, f.Pod(3, 0))
	for shard := range 3 {
		some := slots.First((slots.Len() + 2 - shard) / (3 - shard))
		slots = slots.Minus(some)
		drive(t, d, f.Pod(3, 0), f.Pod(shard, 0), some)
	}
	if text := owned(t, f.Pod(3, 0)).String(); strings.TrimSpace(text) != "" {
		t.Fatalf("slots %s did not move back", text)
	}
}
