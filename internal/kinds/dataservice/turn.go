// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package dataservice

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/engine"
	"d3os.com/d3os-operator/internal/fleet"
	"d3os.com/d3os-operator/internal/kinds"
)

var _ kinds.Paced[*dsv1.DataService] = &Kind{}

// IsChangedByOperator reports whether a component that runs gets another revision though the status says that this very
// generation of the spec was carried out. While a change of the spec is on its way, and where something failed, it is not:
// what the operator changes then comes with what the user asked for.
func (*Kind) IsChangedByOperator(ds *dsv1.DataService, plan *engine.Plan) bool {
	s := &ds.Status
	rests := func(phase dsv1.Phase) bool { // autoscalers scale at any time
		return phase == dsv1.PhaseRunning || phase == dsv1.PhaseScaling || phase == dsv1.PhaseDegraded
	}
	isBusy := func(c dsv1.ComponentStatus) bool { return !rests(c.Phase) }
	if d, _ := plan.Found.(*Databases); d != nil && d.isAtWork() { // a person asked for that
		return false
	}
	if s.ObservedGeneration != ds.Generation || !rests(s.Phase) || slices.ContainsFunc(s.Components, isBusy) {
		return false
	}
	return slices.ContainsFunc(plan.Parts, func(p engine.Part) bool { return p.Known != "" && p.Known != p.Revision })
}

// Turn says where a DataService stands.
func (*Kind) Turn(ds *dsv1.DataService) fleet.Member {
	return fleet.Member{
		NamespacedName: types.NamespacedName{Namespace: ds.Namespace, Name: ds.Name},
		HasTurn:        meta.IsStatusConditionTrue(ds.Status.Conditions, dsv1.ConditionOperatorChange),
		Degraded:       meta.IsStatusConditionTrue(ds.Status.Conditions, dsv1.ConditionDegraded),
		Away:           ds.Spec.Paused || ds.DeletionTimestamp != nil,
	}
}
