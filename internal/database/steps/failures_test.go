// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"maps"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// If two steps fail alternately, each is delayed: the consecutive failures of one step are counted regardless of the
// other step. The count starts again after a success, or after a long time without a failure.
func TestFailures(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	var b Failures[string]
	fail := func(keys ...string) {
		for _, key := range keys {
			b.Fail(key, now, "cause of "+key, func(times int) time.Duration {
				if times == 1 {
					return 0
				}
				return Doubled(time.Second, times-2, 4*time.Second)
			})
		}
	}
	held := func() map[string]string { return maps.Collect(b.Held(now)) }

	fail("a", "b")
	assert.Equal(t, len(held()), 0, "each is retried at once")
	fail("a", "b")
	assert.DeepEqual(t, held(), map[string]string{"a": "cause of a", "b": "cause of b"})
	now = now.Add(time.Second)
	assert.Equal(t, len(held()), 0)
	for range 9 {
		fail("a")
	}
	now = now.Add(4*time.Second - 1)
	assert.Equal(t, len(held()), 1)
	now = now.Add(1)
	assert.Equal(t, len(held()), 0, "no delay is longer than four seconds")

	b.Forget(func(key string) bool { return key == "a" })
	fail("a")
	assert.Equal(t, len(held()), 0, "after a success, the next failure counts as the first")
	now = now.Add(rowEnds + 1)
	fail("a")
	assert.Equal(t, len(held()), 0)
	assert.Equal(t, b.Count(func(key string) bool { return key == "b" }), 0)
}
