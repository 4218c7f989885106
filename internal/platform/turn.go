// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/reconcile"
)

var _ reconcile.Paced[*dsv1.DataService] = &Kind{}

// IsChangedByOperator reports whether a running component gets another revision although, according to the status, this generation of the
// spec was applied. It returns false while a change of the spec is in progress, and after failures: in these cases, the operator's change
// is applied without a turn, together with any change by the user.
func (*Kind) IsChangedByOperator(ds *dsv1.DataService, plan *reconcile.Plan) bool {
	s := &ds.Status
	rests := func(phase dsv1.Phase) bool { // true while scaling, because an autoscaler may scale at any time
		return phase == dsv1.PhaseRunning || phase == dsv1.PhaseScaling || phase == dsv1.PhaseDegraded
	}
	isBusy := func(c dsv1.ComponentStatus) bool { return !rests(c.Phase) }
	if plan.IsRequested || s.ObservedGeneration != ds.Generation || !rests(s.Phase) || slices.ContainsFunc(s.Components, isBusy) {
		return false
	}
	return slices.ContainsFunc(plan.Parts, func(p reconcile.Part) bool { return p.Known != "" && p.Known != p.Revision })
}

// Turn returns the position of a DataService in the rollout queue.
func (*Kind) Turn(ds *dsv1.DataService) reconcile.Member {
	return reconcile.Member{
		NamespacedName: types.NamespacedName{Namespace: ds.Namespace, Name: ds.Name},
		HasTurn:        meta.IsStatusConditionTrue(ds.Status.Conditions, dsv1.ConditionOperatorChange),
		Degraded:       meta.IsStatusConditionTrue(ds.Status.Conditions, dsv1.ConditionDegraded),
		Away:           ds.Spec.Paused || ds.Spec.Hibernate || ds.DeletionTimestamp != nil,
	}
}
