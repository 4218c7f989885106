// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"testing"
	"time"

	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/redis/rig"
)

// What a master that is killed may cost. A write that a replica had too (WAIT 1) is never lost; one that was only
// acknowledged by the master may be, and no more than those of the second before.
func TestMasterKilledUnderLoad(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		wait bool
	}{{"acknowledged by a replica too", true}, {"acknowledged by the master", false}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f, d, _ := formed(t, 2, 2, 2)
			s := &scenario{T: t, f: f, d: d, before: fill(t, f, 1000)}
			ledger := f.Keep(rig.LedgerOptions{Wait: c.wait})
			rig.Until(t, "it is written to", func() error { return ledger.Written(1000) })
			dead := s.master(1)
			dead.Kill()
			s.served(nodeTimeout+3*time.Second, time.Now())
			dead.Start()
			d.Settle(2*time.Minute, "it heals")
			rig.Until(t, "all is written to again", ledger.WrittenAll)
			figures := ledger.Close()
			if c.wait {
				figures.Nothing(t, c.name)
			} else {
				t.Logf("%s: %d writes acknowledged, %d of unknown outcome, %d of them older than what was read afterwards, by %s at most; longest pause of a key %s",
					c.name, figures.Writes, figures.Unknown, len(figures.Wrong), figures.Oldest.Round(time.Millisecond), figures.Longest.Round(time.Millisecond))
				if figures.Oldest > harness.Bound(time.Second, full) {
					t.Errorf("a write is lost that was acknowledged %s before the master was killed", figures.Oldest)
				}
			}
			unchanged(t, f, s.before)
		})
	}
}
