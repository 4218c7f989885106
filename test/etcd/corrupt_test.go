// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/kinds/etcdcluster/membership"
	"d3os.com/d3os-operator/test/etcd/rig"
	"d3os.com/d3os-operator/test/harness"
)

const right = "the value that was acknowledged"

// corrupted returns a settled cluster in which the keys of some members are wrong.
func corrupted(t *testing.T, replicas int, wrong ...int) (*rig.Fleet, *rig.Driver) {
	t.Helper()
	f := rig.NewFleet(t, rig.Options{})
	d := rig.NewDriver(f, replicas)
	d.Settle(3*time.Minute, "the cluster is well")
	put(t, f.Pod(0), "key", right)
	time.Sleep(time.Second) // it is in the database of all, and not in their logs alone
	for i, ordinal := range wrong {
		f.Pod(ordinal).Corrupt(right, strings.Replace(right, "that", fmt.Sprintf("WRO%d", i), 1))
	}
	d.Until(time.Minute, "all answer", func(decision membership.Decision) error {
		if decision.Model.Healthy != replicas {
			return fmt.Errorf("%s", decision.Model.Reason)
		}
		return nil
	})
	return f, d
}

// alarm raises CORRUPT for a member, or for the whole cluster, as the leader's check does.
func alarm(t *testing.T, member membership.ID, pod *rig.Pod) {
	t.Helper()
	c, err := rig.Client(pod)
	assert.NilError(t, err)
	defer c.Close()
	_, err = etcdserverpb.NewMaintenanceClient(c.ActiveConnection()).Alarm(t.Context(), &etcdserverpb.AlarmRequest{
		Action: etcdserverpb.AlarmRequest_ACTIVATE, MemberID: uint64(member), Alarm: etcdserverpb.AlarmType_CORRUPT,
	})
	assert.NilError(t, err)
}

// lead lets a member lead.
func lead(t *testing.T, d *rig.Driver, to int) {
	t.Helper()
	d.Until(time.Minute, fmt.Sprintf("member %d leads", to), func(decision membership.Decision) error {
		if decision.Model.Leader == rig.PodName(to) {
			return nil
		}
		c, err := rig.Client(d.Leader())
		assert.NilError(t, err)
		defer c.Close()
		_, err = c.MoveLeader(t.Context(), uint64(idOf(decision, to)))
		return fmt.Errorf("it is moved: %w", err)
	})
}

func idOf(decision membership.Decision, ordinal int) membership.ID {
	for _, m := range decision.Model.Members {
		if m.Ordinal == ordinal {
			return m.ID
		}
	}
	return 0
}

// rightEverywhere fails the test unless each member has the right value by itself.
func rightEverywhere(t *testing.T, f *rig.Fleet) {
	t.Helper()
	for _, pod := range f.Pods() {
		c, err := rig.Client(pod)
		assert.NilError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		found, err := c.Get(ctx, "key", clientv3.WithSerializable())
		cancel()
		assert.NilError(t, err)
		assert.NilError(t, c.Close())
		if len(found.Kvs) != 1 || string(found.Kvs[0].Value) != right {
			t.Errorf("%s has %v", pod.Name, found.Kvs)
		}
	}
}

// The keys of the leader are wrong, and its check names a follower, whose keys are right. The leader is replaced, and nobody else; the
// alarm ends, and clients write again.
func TestCorruptLeader(t *testing.T) {
	t.Parallel()
	f, d := corrupted(t, 3, 1)
	lead(t, d, 1)
	before := d.Pass(t.Context())
	alarm(t, idOf(before, 0), f.Pod(1))
	d.Unsettle(30*time.Second, "the alarm is raised")
	took := d.Settle(3*time.Minute, "the corrupt leader is replaced")
	after := d.Pass(t.Context())
	for ordinal := range 3 {
		if same := idOf(before, ordinal) == idOf(after, ordinal); same == (ordinal == 1) {
			t.Errorf("member %d is the same: %v", ordinal, same)
		}
	}
	rightEverywhere(t, f)
	put(t, f.Pod(0), "after", "yes")
	t.Logf("all well after %s", round(took))
}

// Two of five have wrong keys, each others: both are replaced, one after the other.
func TestTwoCorruptOfFive(t *testing.T) {
	harness.Long(t)
	t.Parallel()
	f, d := corrupted(t, 5, 1, 3)
	before := d.Pass(t.Context())
	alarm(t, idOf(before, 0), f.Pod(1))
	d.Unsettle(30*time.Second, "the alarm is raised")
	took := d.Settle(4*time.Minute, "the corrupt members are replaced")
	if n := d.IDs().Missing(rig.IDs{idOf(before, 0): true, idOf(before, 2): true, idOf(before, 4): true}); n != 2 {
		t.Errorf("%d members are new, not 2", n)
	}
	rightEverywhere(t, f)
	t.Logf("all well after %s", round(took))
}

// etcd cannot name who is corrupt, and no two members have the same keys: nothing is changed, and the status says why.
func TestCorruptWithoutAQuorum(t *testing.T) {
	t.Parallel()
	f, d := corrupted(t, 3, 1, 2)
	alarm(t, 0, f.Pod(1))
	d.Unsettle(30*time.Second, "the alarm is raised")
	during(t, d, "no quorum agrees", 5*time.Second, func(decision membership.Decision) {
		m := decision.Model
		if m.Settled || m.Phase != membership.PhaseDegraded || m.Healthy != 0 || !strings.HasPrefix(m.Reason, "CORRUPT: ") {
			t.Errorf("%s, %d healthy: %s", m.Phase, m.Healthy, m.Reason)
		}
	})
}

// The alarm is for the whole cluster, and all members have the same keys: that is proven, and the alarm ends.
func TestAlarmForTheWholeCluster(t *testing.T) {
	t.Parallel()
	f := rig.NewFleet(t, rig.Options{})
	d := rig.NewDriver(f, 3)
	d.Settle(2*time.Minute, "three voters")
	ids := d.IDs()
	alarm(t, 0, f.Pod(1))
	d.Unsettle(10*time.Second, "the alarm is raised")
	d.Settle(30*time.Second, "the alarm ends")
	if n := d.IDs().Missing(ids); n > 0 || d.Effects[membership.ActionDisarm] != 1 {
		t.Errorf("%d members are new, and %v", n, d.Effects)
	}
	put(t, f.Pod(0), "after", "yes")
}
