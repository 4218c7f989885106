// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/kinds/etcdcluster/membership"
	"d3os.com/d3os-operator/test/etcd/rig"
	"d3os.com/d3os-operator/test/harness/process"
)

// acked is a key whose write was acknowledged while one member was away.
const acked = "acked"

func put(t *testing.T, pod *rig.Pod, key, value string) {
	t.Helper()
	c, err := rig.Client(pod)
	assert.NilError(t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := c.Put(ctx, key, value); err != nil {
		t.Fatalf("write %s: %v", key, err)
	}
}

// get reads a key; a quorum has to agree.
func get(ctx context.Context, pod *rig.Pod, key string) (string, error) {
	c, err := rig.Client(pod)
	if err != nil {
		return "", err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	found, err := c.Get(ctx, key)
	if err != nil || len(found.Kvs) == 0 {
		return "", err
	}
	return string(found.Kvs[0].Value), nil
}

// What one lost disk costs: a write is acknowledged by two of three members; both end, and one of them loses its volume.
// That one and the third, which has not seen the write, are started.
func oneDiskLost(t *testing.T, options rig.Options) *rig.Driver {
	t.Helper()
	f := rig.NewFleet(t, options)
	d := rig.NewDriver(f, 3)
	d.Settle(2*time.Minute, "three voters")
	for i := range 10 { // what comes after the third got its vote tells the others that it has it
		put(t, f.Pod(0), "before", fmt.Sprint(i))
	}
	f.Pod(1).Hold()
	put(t, f.Pod(0), acked, "yes")
	f.Pod(0).Hold()
	f.Pod(2).Hold()
	f.Pod(2).Wipe()
	f.Pod(1).Release()
	return d
}

// Plain etcd starts as the member that it was, with an empty volume, and votes: the acknowledged write is gone. This is what the
// agent is for. Should etcd refuse that one day, this test says so.
func TestPlainEtcdRejoinsEmpty(t *testing.T) {
	t.Parallel()
	d := oneDiskLost(t, rig.Options{})
	d.Fleet.Pod(2).StartPlain("existing")
	err := process.Wait(t.Context(), 30*time.Second, func() error {
		value, err := get(t.Context(), d.Fleet.Pod(1), acked)
		switch {
		case err != nil:
			return err
		case value != "":
			return fmt.Errorf("the write is there: %s", value)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("etcd %s does not lose the write any more, or nothing answers: %v", rig.V36, err)
	}
	t.Log("the acknowledged write is gone, and a quorum says so")
}

// With the agent, the same disk costs nothing: the empty volume waits, nobody votes, and when a member with the write is back,
// the lost one is replaced.
func TestEmptyVolumeNeverVotes(t *testing.T) {
	t.Parallel()
	d := oneDiskLost(t, rig.Options{})
	d.Fleet.Pod(2).Release()
	until := time.Now().Add(6 * time.Second)
	d.Until(30*time.Second, "the empty volume waits", func(decision membership.Decision) error {
		if decision.Model.Verdict != membership.QuorumLost {
			t.Fatalf("with one member and an empty volume: %s: %s", decision.Model.Verdict, decision.Model.Reason)
		}
		if value, err := get(t.Context(), d.Fleet.Pod(1), acked); err == nil {
			t.Fatalf("the one that has not seen the write answers %q", value)
		}
		return later(until)
	})
	d.Fleet.Pod(0).Release()
	took := d.Settle(2*time.Minute, "a member with the write is back")
	value, err := get(t.Context(), d.Fleet.Pod(2), acked)
	if err != nil || value != "yes" {
		t.Fatalf("the write is %q (%v)", value, err)
	}
	t.Logf("the write is there, and three voters are well %s after the member came back", round(took))
}

// A member that was removed and comes back with its data does not vote, and its data is cleared away.
func TestRemovedMemberComesBack(t *testing.T) {
	t.Parallel()
	f := rig.NewFleet(t, rig.Options{})
	d := rig.NewDriver(f, 3)
	d.Settle(2*time.Minute, "three voters")
	away := d.Follower()
	away.Hold()
	// Somebody removes it by hand. etcd refuses that until all members have been connected for five seconds, or it counts this one as gone.
	c, err := rig.Client(d.Leader())
	assert.NilError(t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	assert.NilError(t, process.Wait(ctx, 30*time.Second, func() error { return removeByName(ctx, c, away.Name) }))
	away.Release()
	took := d.Settle(2*time.Minute, "the removed member is replaced")
	t.Logf("three voters are well after %s", round(took))
}

func removeByName(ctx context.Context, c *clientv3.Client, name string) error {
	list, err := c.MemberList(ctx)
	if err != nil {
		return err
	}
	for _, m := range list.Members {
		if m.Name == name {
			_, err := c.MemberRemove(ctx, m.ID)
			return err
		}
	}
	return errors.New("there is no member " + name)
}
