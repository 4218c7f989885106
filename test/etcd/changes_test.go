// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"d3os.com/d3os-operator/internal/kinds/etcdcluster/membership"
	"d3os.com/d3os-operator/internal/kinds/etcdcluster/server"
	"d3os.com/d3os-operator/test/etcd/rig"
	"d3os.com/d3os-operator/test/harness"
)

// longestPause is how long nothing may be written while something planned goes on: an election, and the patience of a client.
var longestPause = harness.Bound(4*time.Second, full)

// More members, fewer, one, none, and again three, under load: nothing that was acknowledged is lost.
func TestScales(t *testing.T) {
	t.Parallel()
	f := rig.NewFleet(t, rig.Options{})
	d := rig.NewDriver(f, 1)
	d.Settle(time.Minute, "one voter")
	load := f.Load()
	sizes := []int{3, 1}
	if full {
		sizes = []int{3, 5, 3, 1}
	}
	for _, replicas := range sizes {
		d.Want.Replicas = replicas
		took := d.Settle(time.Duration(replicas)*30*time.Second+time.Minute, fmt.Sprintf("%d members", replicas))
		t.Logf("%d members: %s", replicas, round(took))
	}
	load.End(t)
	load.Paused(t, longestPause)
	d.Want.Replicas = 0
	d.Until(30*time.Second, "parked", func(decision membership.Decision) error {
		if decision.Model.Verdict != membership.Parked || len(f.Pods()) > 0 {
			return fmt.Errorf("%s, and there are %d pods", decision.Model.Verdict, len(f.Pods()))
		}
		return nil
	})
	d.Want.Replicas = 3
	took := d.Settle(2*time.Minute, "three members again")
	load.Verify(t)
	t.Logf("0 to 3 members: %s; effects %v", round(took), d.Effects)
}

// Every pod is replaced, followers first, and the leader once another one leads.
func TestRolls(t *testing.T) {
	harness.Long(t)
	t.Parallel()
	f, d, load := three(t, rig.Options{})
	before := f.Pods()
	ids := d.IDs()
	f.NewRevision()
	d.Unsettle(30*time.Second, "another revision is wanted")
	took := d.Settle(2*time.Minute, "all pods are replaced")
	load.End(t)
	load.Paused(t, longestPause)
	for i, pod := range f.Pods() {
		if pod == before[i] {
			t.Errorf("pod %s was not replaced", pod.Name)
		}
	}
	if n := d.IDs().Missing(ids); n > 0 {
		t.Errorf("%d members are other ones: a pod that is replaced keeps its data", n)
	}
	if d.Effects[membership.ActionMoveLeader] == 0 {
		t.Error("the leader was not moved")
	}
	t.Logf("three pods replaced in %s, the leader moved %d times", round(took), d.Effects[membership.ActionMoveLeader])
}

// Debian's etcd 3.4 becomes 3.6, by way of 3.5, under load.
func TestUpgrades(t *testing.T) {
	harness.Long(t)
	t.Parallel()
	_, d, load := three(t, rig.Options{Version: rig.V34})
	d.Want.Version = rig.V36
	d.Unsettle(30*time.Second, "another version is wanted")
	var versions []string
	took := d.Until(4*time.Minute, "all members run "+rig.V36, func(decision membership.Decision) error {
		if at := decision.Model.Target; len(versions) == 0 || versions[len(versions)-1] != at {
			versions = append(versions, at)
		}
		if !decision.Model.Settled || decision.Model.Version != rig.V36 {
			return fmt.Errorf("%s at %s: %s", decision.Model.Phase, decision.Model.Version, decision.Model.Reason)
		}
		return d.Check(t.Context(), decision.Model)
	})
	load.End(t)
	load.Paused(t, longestPause)
	want := []string{rig.V34, rig.V35, rig.V36}
	if !slices.Equal(slices.Compact(append(want[:1:1], versions...)), want) {
		t.Errorf("the versions on the way were %v, not %v", versions, want)
	}
	t.Logf("%s in %s, the leader moved %d times", strings.Join(want, " to "), round(took), d.Effects[membership.ActionMoveLeader])
	d.Want.Version = rig.V35
	d.Until(10*time.Second, "no way back", func(decision membership.Decision) error {
		if !strings.Contains(decision.Model.Reason, "go back") {
			return fmt.Errorf("%s: %s", decision.Model.Phase, decision.Model.Reason)
		}
		return nil
	})
}

// mortal ends each life of an operator at an effect: before it, or after it.
type mortal struct {
	mu    sync.Mutex
	at    int // effects that a life may have
	after bool
	ends  map[string]int
}

func (m *mortal) next() server.Tap { return &life{mortal: m} }

type life struct {
	*mortal
	had int
}

// Before ends a life whose effects are used up.
func (l *life) Before(action membership.Action) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.had >= l.at && !l.after {
		l.ends["before "+string(action)]++
		return rig.ErrEnded
	}
	return nil
}

// After ends a life that has had its effects.
func (l *life) After(action membership.Action) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.had++
	if l.after && l.had > l.at {
		l.ends["after "+string(action)]++
		return rig.ErrEnded
	}
	return nil
}

// An operator that ends after each of its effects, each life with one effect only, brings everything about.
func TestOperatorEndsAtEachEffect(t *testing.T) {
	harness.Long(t)
	t.Parallel()
	m := &mortal{ends: map[string]int{}, at: 1}
	f := rig.NewFleet(t, rig.Options{})
	d := rig.NewDriver(f, 3)
	d.Tap = m.next
	t.Logf("three voters: %s, %d lives", round(d.Settle(2*time.Minute, "the cluster forms")), d.Lives)
	load := f.Load()
	for _, change := range []struct {
		name string
		make func()
	}{
		{"a volume is lost", func() { f.LoseVolume(d.Follower().Ordinal) }},
		{"the leader's volume is lost", func() { f.LoseVolume(d.Leader().Ordinal) }},
		{"all pods are replaced", f.NewRevision},
		{"one member", func() { d.Want.Replicas = 1 }},
	} {
		began := d.Lives
		m.mu.Lock()
		m.at = (m.at + 1) % 2
		m.after = !m.after
		m.mu.Unlock()
		change.make()
		if m.at == 0 && !m.after {
			m.at = 1 // a life without an effect gets nowhere
		}
		d.Unsettle(30*time.Second, change.name)
		t.Logf("%s: %s, %d lives", change.name, round(d.Settle(3*time.Minute, change.name)), d.Lives-began)
	}
	load.End(t)
	t.Logf("lives ended %v", m.ends)
	ended := strings.Join(slices.Sorted(maps.Keys(m.ends)), ", ")
	for _, action := range []membership.Action{
		membership.ActionRecord, membership.ActionTicket, membership.ActionMarkClaim, membership.ActionAddLearner,
		membership.ActionPromote, membership.ActionRemove, membership.ActionDeletePod, membership.ActionMoveLeader,
	} {
		if !strings.Contains(ended, string(action)) {
			t.Errorf("no life ended at %s", action)
		}
	}
}
