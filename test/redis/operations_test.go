// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/kinds/rediscluster/topology"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/redis/rig"
)

// formed starts a cluster and drives it until nothing is left to be done.
func formed(t *testing.T, shards ...int) (*rig.Fleet, *rig.Driver, time.Duration) {
	t.Helper()
	f := rig.NewFleet(t, rig.Options{Shards: shards})
	d := rig.NewDriver(f)
	took := d.Settle(2*time.Minute, "the cluster forms")
	return f, d, took
}

func digest(t *testing.T, f *rig.Fleet) rig.Digest {
	t.Helper()
	sum, err := f.Digest(t.Context())
	assert.NilError(t, err)
	return sum
}

func fill(t *testing.T, f *rig.Fleet, keys int) rig.Digest {
	t.Helper()
	assert.NilError(t, f.Fill(t.Context(), keys, 20))
	return digest(t, f)
}

// unchanged fails the test if data is lost; keys of a ledger aside.
func unchanged(t *testing.T, f *rig.Fleet, before rig.Digest) {
	t.Helper()
	if err := before.Without("ledger-").Differ(digest(t, f).Without("ledger-")); err != nil {
		t.Errorf("the data has changed: %v", err)
	}
}

// Six pods become a cluster in less than ten seconds, in all of several runs.
func TestForms(t *testing.T) {
	t.Parallel()
	bound := harness.Bound(10*time.Second, full)
	var all []time.Duration
	for range 3 {
		f, d, took := formed(t, 2, 2, 2)
		all = append(all, took.Round(10*time.Millisecond))
		if took > bound {
			t.Errorf("six pods took %s to become a cluster, more than %s", took, bound)
		}
		rig.Until(t, "redis-cli finds nothing wrong", func() error { return f.CLICheck(t.Context()) })
		if left := d.Pass(t.Context()); len(left.Steps) > 0 {
			t.Errorf("a settled cluster is to be changed: %+v", left.Steps)
		}
		f.Stop()
	}
	t.Logf("from the last pod ready to all slots served and all replicas in step: %v (bound %s)", all, bound)
}

// Planned changes lose no acknowledged write, and nobody reads nil: more shards, many more, fewer, all pods replaced.
func TestPlannedChangesLoseNothing(t *testing.T) {
	harness.Long(t)
	t.Parallel()
	f, d, _ := formed(t, 2, 2, 2)
	before := fill(t, f, 5000)
	for _, change := range []struct {
		name   string
		change func()
		full   bool
	}{
		{name: "6 to 8 pods", change: func() { d.Wanted.Shards = []int{2, 2, 2, 2} }},
		{name: "8 to 12 pods", change: func() { d.Wanted.Shards = []int{2, 2, 2, 2, 2, 2} }, full: true},
		{name: "back to 6 pods", change: func() { d.Wanted.Shards = []int{2, 2, 2} }},
		{name: "all pods replaced", change: f.NewRevision},
		{name: "a second replica", change: func() { d.Wanted.Shards = []int{3, 2, 2} }},
		{name: "one replica less", change: func() { d.Wanted.Shards = []int{2, 2, 2} }},
	} {
		if change.full && !full {
			continue
		}
		ledger := f.Keep(rig.LedgerOptions{})
		d.Wanted.Generation++
		change.change()
		steps := d.Steps
		took := d.Settle(2*time.Minute, change.name)
		ledger.Close().Nothing(t, change.name)
		unchanged(t, f, before)
		t.Logf("%s: %s, %d steps", change.name, took.Round(10*time.Millisecond), d.Steps-steps)
		rig.Until(t, "redis-cli finds nothing wrong", func() error { return f.CLICheck(t.Context()) })
	}
}

// A new shard gets what its entry of the table says, from whom it says, and nothing else moves.
func TestAssignedSlots(t *testing.T) {
	t.Parallel()
	f, d, _ := formed(t, 2, 2, 2)
	before := fill(t, f, 2000)
	had := map[int]topology.SlotSet{}
	s := &scenario{T: t, f: f, d: d}
	from, err := s.master(2).Place(t.Context())
	assert.NilError(t, err)
	for shard := range 3 {
		had[shard] = owned(t, s.master(shard))
	}
	d.Wanted.Generation++
	d.Wanted.Shards = []int{2, 2, 2, 2}
	d.Wanted.Assign = []topology.Assignment{{Slots: 200, From: []string{s.master(0).Name, from.ID}}}
	ledger := f.Keep(rig.LedgerOptions{})
	d.Settle(2*time.Minute, "a shard is added by table")
	ledger.Close().Nothing(t, "a shard is added by table")
	unchanged(t, f, before)
	got := owned(t, s.master(3))
	if got.Len() != 200 || got.Minus(had[0]).Minus(had[2]).Len() != 0 || owned(t, s.master(1)).String() != had[1].String() {
		t.Errorf("the new shard has slots %s, shard 1 has %s; want 200 of %s and %s, and %s", got, owned(t, s.master(1)), had[0], had[2], had[1])
	}
	t.Logf("the new shard has slots %s", got)
}
