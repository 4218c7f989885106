// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/kinds/etcdcluster/membership"
	"d3os.com/d3os-operator/test/etcd/rig"
	"d3os.com/d3os-operator/test/harness"
)

// three returns a settled cluster of three with clients at work.
func three(t *testing.T, options rig.Options) (*rig.Fleet, *rig.Driver, *rig.Load) {
	t.Helper()
	f := rig.NewFleet(t, options)
	d := rig.NewDriver(f, 3)
	d.Settle(2*time.Minute, "three voters")
	return f, d, f.Load()
}

// fault is something that happens, and what has to come of it.
type fault struct {
	name   string
	happen func(*rig.Fleet, *rig.Driver)
	within time.Duration
	// replaces is how many members are replaced for it.
	replaces int
}

var faults = []fault{
	{"a follower is killed", func(f *rig.Fleet, d *rig.Driver) { d.Follower().Kill() }, 10 * time.Second, 0},
	{"the leader is killed", func(f *rig.Fleet, d *rig.Driver) { d.Leader().Kill() }, 10 * time.Second, 0},
	{"all are killed", func(f *rig.Fleet, _ *rig.Driver) {
		for _, pod := range f.Pods() {
			pod.Kill()
		}
	}, 10 * time.Second, 0},
	{"a claim and its pod are deleted", func(f *rig.Fleet, d *rig.Driver) { f.LoseVolume(d.Follower().Ordinal) }, 60 * time.Second, 1},
	{"the leader's claim and pod are deleted", func(f *rig.Fleet, d *rig.Driver) { f.LoseVolume(d.Leader().Ordinal) }, 60 * time.Second, 1},
	{"a folder is wiped", func(_ *rig.Fleet, d *rig.Driver) { d.Follower().Wipe() }, 60 * time.Second, 1},
	{"bytes of a log are flipped", func(_ *rig.Fleet, d *rig.Driver) { d.Follower().FlipWAL() }, 60 * time.Second, 1},
}

// Each fault heals in time, with every acknowledged key, and the empty volume never votes.
func TestFaults(t *testing.T) {
	t.Parallel()
	f, d, load := three(t, rig.Options{})
	for _, fault := range faults {
		before := d.Effects[membership.ActionPromote]
		members := d.IDs()
		began := time.Now()
		fault.happen(f, d)
		d.Unsettle(30*time.Second, fault.name)
		bound := harness.Bound(fault.within, full)
		d.Settle(bound+time.Minute, fault.name)
		took := time.Since(began)
		if took > bound {
			t.Errorf("%s: healed after %s, and it should within %s", fault.name, round(took), bound)
		}
		if n := d.Effects[membership.ActionPromote] - before; n != fault.replaces {
			t.Errorf("%s: %d members were replaced, not %d", fault.name, n, fault.replaces)
		}
		t.Logf("%s: all well after %s, %d of %d members are new", fault.name, round(took), d.IDs().Missing(members), len(members))
	}
	load.End(t)
}

// Members that only pause, or cannot reach each other, are left alone.
func TestPaused(t *testing.T) {
	harness.Long(t)
	t.Parallel()
	f, d, load := three(t, rig.Options{})
	removed := d.Effects[membership.ActionRemove]
	paused := d.Follower()
	paused.Signal(syscall.SIGSTOP)
	d.Unsettle(30*time.Second, "a member is paused")
	until := time.Now().Add(5 * time.Second)
	d.Until(10*time.Second, "a paused member stays", func(decision membership.Decision) error {
		if decision.Model.Verdict != membership.Degraded {
			t.Fatalf("a paused member: %s: %s", decision.Model.Verdict, decision.Model.Reason)
		}
		return later(until)
	})
	paused.Signal(syscall.SIGCONT)
	t.Logf("paused: all well %s after it goes on", round(d.Settle(time.Minute, "it goes on")))

	alone := d.Leader().Ordinal
	for other := range 3 {
		if other != alone {
			f.Cut(alone, other, true)
		}
	}
	d.Unsettle(30*time.Second, "the leader is cut off")
	until = time.Now().Add(5 * time.Second)
	d.Until(20*time.Second, "nobody is removed", func(membership.Decision) error { return later(until) })
	for other := range 3 {
		if other != alone {
			f.Cut(alone, other, false)
		}
	}
	t.Logf("cut off: all well %s after the links are back", round(d.Settle(time.Minute, "the links are back")))
	if n := d.Effects[membership.ActionRemove] - removed; n != 0 {
		t.Errorf("%d members were removed, and all could come back", n)
	}
	load.End(t)
}

// Two of three lose their data: nothing is changed. With a token, the cluster goes on with the data of the third.
func TestQuorumLost(t *testing.T) {
	t.Parallel()
	f, d, load := three(t, rig.Options{})
	// All three have everything, so that the data of one of them is all there is.
	load.End(t)
	survivor := d.Follower()
	before := maps.Clone(d.Effects)
	for _, pod := range f.Pods() {
		if pod != survivor {
			f.LoseVolume(pod.Ordinal)
		}
	}
	until := time.Now().Add(5 * time.Second)
	d.Until(30*time.Second, "nothing is changed", func(decision membership.Decision) error {
		m := decision.Model
		if m.Verdict != membership.QuorumLost || !strings.Contains(m.Reason, "recovery.from") || !strings.Contains(m.Reason, survivor.Name) {
			until = time.Now().Add(5 * time.Second)
			return fmt.Errorf("%s: %s", m.Verdict, m.Reason)
		}
		return later(until)
	})
	for action, n := range d.Effects {
		if action != membership.ActionWait && n != before[action] {
			t.Errorf("%s was done %d times", action, n-before[action])
		}
	}
	d.Want.Recovery = membership.Recovery{From: membership.RecoverBest, Token: "1"}
	took := d.Settle(90*time.Second, "the recovery")
	t.Logf("recovered: three voters after %s", round(took))
	load.Verify(t)
	// The token counts once.
	for _, pod := range f.Pods() {
		f.LoseVolume(pod.Ordinal)
	}
	until = time.Now().Add(4 * time.Second)
	d.Until(30*time.Second, "nothing is changed", func(decision membership.Decision) error {
		if decision.Model.Verdict != membership.QuorumLost || !strings.Contains(decision.Model.Reason, "Empty") {
			until = time.Now().Add(4 * time.Second)
			return fmt.Errorf("%s: %s", decision.Model.Verdict, decision.Model.Reason)
		}
		return later(until)
	})
	d.Want.Recovery = membership.Recovery{From: membership.RecoverEmpty, Token: "2"}
	clear(d.Clusters)
	took = d.Settle(2*time.Minute, "a new cluster")
	t.Logf("begun again: three voters after %s", round(took))
}

// The space is used up, by history: it is dropped, the files are rewritten, the leader's last, and writes go on.
func TestNoSpace(t *testing.T) {
	harness.Long(t)
	t.Parallel()
	f := rig.NewFleet(t, rig.Options{Flags: []string{"--quota-backend-bytes=8388608"}})
	d := rig.NewDriver(f, 3)
	d.Settle(2*time.Minute, "three voters")
	c, err := rig.Client(d.Leader())
	assert.NilError(t, err)
	defer c.Close()
	value, written := strings.Repeat("x", 100<<10), 0
	for err == nil && written < 200 {
		if _, err = c.Put(t.Context(), "large", value); err == nil {
			written++
		}
	}
	if !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Fatalf("after %d writes: %v", written, err)
	}
	d.Unsettle(30*time.Second, "the space is used up")
	took := d.Settle(2*time.Minute, "there is space again")
	if _, err := c.Put(t.Context(), "large", "small"); err != nil {
		t.Fatalf("write again: %v", err)
	}
	for action, least := range map[membership.Action]int{
		membership.ActionCompact: 1, membership.ActionDefrag: 3, membership.ActionMoveLeader: 1, membership.ActionDisarm: 1,
	} {
		if d.Effects[action] < least {
			t.Errorf("%s was done %d times, and it takes %d", action, d.Effects[action], least)
		}
	}
	t.Logf("full after %d writes of 100 KiB, writable again after %s: %v", written, round(took), d.Effects)
}

// At rest nothing is done, whatever a pass may find.
func TestAtRest(t *testing.T) {
	harness.Long(t)
	t.Parallel()
	_, d, load := three(t, rig.Options{})
	effects := maps.Clone(d.Effects)
	for range 20 {
		decision := d.Pass(t.Context())
		if quiet := len(decision.Steps) > 0 && decision.Steps[0].Quiet; !decision.Model.Settled || !quiet && decision.LookAgain < 30*time.Second {
			t.Fatalf("at rest: %s, next look in %s", decision.Model.Reason, decision.LookAgain)
		}
	}
	for action, n := range d.Effects {
		if n != effects[action] && action != membership.ActionMarkClaim { // clients write
			t.Errorf("at rest %s was done", action)
		}
	}
	load.End(t)
}

func later(than time.Time) error {
	if time.Now().After(than) {
		return nil
	}
	return errors.New("not yet")
}
