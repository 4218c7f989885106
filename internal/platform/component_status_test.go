// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/reconcile"
)

// refused returns a component whose write failed before its health was read.
func refused(revision string) reconcile.PartSeen {
	return reconcile.PartSeen{Name: "auth", Kind: "Deployment", Revision: revision, Exists: true, Error: "update Deployment a/auth: try again"}
}

// A write that fails temporarily must not change the component's later phase: an update remains an update, and an unhealthy component
// remains unhealthy.
func TestAFailedWriteKeepsWhatThePhaseIsDerivedFrom(t *testing.T) {
	t.Parallel()
	scaled := health.State{Ready: 1, Desired: 3, Hint: "Deployment auth: Available: 1/3"}
	read := func(state health.State) reconcile.PartSeen { c := refused("r1"); c.Health = state; return c }
	for name, test := range map[string]struct {
		prev   *dsv1.ComponentStatus
		failed reconcile.PartSeen
		after  reconcile.PartSeen
		phase  dsv1.Phase
	}{
		"created":                          {was(dsv1.PhaseCreating), refused("r1"), seenOf("auth", starting), dsv1.PhaseCreating},
		"created, nothing written yet":     {nil, refused("r1"), seenOf("auth", starting), dsv1.PhaseCreating},
		"held back, then its write failed": {was(dsv1.PhasePending), refused("r1"), seenOf("auth", starting), dsv1.PhaseUpdating},
		"updated":                          {was(dsv1.PhaseUpdating), refused("r1"), seenOf("auth", starting), dsv1.PhaseUpdating},
		"updated, its health was read":     {was(dsv1.PhaseUpdating), read(starting), seenOf("auth", starting), dsv1.PhaseUpdating},
		"updated to the next revision":     {was(dsv1.PhaseRunning), refused("r2"), func() reconcile.PartSeen { c := seenOf("auth", starting); c.Revision = "r2"; return c }(), dsv1.PhaseUpdating},
		"scaled":                           {was(dsv1.PhaseRunning), refused("r1"), seenOf("auth", scaled), dsv1.PhaseScaling},
		"scaled, and the number was read":  {was(dsv1.PhaseRunning), read(scaled), seenOf("auth", scaled), dsv1.PhaseScaling},
		"scaled before":                    {was(dsv1.PhaseScaling), refused("r1"), seenOf("auth", starting), dsv1.PhaseScaling},
		"unhealthy":                        {was(dsv1.PhaseDegraded), refused("r1"), seenOf("auth", starting), dsv1.PhaseDegraded},
		"unhealthy, its health was read":   {was(dsv1.PhaseDegraded), read(starting), seenOf("auth", starting), dsv1.PhaseDegraded},
		"healthy before, unhealthy since":  {was(dsv1.PhaseRunning), refused("r1"), seenOf("auth", starting), dsv1.PhaseDegraded},
		"healthy":                          {was(dsv1.PhaseRunning), refused("r1"), seenOf("auth", up), dsv1.PhaseRunning},
		"failed, without FailedFrom":       {was(dsv1.PhaseFailed), refused("r1"), seenOf("auth", starting), dsv1.PhaseDegraded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prev := orNew(test.prev)
			got := *prev
			for range 2 { // any number of failures
				got = componentStatus(test.failed, &got)
				assert.Equal(t, got.Phase, dsv1.PhaseFailed)
				assert.Equal(t, got.Revision, prev.Revision)
				if test.failed.Health == (health.State{}) {
					assert.Equal(t, got.Ready, prev.Ready)
					assert.Equal(t, got.Desired, prev.Desired)
				}
			}
			got = componentStatus(test.after, &got)
			assert.Equal(t, got.Phase, test.phase)
			assert.Equal(t, got.FailedFrom, dsv1.Phase(""))
		})
	}
}

func TestTheObjectToLookAt(t *testing.T) {
	t.Parallel()
	pod := health.Culprit{Kind: "Pod", Name: "auth-1", Reason: "ImagePullBackOff", Message: "not found"}
	set := health.Culprit{Kind: "StatefulSet", Name: "auth", Reason: "LessReady", Message: "Ready: 0/1"}
	sick := health.State{Desired: 1, Problem: "p", Culprit: pod, Hint: "h", HintCulprit: set}
	slow := health.State{Desired: 1, Hint: "h", HintCulprit: set}
	failed := refused("r1")
	failed.Culprit = set
	for name, test := range map[string]struct {
		prev  *dsv1.ComponentStatus
		seen  reconcile.PartSeen
		phase dsv1.Phase
		want  *dsv1.Culprit
	}{
		"a problem":            {was(dsv1.PhaseRunning), seenOf("auth", sick), dsv1.PhaseDegraded, &dsv1.Culprit{Kind: "Pod", Name: "auth-1", Reason: "ImagePullBackOff"}},
		"no longer healthy":    {was(dsv1.PhaseRunning), seenOf("auth", slow), dsv1.PhaseDegraded, &dsv1.Culprit{Kind: "StatefulSet", Name: "auth", Reason: "LessReady"}},
		"still updating":       {was(dsv1.PhaseUpdating), seenOf("auth", slow), dsv1.PhaseUpdating, nil},
		"healthy again":        {was(dsv1.PhaseDegraded), seenOf("auth", up), dsv1.PhaseRunning, nil},
		"refused":              {was(dsv1.PhaseRunning), failed, dsv1.PhaseFailed, &dsv1.Culprit{Kind: "StatefulSet", Name: "auth", Reason: "LessReady"}},
		"refused, no object":   {was(dsv1.PhaseRunning), refused("r1"), dsv1.PhaseFailed, nil},
		"waits for another":    {nil, held("auth", "mysql"), dsv1.PhasePending, nil},
		"an object is missing": {was(dsv1.PhaseRunning), seenOf("auth", missing()), dsv1.PhaseDegraded, &dsv1.Culprit{Kind: "Service", Name: "auth", Reason: "Missing"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := componentStatus(test.seen, orNew(test.prev))
			assert.Equal(t, got.Phase, test.phase)
			assert.DeepEqual(t, got.Culprit, test.want)
		})
	}
}

// missing returns the health of a component whose Service was deleted.
func missing() health.State {
	state := up
	state.Settled = false
	state.Hint, state.HintCulprit = "Service auth does not exist", health.Culprit{Kind: "Service", Name: "auth", Reason: "Missing"}
	return state
}

func TestWhatAComponentWaitsFor(t *testing.T) {
	t.Parallel()
	sick := seenOf("mysql", health.State{Desired: 1, Problem: "pod mysql-0: Unschedulable: m", Culprit: health.Culprit{Kind: "Pod", Name: "mysql-0", Reason: "Unschedulable"}})
	got := Compute(dsv1.DataServiceStatus{}, StatusInput{Generation: 1, Components: []reconcile.PartSeen{sick, seenOf("uuc", up), held("auth", "mysql", "uuc")}}, noon)
	assert.Equal(t, got.Components[2].Message, "waits for mysql (Pod mysql-0: Unschedulable), uuc")
	assert.DeepEqual(t, componentStatus(held("auth", "mysql", "uuc"), &dsv1.ComponentStatus{}).WaitsFor, []string{"mysql", "uuc"})
	assert.DeepEqual(t, componentStatus(seenOf("auth", starting), was(dsv1.PhasePending)).WaitsFor, []string(nil))
	failed := held("auth", "mysql")
	failed.Error = "e"
	assert.DeepEqual(t, componentStatus(failed, &dsv1.ComponentStatus{}).WaitsFor, []string(nil))
}

// If an object of a paused DataService is deleted, the condition Degraded names the object. If the name of the object
// is unknown, the condition only states that one of the component's objects is missing.
func TestAMissingObjectIsTold(t *testing.T) {
	t.Parallel()
	unnamed := up
	unnamed.Settled = false
	for want, state := range map[string]health.State{
		"auth: Service auth does not exist":                    missing(),
		"auth: one of its objects is missing or being deleted": unnamed,
	} {
		see := func(state health.State) StatusInput {
			return StatusInput{Generation: 1, Paused: true, Components: []reconcile.PartSeen{seenOf("auth", state)}}
		}
		got := Compute(Compute(dsv1.DataServiceStatus{}, see(up), noon), see(state), noon)
		c := meta.FindStatusCondition(got.Conditions, dsv1.ConditionDegraded)
		assert.Assert(t, c != nil && c.Status == metav1.ConditionTrue)
		assert.Equal(t, c.Message, want)
	}
}

// The time of a component changes only with its phase, and the time of a condition only with its status. So the operator does not write the
// status of an unchanged DataService, even if an older operator wrote that status without times.
func TestTheTimeOfAPhase(t *testing.T) {
	t.Parallel()
	see := func(state health.State) StatusInput {
		return StatusInput{Generation: 1, Components: []reconcile.PartSeen{seenOf("auth", state)}}
	}
	at := func(s dsv1.DataServiceStatus) *metav1.Time { return s.Components[0].LastTransitionTime }
	well := Compute(dsv1.DataServiceStatus{}, see(up), noon)
	assert.DeepEqual(t, at(well), &noon)
	assert.DeepEqual(t, at(Compute(well, see(up), later)), &noon)

	more := up
	more.Note = health.Info("runs at @daily")
	assert.DeepEqual(t, at(Compute(well, see(more), later)), &noon)

	ill := Compute(well, see(broken), later)
	assert.DeepEqual(t, at(ill), &later)
	for kind, want := range map[string]metav1.Time{
		dsv1.ConditionReady: later, dsv1.ConditionDegraded: later, dsv1.ConditionProgressing: noon, dsv1.ConditionPaused: noon,
	} {
		assert.Equal(t, meta.FindStatusCondition(ill.Conditions, kind).LastTransitionTime, want, kind)
	}
	assert.DeepEqual(t, at(well), &noon) // Compute does not modify its input

	old := well.DeepCopy()
	old.Components[0].LastTransitionTime = nil
	assert.DeepEqual(t, Compute(*old, see(up), later), *old)
	assert.DeepEqual(t, at(Compute(*old, see(broken), later)), &later)
}

// While a component starts, its message names missing pods of a StatefulSet, and a third party that does not answer the
// check. No condition of a workload and no state of a pod shows these problems. A pod that is only starting is not
// reported.
func TestWhatMayPassByItselfIsTold(t *testing.T) {
	t.Parallel()
	set := health.Culprit{Kind: "StatefulSet", Name: "auth", Reason: health.ReasonPodsMissing}
	pod := health.Culprit{Kind: "Pod", Name: "uuc-probe-1", Reason: "ContainersNotReady"}
	probe := health.Culprit{Kind: "Pod", Name: "uuc-probe-1", Reason: health.ReasonUnhealthy}
	for name, test := range map[string]struct {
		kind string
		seen health.State
		want string
	}{
		"pods are missing": {"StatefulSet", health.State{Desired: 1, Hint: "StatefulSet auth: 0 of 1", HintCulprit: set}, "StatefulSet auth: 0 of 1"},
		"no answer":        {"ThirdParty", health.State{Desired: 1, Hint: "pod uuc-probe-1: not ready", HintCulprit: pod}, "the third party has not answered the check yet; `kubectl describe pod uuc-probe-1` shows what the check gets"},
		"the answer":       {"ThirdParty", health.State{Desired: 1, Explained: true, Hint: "pod uuc-probe-1: Unhealthy: Readiness probe failed: refused", HintCulprit: probe}, "the third party does not answer: refused"},
		"a probe fails":    {"Deployment", health.State{Desired: 1, Explained: true, Hint: "pod auth-1: Unhealthy: 503", HintCulprit: probe}, "pod auth-1: Unhealthy: 503"},
		"a pod starts":     {"Deployment", health.State{Desired: 1, Hint: "pod auth-1: not ready", HintCulprit: pod}, ""},
		"the probe starts": {"ThirdParty", health.State{Desired: 1, Hint: "Deployment uuc-probe: 0/1", HintCulprit: health.Culprit{Kind: "Deployment"}}, ""},
		"settled":          {"ThirdParty", health.State{Settled: true, Ready: 1, Desired: 1}, ""},
		"a problem":        {"ThirdParty", health.State{Desired: 1, Problem: "p", Hint: "h", HintCulprit: pod}, "p"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := seenOf("auth", test.seen)
			seen.Kind = test.kind
			assert.Equal(t, componentStatus(seen, &dsv1.ComponentStatus{}).Message, test.want)
		})
	}
}

// A StatefulSet has no deadline field. If it has not started after ten minutes, the component is Degraded, so that alerts fire.
func TestAStatefulSetThatDoesNotStartIsDegraded(t *testing.T) {
	t.Parallel()
	unbound := health.State{Desired: 1, Hint: "PersistentVolumeClaim data: not bound", HintCulprit: health.Culprit{Kind: "PersistentVolumeClaim", Name: "data", Reason: "Pending"}}
	for name, test := range map[string]struct {
		kind  string
		seen  health.State
		after time.Duration
		want  dsv1.Phase
	}{
		"before the deadline":               {"StatefulSet", unbound, StartDeadline - time.Second, dsv1.PhaseCreating},
		"after the deadline":                {"StatefulSet", unbound, StartDeadline, dsv1.PhaseDegraded},
		"ready in time":                     {"StatefulSet", up, StartDeadline, dsv1.PhaseRunning},
		"a Deployment has another deadline": {"Deployment", unbound, StartDeadline, dsv1.PhaseCreating},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			see := func(state health.State) StatusInput {
				c := seenOf("mysql", state)
				c.Kind = test.kind
				return StatusInput{Generation: 1, Components: []reconcile.PartSeen{c}}
			}
			first := Compute(dsv1.DataServiceStatus{}, see(unbound), noon)
			at := metav1.NewTime(noon.Add(test.after))
			next := Compute(first, see(test.seen), at)
			got := next.Components[0]
			assert.Equal(t, got.Phase, test.want)
			if test.want != dsv1.PhaseDegraded {
				return
			}
			assert.Equal(t, next.Message, "mysql: PersistentVolumeClaim data: not bound")
			assert.DeepEqual(t, got.Culprit, &dsv1.Culprit{Kind: "PersistentVolumeClaim", Name: "data", Reason: "Pending"})
			assert.DeepEqual(t, Compute(next, see(test.seen), metav1.NewTime(at.Add(time.Hour))), next) // nothing is written
			assert.Equal(t, Compute(next, see(up), at).Components[0].Phase, dsv1.PhaseRunning)
		})
	}
}

// If a claim has been unbound for some seconds, or pods are refused, status.message reports this before it lists the components.
func TestMessageBeginsWithWhatKeepsAComponentFromStarting(t *testing.T) {
	t.Parallel()
	unbound := health.State{Desired: 1, Hint: "PersistentVolumeClaim data: it is not bound", HintCulprit: health.Culprit{Kind: "PersistentVolumeClaim", Name: "data", Reason: health.ReasonNotBound}}
	refused := health.State{Desired: 1, Hint: "StatefulSet mysql: 0 of 1 pods exist", HintCulprit: health.Culprit{Kind: "StatefulSet", Name: "mysql", Reason: health.ReasonPodsMissing}}
	for name, test := range map[string]struct {
		seen  health.State
		after time.Duration
		want  string
	}{
		"unbound for a short time": {unbound, BindDeadline - time.Second, "[mysql]->auth"},
		"unbound for too long":     {unbound, BindDeadline, "mysql: PersistentVolumeClaim data: it is not bound; [mysql]->auth"},
		"pods are refused":         {refused, 0, "mysql: StatefulSet mysql: 0 of 1 pods exist; [mysql]->auth"},
	} {
		seen := StatusInput{Generation: 1, Components: []reconcile.PartSeen{seenOf("mysql", test.seen), held("auth", "mysql")}}
		first := Compute(dsv1.DataServiceStatus{}, seen, noon)
		assert.Equal(t, Compute(first, seen, metav1.NewTime(noon.Add(test.after))).Message, test.want, name)
	}
}
