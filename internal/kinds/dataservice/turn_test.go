// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package dataservice

import (
	"testing"

	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/engine"
)

// What a user changes, and what has to be put right, waits for no turn.
func TestIsChangedByOperator(t *testing.T) {
	t.Parallel()
	rests := func() *dsv1.DataService {
		return &dsv1.DataService{ObjectMeta: metav1.ObjectMeta{Generation: 3}, Status: dsv1.DataServiceStatus{
			ObservedGeneration: 3, Phase: dsv1.PhaseRunning,
			Components: []dsv1.ComponentStatus{{Name: "auth", Phase: dsv1.PhaseRunning}, {Name: "web", Phase: dsv1.PhaseRunning}},
		}}
	}
	other := &engine.Plan{Parts: []engine.Part{{Name: "auth", Known: "1", Revision: "1"}, {Name: "web", Known: "1", Revision: "2"}}}
	same := &engine.Plan{Parts: []engine.Part{{Name: "auth", Known: "1", Revision: "1"}}}
	added := &engine.Plan{Parts: []engine.Part{{Name: "auth", Known: "1", Revision: "1"}, {Name: "web", Revision: "2"}}}
	of := func(platform, component dsv1.Phase) func(*dsv1.DataService) {
		return func(ds *dsv1.DataService) { ds.Status.Phase, ds.Status.Components[0].Phase = platform, component }
	}
	for name, test := range map[string]struct {
		change func(*dsv1.DataService)
		plan   *engine.Plan
		want   bool
	}{
		"another revision of what rests":        {nil, other, true},
		"the same":                              {nil, same, false},
		"a component that never ran":            {nil, added, false},
		"the spec was changed":                  {func(ds *dsv1.DataService) { ds.Generation++ }, other, false},
		"a change of the spec is on its way":    {of(dsv1.PhaseUpdating, dsv1.PhaseUpdating), other, false},
		"it waits behind what is Degraded":      {of(dsv1.PhaseDegraded, dsv1.PhasePending), other, false},
		"it comes up":                           {of(dsv1.PhaseCreating, dsv1.PhaseCreating), other, false},
		"a write failed":                        {of(dsv1.PhaseFailed, dsv1.PhaseFailed), other, false},
		"the plan was refused, before any part": {func(ds *dsv1.DataService) { ds.Status.Phase = dsv1.PhaseFailed }, other, false},
		"an autoscaler is at work":              {of(dsv1.PhaseScaling, dsv1.PhaseScaling), other, true},
		"something is not well":                 {of(dsv1.PhaseDegraded, dsv1.PhaseDegraded), other, true},
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
