// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/halt"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/mysql"
	"d3os.com/d3os-operator/internal/platform/component"
	"d3os.com/d3os-operator/internal/reconcile"
)

// componentStatus computes a component's status from the observation and the previous status. Only the previous status shows whether the
// component is new, has changed, or was healthy. prev is empty for a new component.
func componentStatus(c reconcile.PartSeen, prev *dsv1.ComponentStatus) dsv1.ComponentStatus {
	next := dsv1.ComponentStatus{
		Name: c.Name, Kind: c.Kind, Ready: c.Health.Ready, Desired: c.Health.Desired, Revision: prev.Revision,
	}
	if len(c.Notes) > 0 {
		next.Message = c.Notes[0].Text
	}
	if c.Error != "" {
		fail(&next, c, prev)
		return next
	}
	if c.Applied {
		next.Revision = c.Revision
	}
	if c.Stopped != nil && c.Applied && !isInDanger(c) {
		stopped(&next, c)
		return next
	}
	switch {
	case len(c.WaitsFor) > 0:
		next.Phase, next.Message, next.WaitsFor = dsv1.PhasePending, waiting(c, nil), c.WaitsFor
	case !c.Applied && !c.Held && c.Health.Problem == "":
		next.Phase = dsv1.PhasePending
	case c.Health.Settled:
		next.Phase = dsv1.PhaseRunning
		if note := c.Health.Note; next.Message == "" && note.Culprit == (health.Culprit{}) { // see request for the others
			next.Message = note.Text
		}
	case c.Health.Problem != "":
		next.Phase, next.Message, next.Culprit = dsv1.PhaseDegraded, c.Health.Problem, culprit(c.Health.Culprit)
		if c.Rewritten != "" { // an admission policy changed an object, which may be the cause
			next.Message += "; " + c.Rewritten
		}
	default:
		if next.Phase = underway(c, prev, &next); next.Phase != "" {
			break
		}
		// The component was healthy, has not changed, and is no longer healthy.
		next.Phase, next.Message, next.Culprit = dsv1.PhaseDegraded, c.Health.Hint, culprit(c.Health.HintCulprit)
		if next.Message == "" {
			next.Message = "one of its objects is missing or being deleted"
		}
	}
	if next.Message == "" && inWork(next.Phase) {
		next.Message = delay(c)
	}
	return next
}

// isInDanger reports whether a component has a problem that the lack of pods does not explain, such as a problem with its data.
func isInDanger(c reconcile.PartSeen) bool {
	return c.Health.Problem != "" && !slices.Contains([]string{"Pod", "Deployment", "StatefulSet", "DaemonSet"}, c.Health.Culprit.Kind)
}

// stopped sets the status of a component that should have no pods, because the platform hibernates.
func stopped(next *dsv1.ComponentStatus, c reconcile.PartSeen) {
	if len(c.Stopped.Remains) == 0 {
		next.Phase, next.Message = dsv1.PhaseHibernated, "has no pods"
		return
	}
	next.Phase, next.Message = dsv1.PhaseHibernating, "stops: there still is "+halt.Few(c.Stopped.Remains)
	if c.Kind == managed && c.Health.Hint != "" {
		next.Message = c.Health.Hint
	}
}

// underway returns the phase of a component that is being created, updated or scaled; otherwise "".
func underway(c reconcile.PartSeen, prev, next *dsv1.ComponentStatus) dsv1.Phase {
	was := phaseBefore(prev)
	switch {
	case prev.Revision == "" || was == dsv1.PhaseCreating:
		return dsv1.PhaseCreating
	case prev.Revision != next.Revision || was == dsv1.PhasePending:
		return dsv1.PhaseUpdating
	case prev.Desired != next.Desired:
		return dsv1.PhaseScaling
	case was == dsv1.PhaseUpdating || was == dsv1.PhaseScaling:
		return was
	case was == dsv1.PhaseRunning && c.Health.Rolling: // another writer has changed the workload, for example by `kubectl rollout restart`
		return dsv1.PhaseUpdating
	case c.Kind == managed && c.Exists && len(c.Missing) == 0: // the resource reports its problems in its own status
		return dsv1.PhaseUpdating
	}
	return ""
}

// fail sets the phase Failed, and keeps the fields from which the next phase is computed.
func fail(next *dsv1.ComponentStatus, c reconcile.PartSeen, prev *dsv1.ComponentStatus) {
	next.Phase, next.Message, next.Culprit = dsv1.PhaseFailed, health.Refusal(c.Error), culprit(c.Culprit)
	next.FailedFrom = phaseBefore(prev)
	switch {
	case c.Health == (health.State{}): // the error occurred before the health was read
		next.Ready, next.Desired = prev.Ready, prev.Desired
	case next.Desired != prev.Desired && (next.FailedFrom == dsv1.PhaseRunning || next.FailedFrom == dsv1.PhaseDegraded):
		next.FailedFrom = dsv1.PhaseScaling // the number of pods was written before the error
	}
}

// phaseBefore returns the last phase of a component. For a failed component, it returns the phase before the failure.
func phaseBefore(prev *dsv1.ComponentStatus) dsv1.Phase {
	if prev.Phase == dsv1.PhaseFailed {
		return prev.FailedFrom
	}
	return prev.Phase
}

func culprit(c health.Culprit) *dsv1.Culprit {
	if c == (health.Culprit{}) {
		return nil
	}
	return &dsv1.Culprit{Kind: c.Kind, Name: c.Name, Reason: c.Reason}
}

// waiting names the components for which a component waits, and the objects in them that are not ready. before contains
// the statuses of all earlier components.
func waiting(c reconcile.PartSeen, before []dsv1.ComponentStatus) string {
	what := "waits for "
	switch {
	case c.Exists && c.Health.Desired == 0 && c.Kind != cronJob:
		what = "has no pods; its new revision waits for "
	case c.Exists:
		what = "keeps running as it was; its new revision waits for "
	}
	names := slices.Clone(c.WaitsFor)
	for i, name := range names {
		at := slices.IndexFunc(before, func(b dsv1.ComponentStatus) bool { return b.Name == name })
		if at >= 0 && before[at].Culprit != nil {
			names[i] = fmt.Sprintf("%s (%s %s: %s)", name, before[at].Culprit.Kind, before[at].Culprit.Name, before[at].Culprit.Reason)
		}
	}
	return what + strings.Join(names, ", ")
}

// withFirstReady are the components whose first readiness is stored.
var withFirstReady = []string{mysql.Component, string(component.Redis)}

// firstReady returns the first known time at which mysql with one server, or a redis in the cluster, was ready. It returns nil for other
// components. The operator stores this time in the status when the component leaves the phase Running.
func firstReady(known *dsv1.ComponentStatus) *metav1.Time {
	isManaged, isServer := known.Kind == managed, known.Kind == string(component.StatefulSet) || known.Kind == string(component.Deployment)
	switch {
	case isManaged && known.Name != string(component.Redis), !isManaged && !isServer:
		return nil
	case known.FirstReady != nil:
		return known.FirstReady
	case known.Phase == dsv1.PhaseRunning && known.Ready > 0:
		return known.LastTransitionTime
	}
	return nil
}

// StartDeadline is the time that a StatefulSet may take to start, change or scale before its component becomes Degraded. Its value is the
// default of progressDeadlineSeconds of a Deployment; a StatefulSet has no such field.
const StartDeadline = 10 * time.Minute

// BindDeadline is the time for which a claim may be unbound before the message of its component names the claim.
const BindDeadline = 5 * time.Second

// unbound sets a component's message if its claim has been unbound for too long.
func unbound(next, prev *dsv1.ComponentStatus, c reconcile.PartSeen, now metav1.Time) {
	if next.Message == "" && inWork(next.Phase) && inWork(prev.Phase) && prev.LastTransitionTime != nil && c.Health.Problem == "" &&
		c.Health.HintCulprit.Reason == health.ReasonNotBound && now.Sub(prev.LastTransitionTime.Time) >= BindDeadline {
		next.Message = c.Health.Hint
	}
}

// request sets the message and the culprit of a running component to its first note that requires an action.
func request(next *dsv1.ComponentStatus, c reconcile.PartSeen, now metav1.Time) {
	if next.Phase != dsv1.PhaseRunning {
		return
	}
	for _, note := range append(slices.Clip(c.Notes), c.Health.Note) {
		if note.Culprit != (health.Culprit{}) && note.From <= now.Unix() {
			next.Message, next.Culprit = note.Text, culprit(note.Culprit)
			return
		}
	}
}

// requires reports whether a running component requires an action of the user.
func requires(c *dsv1.ComponentStatus) bool { return c.Phase == dsv1.PhaseRunning && c.Culprit != nil }

// late sets the phase Degraded if a change of a StatefulSet has been in progress for longer than StartDeadline. Possible causes: the claim
// is not bound, the API server refuses the pods, or the pods do not become ready.
func late(next, prev *dsv1.ComponentStatus, c reconcile.PartSeen, now metav1.Time) {
	if c.Kind != "StatefulSet" || !inWork(next.Phase) || !inWork(prev.Phase) || prev.LastTransitionTime == nil || c.Health.Hint == "" ||
		prev.Revision != next.Revision || now.Sub(prev.LastTransitionTime.Time) < StartDeadline {
		return
	}
	next.Phase, next.Message, next.Culprit = dsv1.PhaseDegraded, c.Health.Hint, culprit(c.Health.HintCulprit)
}

const (
	// thirdParty is the kind of a component that runs outside of the cluster.
	thirdParty = "ThirdParty"
	// cronJob is the kind of a component that runs on a schedule.
	cronJob = "CronJob"
	// managed is the kind of a component that is a single custom resource, such as a RedisCluster.
	managed = "Managed"
)

// delay describes a temporary reason why a component is not ready, if no other field of the status shows it. If pods
// are only starting, it returns "".
func delay(c reconcile.PartSeen) string {
	switch {
	case c.Health.Explained && c.Kind == thirdParty && c.Health.HintCulprit.Reason == health.ReasonUnhealthy:
		_, answer, _ := strings.Cut(c.Health.Hint, " probe failed: ")
		return "the third party does not answer: " + answer
	case c.Health.Explained, c.Health.HintCulprit.Reason == health.ReasonPodsMissing, c.Kind == managed:
		return c.Health.Hint
	case c.Restart != "":
		return c.Restart
	case c.Kind == thirdParty && c.Health.HintCulprit.Kind == "Pod":
		return fmt.Sprintf("the third party has not answered the check yet; `kubectl describe pod %s` shows what the check gets", c.Health.HintCulprit.Name)
	}
	return ""
}

// inWork reports whether a phase means that a change is in progress.
func inWork(phase dsv1.Phase) bool {
	return phase == dsv1.PhaseCreating || phase == dsv1.PhaseUpdating || phase == dsv1.PhaseScaling
}
