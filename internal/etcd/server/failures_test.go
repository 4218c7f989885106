// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/etcd/membership"
	"d3os.com/d3os-operator/internal/reconcile"
)

// A step that fails twice in a row is not due for some time. The delays grow until the step succeeds. Other steps and other clusters are
// not affected.
func TestFailedStepsAreDelayed(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	f := newFailures(func() time.Time { return now })
	step := membership.Step{Action: membership.ActionDeletePod, Pod: membership.Place{Pod: "store-1", UID: "u1"}}
	other := membership.Step{Action: membership.ActionDeletePod, Pod: membership.Place{Pod: "store-2", UID: "u2"}}
	isHeld := func() bool { return len(f.of("a/store")) > 0 }
	fail := func(err error) { f.note(t.Context(), "a/store", step, err) }
	webhook := errors.New("admission webhook denied the request")

	fail(webhook)
	assert.Assert(t, !isHeld(), "it is retried at once")
	fail(webhook)
	assert.DeepEqual(t, f.of("a/store"), []membership.Failure{{Step: step.Key(), Cause: webhook.Error()}})
	assert.Assert(t, step.Key() != other.Key())
	assert.Equal(t, len(f.of("b/store")), 0)
	f.note(t.Context(), "a/store", other, nil)
	now = now.Add(stepAgain)
	assert.Assert(t, !isHeld())
	for range 20 {
		fail(webhook)
	}
	now = now.Add(lastAgain - time.Second)
	assert.Assert(t, isHeld())
	now = now.Add(time.Second)
	assert.Assert(t, !isHeld(), "lastAgain is the longest delay")
	fail(webhook)
	fail(nil)
	fail(webhook)
	assert.Assert(t, !isHeld(), "a success ends the row of failures")

	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	fail(fmt.Errorf("stop: %w", reconcile.ErrNotHeld))
	f.note(canceled, "a/store", step, webhook)
	assert.Assert(t, !isHeld(), "an interruption proves nothing")
	fail(webhook)
	f.forget("a/store")
	assert.Assert(t, !isHeld())

	for i := range mostRefusals {
		assert.Assert(t, !isHeld(), "etcd refuses for some seconds after each change: %d", i)
		fail(fmt.Errorf("%w: unhealthy cluster", ErrNotYet))
	}
	assert.Assert(t, isHeld())
}
