// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// From the last pod ready to all slots served it takes a few passes.
func TestModelForms(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t, 5) {
		t.Run(name(seed), func(t *testing.T) {
			t.Parallel()
			r := newRun(t, seed, 3, 2, 2)
			r.settle(time.Minute)
			assert.Equal(t, r.record.Formed, true)
		})
	}
}

// Everything that is planned, with the operator dying at any command: no write is lost, no read is stale.
func TestModelPlanned(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t, 5) {
		t.Run(name(seed), func(t *testing.T) {
			t.Parallel()
			r := newRun(t, seed, 3, 2, 2)
			r.settle(time.Minute)
			for _, shards := range [][]int{{2, 2, 2, 2}, {2, 2, 2, 2, 2, 2}, {2, 2, 2}, {3, 2, 2, 2}} {
				r.wanted.Shards = shards
				r.wanted.Generation++
				r.crashes()
				r.settle(5 * time.Minute)
				for _, p := range r.pods {
					p.outdated = true
				}
				r.settle(10 * time.Minute)
			}
		})
	}
}

// crashes has the operator die after some commands, again and again.
func (r *run) crashes() { r.budget = r.rnd.IntN(200) }
