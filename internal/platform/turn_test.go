// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/reconcile"
)

// The condition shows a turn from its request to its end. While a DataService waits for its turn, it stays Ready.
func TestTurn(t *testing.T) {
	t.Parallel()
	status := Compute(dsv1.DataServiceStatus{}, StatusInput{Generation: 1, Components: []reconcile.PartSeen{seenOf("auth", up)}}, noon)
	status = Compute(status, StatusInput{Generation: 1, Components: []reconcile.PartSeen{seenOf("auth", up)}}, noon)
	next := func(seen reconcile.PartSeen, pace *reconcile.Pace) {
		status = Compute(status, StatusInput{Generation: 1, Pace: pace, Components: []reconcile.PartSeen{seen}}, later)
	}
	turn := func() string {
		c := meta.FindStatusCondition(status.Conditions, dsv1.ConditionOperatorChange)
		if c == nil {
			return "none"
		}
		return string(c.Status) + " " + c.Reason + " " + c.Message
	}
	ready := func() bool { return meta.IsStatusConditionTrue(status.Conditions, dsv1.ConditionReady) }
	waits := seenOf("auth", up)
	waits.Applied, waits.Held, waits.Revision = false, true, "r2"

	next(waits, &reconcile.Pace{Reason: dsv1.ReasonWaitsForOthers, Message: "for a"})
	assert.Equal(t, turn(), "False WaitsForOthers for a")
	assert.Assert(t, ready() && status.Phase == dsv1.PhaseRunning && status.Components[0].Revision == "r1")
	next(waits, &reconcile.Pace{Reason: dsv1.ReasonWaitsForOthers, Message: "for b"})
	assert.Equal(t, turn(), "False WaitsForOthers for a", "the status is not written if only the names of other resources in the message change")
	next(waits, &reconcile.Pace{Reason: dsv1.ReasonStopped, Message: "b is Degraded"})
	assert.Equal(t, turn(), "False Stopped b is Degraded")

	sick := waits
	sick.Health = starting
	next(sick, &reconcile.Pace{Reason: dsv1.ReasonStopped, Message: "b is Degraded"})
	assert.Equal(t, status.Phase, dsv1.PhaseDegraded, "a DataService that waits and is not healthy is Degraded")

	next(waits, &reconcile.Pace{Granted: true})
	assert.Equal(t, turn(), "True RollingOut this version of the operator changes the resource")
	assert.Assert(t, ready())
	changed := seenOf("auth", starting)
	changed.Revision = "r2"
	next(changed, nil)
	assert.Equal(t, turn(), "True RollingOut this version of the operator changes the resource")
	assert.Equal(t, status.Phase, dsv1.PhaseUpdating)
	changed.Health = broken
	next(changed, nil)
	assert.Equal(t, status.Phase, dsv1.PhaseDegraded)
	assert.Assert(t, turn() != "none")
	changed.Health = up
	next(changed, nil)
	assert.Equal(t, turn(), "none")
	assert.Assert(t, ready() && status.Components[0].Revision == "r2")

	next(waits, &reconcile.Pace{Reason: dsv1.ReasonWaitsForOthers, Message: "for a"})
	next(seenOf("auth", up), nil) // the previous version runs again
	assert.Equal(t, turn(), "none")
}

// IsChangedByOperator is false for a change by the user, and for a repair.
func TestIsChangedByOperator(t *testing.T) {
	t.Parallel()
	rests := func() *dsv1.DataService {
		return &dsv1.DataService{ObjectMeta: metav1.ObjectMeta{Generation: 3}, Status: dsv1.DataServiceStatus{
			ObservedGeneration: 3, Phase: dsv1.PhaseRunning,
			Components: []dsv1.ComponentStatus{{Name: "auth", Phase: dsv1.PhaseRunning}, {Name: "web", Phase: dsv1.PhaseRunning}},
		}}
	}
	other := &reconcile.Plan{Parts: []reconcile.Part{{Name: "auth", Known: "1", Revision: "1"}, {Name: "web", Known: "1", Revision: "2"}}}
	same := &reconcile.Plan{Parts: []reconcile.Part{{Name: "auth", Known: "1", Revision: "1"}}}
	added := &reconcile.Plan{Parts: []reconcile.Part{{Name: "auth", Known: "1", Revision: "1"}, {Name: "web", Revision: "2"}}}
	of := func(platform, component dsv1.Phase) func(*dsv1.DataService) {
		return func(ds *dsv1.DataService) { ds.Status.Phase, ds.Status.Components[0].Phase = platform, component }
	}
	for name, test := range map[string]struct {
		change func(*dsv1.DataService)
		plan   *reconcile.Plan
		want   bool
	}{
		"the operator plans another revision":   {nil, other, true},
		"the same revision":                     {nil, same, false},
		"a component that never ran":            {nil, added, false},
		"the spec was changed":                  {func(ds *dsv1.DataService) { ds.Generation++ }, other, false},
		"a change of the spec is in progress":   {of(dsv1.PhaseUpdating, dsv1.PhaseUpdating), other, false},
		"a component waits for a Degraded one":  {of(dsv1.PhaseDegraded, dsv1.PhasePending), other, false},
		"the DataService is being created":      {of(dsv1.PhaseCreating, dsv1.PhaseCreating), other, false},
		"a write failed":                        {of(dsv1.PhaseFailed, dsv1.PhaseFailed), other, false},
		"the plan was refused, before any part": {func(ds *dsv1.DataService) { ds.Status.Phase = dsv1.PhaseFailed }, other, false},
		"an autoscaler is at work":              {of(dsv1.PhaseScaling, dsv1.PhaseScaling), other, true},
		"a component is Degraded":               {of(dsv1.PhaseDegraded, dsv1.PhaseDegraded), other, true},
		"new":                                   {func(ds *dsv1.DataService) { ds.Status = dsv1.DataServiceStatus{} }, added, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ds := rests()
			if test.change != nil {
				test.change(ds)
			}
			assert.Equal(t, (&Kind{}).IsChangedByOperator(ds, test.plan), test.want)
		})
	}
}
