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
	"d3os.com/d3os-operator/test/redis/rig"
)

// passes drives until a condition holds, and fails if it does not in time.
func (s *scenario) passes(within time.Duration, what string, holds func(topology.Decision) bool) {
	s.Helper()
	s.d.Until(within, what, func(d topology.Decision) error {
		if !holds(d) {
			return fmt.Errorf("%s: %s", d.Model.Verdict, d.Model.Reason)
		}
		return nil
	})
}

// openOn names the marks of open slots.
func openOn(t *testing.T, f *rig.Fleet) (marks []string) {
	t.Helper()
	for _, pod := range f.Pods() {
		if !pod.Running() {
			continue
		}
		for _, e := range view(t, pod) {
			for slot, id := range e.Migrating {
				marks = append(marks, fmt.Sprintf("%s: %d to %s", pod.Name, slot, id))
			}
			for slot, id := range e.Importing {
				marks = append(marks, fmt.Sprintf("%s: %d from %s", pod.Name, slot, id))
			}
		}
	}
	return marks
}

// A move whose target takes no keys is undone, and keeps nothing else from happening: a pod that lost its volume joins,
// and the setting that is the remedy is applied. No key is lost, and no reader finds one missing.
func TestFullTargetStopsNothingElse(t *testing.T) {
	t.Parallel()
	s := &scenario{T: t}
	s.f, s.d, _ = formed(t, 2, 2, 2)
	s.before = fill(t, s.f, 30000)
	s.written()
	slots := s.halfMoved(0, 1)
	source, target, lost := s.master(0), s.master(1), s.replica(2)
	ledger := s.f.Keep(rig.LedgerOptions{})
	rig.Until(t, "it is written to", func() error { return ledger.Written(100) })
	assert.NilError(t, target.Client().ConfigSet(t.Context(), "maxmemory", "1mb").Err())
	loseVolume(lost)
	said := false
	s.passes(40*time.Second, "the open slots go back, and the empty pod joins", func(d topology.Decision) bool {
		said = said || strings.HasPrefix(d.Model.Reason, target.Name+" takes no more keys, its memory is full: raise maxmemory")
		return len(openOn(s.T, s.f)) == 0 && d.Model.Redundant && d.Model.Served == topology.Slots
	})
	assert.Assert(t, said, "the status begins with the cause")
	assert.Equal(t, owned(t, source).Intersect(slots).Len(), slots.Len(), "the owner has its slots")
	s.d.Wanted.Settings = map[string]string{"maxmemory": "0"}
	s.d.Settle(time.Minute, "maxmemory is raised")
	figures := ledger.Close()
	assert.Equal(t, figures.Lost+len(figures.Wrong), 0, "%+v", figures)
	unchanged(t, s.f, s.before)
}

// A value that is too large to be moved stays, and is named. Nothing blocks for the node timeout, so nobody fails over,
// and all other slots get to where they belong.
func TestHugeValueIsNamedAndStays(t *testing.T) {
	t.Parallel()
	s := &scenario{T: t}
	s.f, s.d, _ = formed(t, 2, 2, 2)
	s.before = fill(t, s.f, 1000)
	first, key := s.master(0), ""
	for i := 0; key == ""; i++ {
		one := fmt.Sprintf("hash-%d", i)
		if slot, err := first.Client().ClusterKeySlot(t.Context(), one).Result(); err == nil && slot < 200 {
			key = one
		}
	}
	value := strings.Repeat("v", 4000)
	for i := range 30 {
		var fields []any
		for j := range 1000 {
			fields = append(fields, fmt.Sprint(i*1000+j), value)
		}
		assert.NilError(t, first.Client().HSet(t.Context(), key, fields...).Err())
	}
	s.d.Wanted.Shards = []int{2, 2, 2, 2}
	said := ""
	s.passes(2*time.Minute, "as many slots as it should have are moved", func(d topology.Decision) bool {
		if strings.Contains(d.Model.Reason, key) {
			said = d.Model.Reason
		}
		if len(d.Steps) > 0 && d.Steps[0].Mode == "FORCE" {
			t.Errorf("a failover that nobody planned: %s", d.Steps[0].Message)
		}
		return d.Model.Settled && s.f.Pod(3, 0).Running() && owned(t, s.f.Pod(3, 0)).Len() == topology.Slots/4
	})
	assert.Assert(t, strings.HasPrefix(said, fmt.Sprintf("the value of key %q takes 1", key)), said)
	assert.Equal(t, len(openOn(t, s.f)), 0)
	n, err := s.master(0).Client().HLen(t.Context(), key).Result()
	assert.NilError(t, err)
	assert.Equal(t, n, int64(30000))
}

// Settings that Redis reports in other words than they were given in are set once, and the cluster comes to rest.
func TestSettingsInOtherWordsAreSetOnce(t *testing.T) {
	t.Parallel()
	f, d, _ := formed(t, 1, 1, 1)
	d.Wanted.Settings = map[string]string{"hz": "1000", "client-output-buffer-limit": "replica 512mb 64mb 60", "notify-keyspace-events": "KEA"}
	d.Settle(20*time.Second, "all settings are taken")
	d.Wanted.Settings["hz"] = "50"
	d.Settle(20*time.Second, "one is changed")
	value, err := f.Pod(0, 0).Client().ConfigGet(t.Context(), "hz").Result()
	assert.NilError(t, err)
	assert.Equal(t, value["hz"], "50")
}
