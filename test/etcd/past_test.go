// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/kinds/etcdcluster/membership"
	"d3os.com/d3os-operator/test/etcd/rig"
)

// write writes keys of a prefix, each of which is acknowledged.
func write(t *testing.T, n int, prefix string, pods ...*rig.Pod) {
	t.Helper()
	c, err := rig.Client(pods...)
	assert.NilError(t, err)
	defer c.Close()
	for i := range n {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		_, err := c.Put(ctx, fmt.Sprintf("%s/%d", prefix, i), "x")
		cancel()
		assert.NilError(t, err)
	}
}

// count returns how many keys of a prefix a quorum has, or -1 where none answers.
func count(t *testing.T, prefix string, pods ...*rig.Pod) int {
	t.Helper()
	c, err := rig.Client(pods...)
	assert.NilError(t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	found, err := c.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return -1
	}
	return int(found.Count)
}

// during drives for a while, and fails the test when the operator has an effect but to write on claims.
func during(t *testing.T, d *rig.Driver, what string, while time.Duration, holds func(membership.Decision)) {
	t.Helper()
	before := maps.Clone(d.Effects)
	until := time.Now().Add(while)
	d.Until(while+time.Minute, what, func(decision membership.Decision) error {
		holds(decision)
		return later(until)
	})
	for action, n := range d.Effects {
		if action != membership.ActionWait && action != membership.ActionMarkClaim && n != before[action] {
			t.Errorf("%s: %s was done %d times", what, action, n-before[action])
		}
	}
}

// look drives until the operator has noted on the claims how far the data goes.
func look(d *rig.Driver) {
	until := time.Now().Add(11 * time.Second)
	d.Until(time.Minute, "it is noted how far the data goes", func(membership.Decision) error { return later(until) })
}

// others returns the pods but for some.
func others(f *rig.Fleet, but ...*rig.Pod) (found []*rig.Pod) {
	for _, pod := range f.Pods() {
		is := false
		for _, b := range but {
			is = is || b.Ordinal == pod.Ordinal
		}
		if !is {
			found = append(found, pod)
		}
	}
	return found
}

// The storage puts the volume of a member back to an earlier state, and with the one member that was away it would be a quorum that
// has forgotten what was acknowledged. It never votes: in the same pod, by the note of the pod, although the operator saw nothing of
// the writes; in a new pod, by what the operator noted on its claim.
func TestVolumeOfThePastNeverVotes(t *testing.T) {
	t.Parallel()
	for name, samePod := range map[string]bool{"the same pod": true, "another pod": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := rig.NewFleet(t, rig.Options{})
			d := rig.NewDriver(f, 3)
			d.Settle(2*time.Minute, "three voters")
			write(t, 20, "before", f.Pods()...)
			back := d.Follower()
			back.Hold()
			putBack := back.Save()
			back.Release()
			d.Settle(time.Minute, "it is back")
			leader := d.Leader()
			third := others(f, back, leader)[0]
			third.Hold()
			const acked = 300
			write(t, acked, "acked", leader, back)
			if samePod {
				time.Sleep(1500 * time.Millisecond) // the note is written behind, twice a second
			} else {
				look(d)
			}
			leader.Hold()
			back.Hold()
			putBack()
			if !samePod {
				back = f.Replaced(back.Ordinal)
			}
			back.Release()
			third.Release()
			during(t, d, "one of the past and one that was away", 8*time.Second, func(decision membership.Decision) {
				if n := count(t, "acked", back, third); n >= 0 {
					t.Fatalf("a quorum answers with %d of %d acknowledged keys", n, acked)
				}
			})
			d.Until(time.Minute, "the status says so", func(decision membership.Decision) error {
				if m := decision.Model; m.Verdict != membership.QuorumLost || !strings.Contains(m.Reason, fmt.Sprintf("pod %d: the volume is of the past", back.Ordinal)) {
					return fmt.Errorf("%s: %s", m.Verdict, m.Reason)
				}
				return nil
			})
			leader.Release()
			took := d.Settle(2*time.Minute, "the member of the past is replaced")
			if n := count(t, "acked", f.Pods()...); n != acked {
				t.Errorf("%d of %d acknowledged keys are there", n, acked)
			}
			t.Logf("nothing is lost, and three voters are well %s after the third was back", round(took))
		})
	}
}

// All volumes are put back to an earlier state: nothing starts, and with consent the cluster goes on with the newest of them, once.
func TestAllVolumesOfThePast(t *testing.T) {
	t.Parallel()
	f := rig.NewFleet(t, rig.Options{})
	d := rig.NewDriver(f, 3)
	d.Settle(2*time.Minute, "three voters")
	write(t, 20, "before", f.Pods()...)
	time.Sleep(time.Second) // etcd that goes on alone keeps what it knows to be agreed on, which members hear a moment later
	var putBack []func()
	for _, pod := range f.Pods() {
		pod.Hold()
		putBack = append(putBack, pod.Save())
	}
	for _, pod := range f.Pods() {
		pod.Release()
	}
	d.Settle(time.Minute, "they go on")
	write(t, 100, "acked", f.Pods()...)
	look(d)
	for i, pod := range f.Pods() {
		pod.Hold()
		putBack[i]()
	}
	for i := range 3 {
		f.Replaced(i).Release()
	}
	d.Until(time.Minute, "the status says so", func(decision membership.Decision) error {
		if m := decision.Model; !m.DataLost || !strings.Contains(m.Reason, "of the past") || !strings.Contains(m.Reason, "spec.recovery.from") {
			return fmt.Errorf("%s: %s", m.Verdict, m.Reason)
		}
		return nil
	})
	during(t, d, "nothing starts", 4*time.Second, func(membership.Decision) {})
	d.Want.Recovery = membership.Recovery{From: membership.RecoverBest, Token: "1"}
	took := d.Settle(2*time.Minute, "the recovery")
	if n := count(t, "before", f.Pods()...); n != 20 {
		t.Errorf("%d of 20 keys are there", n)
	}
	t.Logf("recovered: three voters after %s", round(took))
	for _, pod := range f.Pods() {
		pod.Kill()
	}
	d.Settle(time.Minute, "they start on what they have since")

	// The resource is made again, as GitOps does, with the same token in it. It is used, whatever the record says.
	f.SetRecord(membership.Record{})
	d.Settle(time.Minute, "the record is made again")
	if tokens := f.Record().Tokens; tokens != "1" {
		t.Errorf("the record has the tokens %q", tokens)
	}
	survivor := d.Follower()
	for _, pod := range others(f, survivor) {
		f.LoseVolume(pod.Ordinal)
	}
	f.SetRecord(membership.Record{})
	d.Until(time.Minute, "the status says so", func(decision membership.Decision) error {
		if m := decision.Model; !strings.Contains(m.Reason, "The token 1 was used before") {
			return fmt.Errorf("%s: %s", m.Verdict, m.Reason)
		}
		return nil
	})
	during(t, d, "the token is used", 4*time.Second, func(membership.Decision) {})
	d.Want.Recovery.Token = "2"
	t.Logf("recovered again, with another token: three voters after %s", round(d.Settle(2*time.Minute, "the next recovery")))
	if n := count(t, "before", f.Pods()...); n != 20 {
		t.Errorf("%d of 20 keys are there", n)
	}
}

// All claims are deleted by mistake, and then all containers end: no pod is deleted, and the data is there. A person deletes one pod
// at a time, and nothing is lost.
func TestClaimsAreBeingDeleted(t *testing.T) {
	t.Parallel()
	f := rig.NewFleet(t, rig.Options{})
	d := rig.NewDriver(f, 3)
	d.Settle(2*time.Minute, "three voters")
	write(t, 20, "before", f.Pods()...)
	pods := f.Pods()
	f.DeleteClaims()
	f.NewRevision()
	loud := func(decision membership.Decision) {
		if m := decision.Model; m.Settled || !strings.HasPrefix(m.Reason, "the claims of rig-0, rig-1, rig-2 are being deleted") {
			t.Errorf("%s: %s", m.Phase, m.Reason)
		}
	}
	during(t, d, "claims are being deleted", 3*time.Second, loud)
	for _, pod := range pods {
		pod.Kill()
	}
	during(t, d, "all containers have ended", 6*time.Second, loud)
	for i, pod := range f.Pods() {
		if pod != pods[i] {
			t.Errorf("pod %s was replaced", pod.Name)
		}
	}
	for ordinal := range 3 {
		f.DeletePod(ordinal)
		d.Until(2*time.Minute, fmt.Sprintf("member %d is replaced", ordinal), func(decision membership.Decision) error {
			if m := decision.Model; m.Healthy != 3 || strings.Contains(m.Reason, rig.PodName(ordinal)) {
				return fmt.Errorf("%s: %s", m.Phase, m.Reason)
			}
			return nil
		})
	}
	d.Settle(time.Minute, "three voters on new volumes")
	if n := count(t, "before", f.Pods()...); n != 20 {
		t.Errorf("%d of 20 keys are there", n)
	}
}

// A record that is edited, old or gone takes no member away.
func TestRecordOfThePast(t *testing.T) {
	t.Parallel()
	f := rig.NewFleet(t, rig.Options{})
	d := rig.NewDriver(f, 3)
	d.Settle(2*time.Minute, "three voters")
	ids, pods, now := d.IDs(), f.Pods(), f.Record()
	for _, replicas := range []int{1, 7, 0} {
		record := now
		record.Replicas = replicas
		if replicas == 0 {
			record = membership.Record{}
		}
		f.SetRecord(record)
		d.Settle(time.Minute, fmt.Sprintf("a record of %d", replicas))
		if d.IDs().Missing(ids) > 0 || f.Record() != now {
			t.Errorf("after a record of %d: %+v", replicas, f.Record())
		}
		for i, pod := range pods {
			if f.Pod(i) != pod {
				t.Errorf("a record of %d: pod %s was replaced", replicas, pod.Name)
			}
		}
	}
	// While no quorum answers as well.
	for _, pod := range pods[1:] {
		pod.Hold()
	}
	f.SetRecord(membership.Record{Cluster: now.Cluster, Replicas: 1, Version: now.Version})
	d.Until(time.Minute, "the record is as before", func(membership.Decision) error {
		if f.Record().Replicas != 3 {
			return fmt.Errorf("%+v", f.Record())
		}
		return nil
	})
	for _, pod := range pods[1:] {
		pod.Release()
	}
	d.Settle(time.Minute, "three voters")
	if n := d.IDs().Missing(ids); n > 0 {
		t.Errorf("%d members were replaced", n)
	}
}
