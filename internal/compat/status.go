// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"cmp"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	shared "d3os.com/d3os-operator/api/compat"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/metrics"
	"d3os.com/d3os-operator/internal/reconcile"
)

// The phases of the three kinds.
const (
	phaseCreating = "Creating"
	phaseRunning  = "Running"
	phaseUpdating = "Updating"
	phaseDegraded = "Degraded"
	phaseFailed   = "Failed"
)

// Status writes the observation to the status.
func (k *Kind[T]) Status(resource T, seen reconcile.Seen[Observation], now metav1.Time) {
	s, owner := k.status(resource), reconcile.OwnerOf(k, resource)
	s.ObservedGeneration = seen.Generation
	s.LabelSelector = database.Selector(owner, partOf(owner))
	if seen.Observed != nil {
		count(s, *seen.Observed)
		if k.report != nil {
			k.report(resource, *seen.Observed)
		}
	}
	var well string
	if k.well != nil {
		well = k.well(resource)
	}
	standing := assess(s, well, &seen)
	s.Phase = phaseOf(s.Phase, standing, &seen)
	s.Reason, s.Message = database.Explain(standing, seen)
	database.SetConditions(reconcile.Conditions{List: &s.Conditions, Generation: seen.Generation, Now: now}, standing, seen, s.Reason, s.Message, nil)
}

// count copies the numbers of pods from the Deployment's status.
func count(s *shared.Status, obs Observation) {
	s.Ready, s.Replicas, s.UpdatedReplicas, s.ReadyReplicas, s.AvailableReplicas, s.UnavailableReplicas = "", 0, 0, 0, 0, 0
	d := &appsv1.Deployment{}
	if obs.Workload == nil || obs.Workload.GetKind() != "Deployment" || runtime.DefaultUnstructuredConverter.FromUnstructured(obs.Workload.Object, d) != nil {
		return
	}
	n := &d.Status
	s.Replicas, s.UpdatedReplicas, s.ReadyReplicas, s.AvailableReplicas, s.UnavailableReplicas =
		n.Replicas, n.UpdatedReplicas, n.ReadyReplicas, n.AvailableReplicas, n.UnavailableReplicas
	s.Ready = fmt.Sprintf("%d/%d", n.ReadyReplicas, *d.Spec.Replicas)
}

// assess computes the texts of the status from the health of the part. well is the text for a healthy part; if it is
// empty, the text is the number of ready pods.
func assess(s *shared.Status, well string, seen *reconcile.Seen[Observation]) *database.Standing {
	standing := &database.Standing{
		Deleting: "being deleted, and its objects with it", WellReason: shared.ReasonSettled, Looking: "looking at the objects",
		WaitReason: shared.ReasonPodsNotReady, Notes: database.Notes(seen.PlanSeen),
	}
	var state health.State
	if len(seen.Parts) == 1 {
		part := &seen.Parts[0]
		state = part.Health
		standing.Settled = seen.Failure == nil && seen.Observed != nil && part.Applied && state.Settled
	}
	standing.Well = cmp.Or(state.Note.Text, well, s.Ready+" pods are ready")
	standing.Wait = cmp.Or(state.Problem, state.Hint, "waiting for the objects")
	switch {
	case seen.Failure != nil:
	case state.Problem != "":
		degrade(standing, state.Culprit.Reason, state.Problem)
	case seen.Observed != nil && strings.HasPrefix(seen.Observed.Probe, shared.ReasonRunFailed+": "):
		degrade(standing, shared.ReasonRunFailed, "pod "+seen.Observed.Unready+": "+seen.Observed.Probe)
	}
	return standing
}

// degrade makes the status degraded, with this cause.
func degrade(standing *database.Standing, reason, cause string) {
	standing.Degraded, standing.CauseReason, standing.Cause = true, reason, cause
	standing.WaitReason, standing.Wait = reason, cause
}

// phaseOf returns the next phase of a resource. The argument before is its previous phase.
func phaseOf(before string, standing *database.Standing, seen *reconcile.Seen[Observation]) string {
	switch {
	case seen.Deleting:
		return before
	case seen.Failure != nil:
		return phaseFailed
	case standing.Settled:
		return phaseRunning
	case standing.Degraded:
		return phaseDegraded
	case before == "" || before == phaseCreating:
		return phaseCreating
	}
	return phaseUpdating
}

// Summary returns the summary of a status, for events and metrics.
func (k *Kind[T]) Summary(resource T) reconcile.Summary {
	s := k.status(resource)
	ready := meta.IsStatusConditionTrue(s.Conditions, shared.ConditionReady)
	summary := reconcile.Summary{
		Phase: s.Phase, Generation: s.ObservedGeneration, Ready: ready, ReadyText: s.Message, New: s.Phase == "" || s.Phase == phaseCreating,
		Urgent: ready || s.Phase == phaseDegraded, Parts: []metrics.Part{{Name: "workload", Ready: ready}},
	}
	database.Summarize(&summary, s.Conditions, shared.ConditionDegraded, "", s.Message)
	return summary
}
