// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/platform"
	"d3os.com/d3os-operator/internal/plugin"
)

// Contradict selects the first component that is running according to its status, but has unhealthy objects or pods. (The operator may be
// down, or may not watch the faulty object.) Facts must have the pods of all components. Contradict keeps only the pods of the selected
// component, and returns the component's objects. If all objects and pods are healthy, it returns nil.
func (f *Facts) Contradict(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	all := f.Pods
	f.resources = slices.DeleteFunc(slices.Clone(objects), func(o *unstructured.Unstructured) bool { return !object.IsResource(o) })
	for i := range f.DataService.Status.Components {
		c := &f.DataService.Status.Components[i]
		if c.Phase != dsv1.PhaseRunning {
			continue
		}
		one := *f
		one.Objects = slices.DeleteFunc(slices.Clone(objects), func(o *unstructured.Unstructured) bool { return o.GetLabels()[object.LabelComponent] != c.Name })
		one.Pods = slices.DeleteFunc(slices.Clone(all), func(pod *corev1.Pod) bool { return pod.Labels[object.LabelComponent] != c.Name })
		if _, text := one.unwell(); text != "" {
			f.suspect, f.Pods = c.Name, one.Pods
			return one.Objects
		}
	}
	f.Pods = nil
	return nil
}

// unwell returns the problem of a component that is running according to its status, or "".
func (f *Facts) unwell() (health.Culprit, string) {
	if culprit, text := f.claim(); text != "" {
		return culprit, text
	}
	state := health.Assess(f.Objects, f.Pods)
	if state.Problem != "" {
		return state.Culprit, state.Problem
	}
	if pod := f.pod(state.HintCulprit.Name); state.HintCulprit.Kind == "Pod" && pod != nil && f.Now.Sub(unreadySince(pod)) > reports {
		return state.HintCulprit, state.Hint
	}
	return f.cronJob()
}

func unreadySince(pod *corev1.Pod) time.Time {
	_, since := health.Readiness(pod)
	return since
}

// binds is the time after which an unbound claim counts as a fault.
const binds = time.Minute

// claim returns the first claim of the component's pods that is lost, is being deleted, or has been unbound for too long, with the problem.
// The problem is "" if there is none.
func (f *Facts) claim() (health.Culprit, string) {
	for _, o := range f.Objects {
		if o.GetKind() != "PersistentVolumeClaim" || !f.claimed(o.GetName()) {
			continue
		}
		phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
		volume, _, _ := unstructured.NestedString(o.Object, "spec", "volumeName")
		culprit := health.Culprit{Kind: o.GetKind(), Name: o.GetName()}
		switch {
		case phase == string(corev1.ClaimLost):
			culprit.Reason, culprit.Message = "ClaimLost", fmt.Sprintf("PersistentVolume %s does not exist any more", volume)
		case o.GetDeletionTimestamp() != nil:
			// The operator will report the same reason and the same beginning of the message after it has observed the
			// deletion.
			culprit.Reason, culprit.Message = dsv1.ReasonVolumeBeingDeleted, "it was deleted, and its volume is deleted as soon as no pod uses it"
		case phase == string(corev1.ClaimPending) && f.Now.Sub(o.GetCreationTimestamp().Time) > binds:
			culprit.Reason, culprit.Message = f.unbound(o.GetName())
		default:
			continue
		}
		return culprit, fmt.Sprintf("PersistentVolumeClaim %s: %s: %s", culprit.Name, culprit.Reason, culprit.Message)
	}
	return health.Culprit{}, ""
}

// unbound returns the reason why a claim is not bound, from the claim's last event.
func (f *Facts) unbound(claim string) (reason, message string) {
	events := f.about(func(kind, name string) bool { return kind == "PersistentVolumeClaim" && name == claim })
	reason, message = health.Unbound(events)
	return cmp.Or(reason, health.ReasonNotBound), cmp.Or(message, "it has no volume, and no event shows why")
}

// reasonHeld is the reason of a cron job's pod if the first container of the job's template has ended while another container still runs.
const reasonHeld = "Held"

// cronJob returns the reason why the runs of a cron job fail, or "". It examines a pod that does not start, or else the last run.
func (f *Facts) cronJob() (health.Culprit, string) {
	for _, o := range f.Objects {
		if o.GetKind() != "CronJob" {
			continue
		}
		for _, pod := range f.Pods {
			owner := metav1.GetControllerOfNoCopy(pod)
			if owner == nil || owner.Kind != "Job" || !strings.HasPrefix(owner.Name, o.GetName()+"-") {
				continue
			}
			if problem := health.PodProblem(pod); problem != "" {
				reason, message, _ := strings.Cut(problem, ": ")
				return health.Culprit{Kind: "Pod", Name: pod.Name, Reason: reason, Message: message}, fmt.Sprintf("pod %s: %s", pod.Name, problem)
			}
		}
		if pod, text := health.HeldRun(o, f.Pods); pod != nil && f.Now.Sub(unreadySince(pod)) > reports {
			return health.Culprit{Kind: "Pod", Name: pod.Name, Reason: reasonHeld, Message: text}, fmt.Sprintf("pod %s: %s: %s", pod.Name, reasonHeld, text)
		}
		if job := health.FailedRun(o); job != "" {
			return health.Culprit{Kind: "Job", Name: job, Reason: "RunFailed"}, fmt.Sprintf("CronJob %s: RunFailed: its last run, Job %s, did not succeed", o.GetName(), job)
		}
	}
	return health.Culprit{}, ""
}

// running explains a component, or a whole DataService, that is running according to its status.
func (f *Facts) running(c *dsv1.ComponentStatus) *Diagnosis {
	ds := f.DataService
	if ds.Spec.Paused {
		return f.paused()
	}
	at := slices.IndexFunc(platform.Problems(&ds.Status), func(p platform.Problem) bool { return p.Component == f.suspect })
	if c == nil && f.suspect != "" && at <= 0 { // the status does not have the problem, or has it first
		c = find(ds, f.suspect)
	}
	if c != nil {
		if culprit, text := f.unwell(); text != "" {
			d := f.named(c, culprit, text)
			if culprit.Reason != "RunFailed" && culprit.Reason != reasonHeld {
				d.Do = append(d.Do, fmt.Sprintf("the status still says %s: if that lasts, read the operator's log, or start the operator", c.Phase))
			}
			return d
		}
	}
	if d := cmp.Or(f.inStatus(c), f.warned()); d != nil {
		return d
	}
	return f.well(c)
}

// inStatus explains the first problem of running components and of backups in the status. If there is none, it explains a service at its
// maximum number of pods, or a first backup that does not exist yet. If c is not nil, it examines only this component.
func (f *Facts) inStatus(c *dsv1.ComponentStatus) *Diagnosis {
	for _, p := range platform.Reports(&f.DataService.Status) {
		if one := find(f.DataService, p.Component); one == nil {
			if d := f.backups(); d != nil {
				return d
			}
		} else if one.Phase == dsv1.PhaseRunning && (c == nil || c.Name == one.Name) {
			return f.note(p)
		}
	}
	return f.backups()
}

// note explains a running component that requires an action, or a cron job whose last run failed.
func (f *Facts) note(p platform.Problem) *Diagnosis {
	culprit := p.Culprit
	d := &Diagnosis{Ready: true, Wrong: culprit.Reason != health.ReasonTooManyReplicas, Cause: p.Text, Object: f.Self(), Do: advice(culprit.Reason), about: p}
	if culprit.Reason != health.ReasonNotServed {
		d.Object = f.object(culprit.Kind, culprit.Name)
	}
	if d.Do == nil { // the reason is another controller's, or about backups
		d.Do = advice(culprit.Kind)
	}
	return d
}

func (f *Facts) well(c *dsv1.ComponentStatus) *Diagnosis {
	ds := f.DataService
	d := &Diagnosis{Ready: true, Cause: fmt.Sprintf(fine+"all components of %s are ready (%s)", ds.Name, ds.Status.Ready)}
	if f.Component != "" && c != nil {
		d.Cause = fmt.Sprintf(fine+"%s is ready (%d/%d pods)", c.Name, c.Ready, c.Desired)
	}
	if c == nil {
		c = f.rewritten()
	}
	if c != nil && c.Message != "" {
		d.Cause = fmt.Sprintf("%s: %s; nothing else is wrong", c.Name, c.Message)
	}
	return d
}

// isUnderway reports whether a component is being created, changed or scaled without a known failure.
func (f *Facts) isUnderway(c *dsv1.ComponentStatus) bool {
	inWork := []dsv1.Phase{dsv1.PhaseCreating, dsv1.PhaseUpdating, dsv1.PhaseScaling, dsv1.PhasePending}
	if !slices.Contains(inWork, c.Phase) || c.Culprit != nil || f.lostPod() != nil || f.isFault(f.decisive(c), c) {
		return false
	}
	if c.LastTransitionTime != nil && f.Now.Sub(c.LastTransitionTime.Time) > patience {
		return false
	}
	_, lost := f.claim()
	return lost == "" && health.Assess(f.Objects, f.Pods).Problem == ""
}

// isFault reports whether an event is about a fault. While a pod starts, failing probes are no fault: they fail until the program in the
// pod answers.
func (f *Facts) isFault(e *corev1.Event, c *dsv1.ComponentStatus) bool {
	if e == nil || e.Reason != health.ReasonUnhealthy || c.Kind == "ThirdParty" {
		return e != nil
	}
	pod := f.pod(e.InvolvedObject.Name)
	return pod == nil || !health.MayBeStarting(pod, f.Now)
}

// underway explains a component that is being created, changed or scaled without a problem.
func (f *Facts) underway(c *dsv1.ComponentStatus) *Diagnosis {
	text := fmt.Sprintf(fine+"%s is %s for %s, %d of %d pods are ready", c.Name, c.Phase, plugin.Age(c.LastTransitionTime, f.Now), c.Ready, c.Desired)
	if c.Message != "" {
		text += "; " + c.Message
	}
	return &Diagnosis{Cause: text, Object: f.Self(), Events: f.last(f.concerns), Do: advice("Waiting"), about: platform.Problem{Component: c.Name}}
}

// rewritten returns the first of the components to explain with an object that an admission policy has changed, or nil.
func (f *Facts) rewritten() *dsv1.ComponentStatus {
	for i := range f.DataService.Status.Components {
		c := &f.DataService.Status.Components[i]
		if (f.Component == "" || f.Component == c.Name) && strings.Contains(c.Message, object.ByPolicy) {
			return c
		}
	}
	return nil
}

// policy returns the change by an admission policy if the cause does not mention it. The change may have led to the cause.
func (f *Facts) policy(cause string) string {
	c := f.rewritten()
	if c == nil || strings.Contains(cause, object.ByPolicy) {
		return ""
	}
	at := strings.Index(c.Message, object.ByPolicy)
	return c.Name + ": " + strings.TrimPrefix(c.Message[max(strings.LastIndex(c.Message[:at], "; "), 0):], "; ")
}
