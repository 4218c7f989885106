// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"d3os.com/d3os-operator/internal/reconcile"
)

var noon = metav1.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func after(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(d)) }

func TestOverdue(t *testing.T) {
	t.Parallel()
	seconds := int32(600)
	deadline := Deadline(&seconds)
	progressing := func(status metav1.ConditionStatus, reason string) *metav1.Condition {
		return &metav1.Condition{Type: conditionProgressing, Status: status, Reason: reason, ObservedGeneration: 2, LastTransitionTime: noon}
	}
	working := progressing(metav1.ConditionTrue, reasonWorking)
	for name, c := range map[string]struct {
		before     *metav1.Condition
		generation int64
		deadline   time.Duration
		now        metav1.Time
		since      metav1.Time
		is         bool
	}{
		"no deadline":                    {working, 2, Deadline(nil), after(time.Hour), after(time.Hour), false},
		"no previous status":             {nil, 1, deadline, noon, noon, false},
		"a change begins":                {progressing(metav1.ConditionFalse, reasonSettled), 2, deadline, after(time.Hour), after(time.Hour), false},
		"shortly before the deadline":    {working, 2, deadline, after(deadline - 1), noon, false},
		"at the deadline":                {working, 2, deadline, after(deadline), noon, true},
		"another change at the deadline": {working, 3, deadline, after(deadline), after(deadline), false},
		"overdue before":                 {progressing(metav1.ConditionFalse, reasonOverdue), 2, deadline, after(time.Second), after(time.Second), true},
		"another change after overdue":   {progressing(metav1.ConditionFalse, reasonOverdue), 3, deadline, after(time.Second), after(time.Second), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			since, is := overdue(c.before, c.generation, c.deadline, c.now)
			assert.Equal(t, is, c.is)
			assert.Equal(t, since, c.since)
		})
	}
}

// A creation waits for a pod, and a change replaces the creation. Each row lists a minute and the conditions that are
// expected then. Without a deadline, the conditions stay the same.
func TestDeadline(t *testing.T) {
	t.Parallel()
	type row struct {
		minute     int
		generation int64
		settled    bool
		want       string // the conditions that are True
		reason     string // reason of the condition Progressing
	}
	for name, c := range map[string]struct {
		deadline time.Duration
		rows     []row
	}{
		"with a deadline": {10 * time.Minute, []row{
			{0, 1, false, "Progressing Reconciling", "PodsNotReady"},
			{9, 1, false, "Progressing Reconciling", "PodsNotReady"},
			{9, 2, false, "Progressing Reconciling", "PodsNotReady"}, // the clock starts again
			{18, 2, false, "Progressing Reconciling", "PodsNotReady"},
			{19, 2, false, "Degraded Stalled", "ProgressDeadlineExceeded"},
			{30, 2, false, "Degraded Stalled", "ProgressDeadlineExceeded"},
			{31, 3, false, "Progressing Reconciling", "PodsNotReady"},
			{50, 3, false, "Degraded Stalled", "ProgressDeadlineExceeded"},
			{51, 3, true, "", "Settled"},
			{60, 3, false, "Progressing Reconciling", "PodsNotReady"}, // a pod is lost later
			{70, 3, false, "Degraded Stalled", "ProgressDeadlineExceeded"},
		}},
		"without one": {0, []row{
			{0, 1, false, "Progressing Reconciling", "PodsNotReady"},
			{1000, 1, false, "Progressing Reconciling", "PodsNotReady"},
			{1001, 1, true, "", "Settled"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var conditions []metav1.Condition
			for _, r := range c.rows {
				standing := &Standing{Settled: r.settled, WellReason: "AllServed", Deadline: c.deadline}
				list := reconcile.Conditions{List: &conditions, Generation: r.generation, Now: after(time.Duration(r.minute) * time.Minute)}
				SetConditions(list, standing, reconcile.Seen[int]{Observed: new(int)}, "PodsNotReady", "pod a-0 is not ready", nil)
				var are []string
				for _, name := range []string{conditionProgressing, conditionReconciling, conditionDegraded, conditionStalled} {
					if meta.IsStatusConditionTrue(conditions, name) {
						are = append(are, name)
					}
				}
				assert.Equal(t, strings.Join(are, " "), r.want, "minute %d", r.minute)
				assert.Equal(t, meta.FindStatusCondition(conditions, conditionProgressing).Reason, r.reason, "minute %d", r.minute)
				if degraded := meta.FindStatusCondition(conditions, conditionDegraded); degraded.Status == metav1.ConditionTrue {
					assert.Equal(t, degraded.Reason, "ProgressDeadlineExceeded")
					assert.Equal(t, degraded.Message, "pod a-0 is not ready; not finished within 10m0s (spec.progressDeadlineSeconds)")
				}
			}
		})
	}
}
