// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/api/meta"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/engine"
)

// A turn is waited for, given, used and over; what waits is as ready as it was.
func TestTurn(t *testing.T) {
	t.Parallel()
	status := Compute(dsv1.DataServiceStatus{}, Observation{Generation: 1, Components: []Component{seenOf("auth", up)}}, noon)
	status = Compute(status, Observation{Generation: 1, Components: []Component{seenOf("auth", up)}}, noon)
	next := func(seen engine.PartSeen, pace *Pace) {
		status = Compute(status, Observation{Generation: 1, Pace: pace, Components: []Component{seen}}, later)
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

	next(waits, &Pace{Reason: dsv1.ReasonWaitsForOthers, Message: "for a"})
	assert.Equal(t, turn(), "False WaitsForOthers for a")
	assert.Assert(t, ready() && status.Phase == dsv1.PhaseRunning && status.Components[0].Revision == "r1")
	next(waits, &Pace{Reason: dsv1.ReasonWaitsForOthers, Message: "for b"})
	assert.Equal(t, turn(), "False WaitsForOthers for a", "others' turns are no reason to write")
	next(waits, &Pace{Reason: dsv1.ReasonStopped, Message: "b is Degraded"})
	assert.Equal(t, turn(), "False Stopped b is Degraded")

	sick := waits
	sick.Health = starting
	next(sick, &Pace{Reason: dsv1.ReasonStopped, Message: "b is Degraded"})
	assert.Equal(t, status.Phase, dsv1.PhaseDegraded, "what waits and is not well says so")

	next(waits, &Pace{Granted: true})
	assert.Equal(t, turn(), "True RollingOut this version of the operator changes what runs")
	assert.Assert(t, ready())
	changed := seenOf("auth", starting)
	changed.Revision = "r2"
	next(changed, nil)
	assert.Equal(t, turn(), "True RollingOut this version of the operator changes what runs")
	assert.Equal(t, status.Phase, dsv1.PhaseUpdating)
	changed.Health = broken
	next(changed, nil)
	assert.Equal(t, status.Phase, dsv1.PhaseDegraded)
	assert.Assert(t, turn() != "none")
	changed.Health = up
	next(changed, nil)
	assert.Equal(t, turn(), "none")
	assert.Assert(t, ready() && status.Components[0].Revision == "r2")

	next(waits, &Pace{Reason: dsv1.ReasonWaitsForOthers, Message: "for a"})
	next(seenOf("auth", up), nil) // the version before is back
	assert.Equal(t, turn(), "none")
}
