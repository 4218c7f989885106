// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// A right that the operator lacks is logged once a minute, and fails the readiness until two minutes after the last refusal.
func TestRefusals(t *testing.T) {
	t.Parallel()
	const text = `failed to list apps/v1, Kind=StatefulSet: statefulsets.apps is forbidden: User "u" cannot list resource "statefulsets" in API group "apps" at the cluster scope`
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	r := NewRefusals()
	r.now = func() time.Time { return now }
	assert.NilError(t, r.Check(nil))
	for _, c := range []struct {
		after time.Duration
		logs  bool
	}{{0, true}, {time.Second, false}, {30 * time.Second, false}, {30 * time.Second, true}, {3 * time.Minute, true}} {
		now = now.Add(c.after)
		message, logs := r.add(text)
		assert.Equal(t, logs, c.logs)
		assert.Equal(t, message, `cannot list resource "statefulsets" in API group "apps" at the cluster scope`)
		assert.Error(t, r.Check(nil), `the operator cannot list resource "statefulsets" in API group "apps" at the cluster scope: correct its ClusterRole or Role`)
	}
	r.add("pods is forbidden: no reason")
	assert.ErrorContains(t, r.Check(nil), "; it pods is forbidden: no reason")
	now = now.Add(lasts + time.Second)
	assert.NilError(t, r.Check(nil))
}
