// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"strings"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

// component derives a component's status from what was seen and from its previous status,
// which alone knows whether it is new, changed or should have been well.
func component(c Component, prev *dsv1.ComponentStatus) dsv1.ComponentStatus {
	next := dsv1.ComponentStatus{
		Name: c.Name, Kind: c.Kind, Ready: c.Health.Ready, Desired: c.Health.Desired, Message: c.Note,
	}
	if prev == nil {
		prev = &dsv1.ComponentStatus{}
	}
	next.Revision = prev.Revision
	if c.Applied {
		next.Revision = c.Revision
	}
	switch {
	case c.Error != "":
		next.Phase, next.Message = dsv1.PhaseFailed, c.Error
	case len(c.WaitsFor) > 0:
		next.Phase, next.Message = dsv1.PhasePending, waiting(c)
	case !c.Applied:
		next.Phase = dsv1.PhasePending
	case c.Health.Settled:
		next.Phase = dsv1.PhaseRunning
		if next.Message == "" {
			next.Message = c.Health.Note
		}
	case c.Health.Problem != "":
		next.Phase, next.Message = dsv1.PhaseDegraded, c.Health.Problem
	case prev.Revision == "" || prev.Phase == dsv1.PhaseCreating:
		next.Phase = dsv1.PhaseCreating
	case prev.Revision != next.Revision || prev.Phase == dsv1.PhasePending:
		next.Phase = dsv1.PhaseUpdating
	case prev.Desired != next.Desired:
		next.Phase = dsv1.PhaseScaling
	case prev.Phase == dsv1.PhaseUpdating || prev.Phase == dsv1.PhaseScaling:
		next.Phase = prev.Phase
	default: // it was well, nobody changed it, and it is not well any more
		next.Phase, next.Message = dsv1.PhaseDegraded, c.Health.Hint
	}
	return next
}

func waiting(c Component) string {
	what := "waits for "
	if c.Exists {
		what = "keeps running as it was; its new revision waits for "
	}
	return what + strings.Join(c.WaitsFor, ", ")
}

// inWork tells whether the operator is working on a component in this phase.
func inWork(phase dsv1.Phase) bool {
	return phase == dsv1.PhaseCreating || phase == dsv1.PhaseUpdating || phase == dsv1.PhaseScaling
}
