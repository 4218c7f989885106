// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The first readiness is stored when the database stops being ready, and is never replaced. Only a database with a first readiness can
// begin again.
func TestBeginning(t *testing.T) {
	t.Parallel()
	first, later := metav1.NewTime(time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)), metav1.NewTime(time.Date(2026, 2, 2, 15, 4, 5, 0, time.UTC))
	is := func(kind, reason string) []metav1.Condition {
		return []metav1.Condition{{Type: kind, Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: later}}
	}
	ready, emptied := is("Ready", "AllServed"), is("BeganEmpty", "DataLost")
	const note = "RedisCluster cache began empty: it was formed without data and without a record after it was ready (2026-01-02T15:04:05Z); " +
		"restore a backup, or accept the loss: remove status.firstReady"
	for name, test := range map[string]struct {
		known         *metav1.Time
		conditions    []metav1.Condition
		serves, forms bool
		stored        *metav1.Time
		note          string
	}{
		"new": {nil, nil, false, true, nil, ""},
		"ready, in the status of an older version": {nil, ready, true, false, nil, ""},
		"stops being ready":                        {nil, ready, false, false, &later, ""},
		"stops being ready again":                  {&first, ready, false, false, &first, ""},
		"was never more than parked":               {nil, is("Ready", "Parked"), false, true, nil, ""},
		"is formed again":                          {&first, nil, false, true, &first, note},
		"runs after it was formed again":           {&first, emptied, true, false, &first, note},
		"runs, and the user accepted the loss":     {nil, emptied, true, false, nil, ""},
		"runs":                                     {&first, ready, true, false, &first, ""},
	} {
		known := test.known
		got := Beginning{Subject: "RedisCluster cache", Serves: test.serves, Forms: test.forms, FirstReady: &known, Conditions: test.conditions}.Judge()
		assert.Equal(t, got, test.note, name)
		assert.DeepEqual(t, known, test.stored)
	}
}
