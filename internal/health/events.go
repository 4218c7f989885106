// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// ReasonUnhealthy is the reason of the kubelet's events about a probe that failed.
const ReasonUnhealthy = "Unhealthy"

// DecisiveReasons lists reasons of events that explain more than the state of their object. The first reason is closest to the cause.
var DecisiveReasons = []string{
	"FailedCreate", "FailedMount", "FailedAttachVolume", "ProvisioningFailed", "FailedBinding", "NodeNotReady", "TaintManagerEviction",
	"FailedCreatePodSandBox", "NetworkNotReady", "FailedScheduling", ReasonUnhealthy,
}

// eventReasons maps a reason of an event to the reason of the resulting condition, so that a cause always has the same reason.
var eventReasons = map[string]string{"FailedScheduling": corev1.PodReasonUnschedulable}

// vagueReasons are the reasons of objects and pods that are not ready for an unknown cause.
var vagueReasons = []string{
	"", ReasonPodsMissing, "ContainersNotReady", "NotReady", "PodsNotReady", "LessReady", "LessReplicas", "LessAvailable", "LessUpdated",
	"PartialReady", "PartialUpdated", "InProgress", "ProgressDeadlineExceeded", "Missing", "Pending", "PVCNotBound", ReasonNotBound, "ContainerCreating",
	"MembersNotWell", "NotRedundant", "Forming", "Working",
}

// IsVague reports whether a culprit has no reason except that something is not ready.
func (c *Culprit) IsVague() bool {
	return slices.Contains(vagueReasons, c.Reason) || volumesPending(c.Message) ||
		c.Reason == corev1.PodReasonUnschedulable && strings.Contains(c.Message, " is not bound: ")
}

// Decisive returns the warning that explains most, or nil. The events are sorted by time, the oldest first. If several
// objects have an equally good warning, Decisive returns the latest warning about the object whose name sorts first,
// because these objects may fail alternately. isCurrent reports whether an event is about the present state.
func Decisive(events []corev1.Event, isCurrent func(*corev1.Event) bool) *corev1.Event {
	var best *corev1.Event
	for i := range slices.Backward(events) {
		e := &events[i]
		if isConflict(e) || !slices.Contains(DecisiveReasons, e.Reason) || e.Type != corev1.EventTypeWarning && e.Reason != "FailedBinding" || !isCurrent(e) {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(slices.Index(DecisiveReasons, e.Reason), slices.Index(DecisiveReasons, best.Reason)),
			cmp.Compare(e.InvolvedObject.Kind, best.InvolvedObject.Kind), cmp.Compare(e.InvolvedObject.Name, best.InvolvedObject.Name)) < 0 {
			best = e
		}
	}
	return best
}

// AppliesTo reports whether the pod of an event is still unhealthy because of the cause in the event.
func AppliesTo(e *corev1.Event, pod *corev1.Pod) bool {
	if IsReady(pod) || gone(pod) && e.Reason == ReasonUnhealthy { // a pod that ends stops answering
		return false
	}
	if c := condition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionTrue && e.Reason == "FailedScheduling" {
		return false
	}
	return !volumesPending(e.Message) // if a claim is not bound, the claim's own events name the reason
}

// probesFail is the time from which failing probes of a container count as a fault. Until then, the container may only be starting.
const probesFail = time.Minute

// MayBeStarting reports whether probes of a pod may be failing only because its containers are still starting.
func MayBeStarting(pod *corev1.Pod, now time.Time) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return !c.Ready && c.State.Running != nil && now.Sub(c.State.Running.StartedAt.Time) < probesFail
	})
}

// conflict is a part of the message of every write conflict that the API server reports.
const conflict = "the object has been modified"

// isConflict reports whether an event only reports that another client changed an object first. The controller that wrote
// the event repeats its request at once.
func isConflict(e *corev1.Event) bool {
	return strings.Contains(e.Message, conflict)
}

// Unbound returns the reason why a claim is not bound, and a message. events are the claim's events, the oldest first.
// Both results are "" if there are no events.
func Unbound(events []corev1.Event) (reason, message string) {
	for i := range events {
		e := &events[i]
		if isConflict(e) {
			continue
		}
		if reason = cmp.Or(reason, ReasonNotBound); e.Type == corev1.EventTypeWarning {
			reason = e.Reason
		}
		message = Essence(e.Message)
	}
	return reason, message
}

// CulpritOf returns the culprit of an event about an object, and the text of the problem.
func CulpritOf(kind, name string, e *corev1.Event) (Culprit, string) {
	culprit := Culprit{Kind: kind, Name: name, Reason: cmp.Or(eventReasons[e.Reason], e.Reason), Message: e.Message}
	return culprit, fmt.Sprintf("%s %s: %s: %s", label(kind), name, culprit.Reason, Essence(e.Message))
}

func label(kind string) string {
	if kind == "Pod" {
		return "pod"
	}
	return kind
}

// LastSeen returns the time of the last occurrence of an event. It reads the fields of both event APIs.
func LastSeen(e *corev1.Event) time.Time {
	times := []time.Time{e.CreationTimestamp.Time, e.FirstTimestamp.Time, e.LastTimestamp.Time, e.EventTime.Time}
	if e.Series != nil {
		times = append(times, e.Series.LastObservedTime.Time)
	}
	return slices.MaxFunc(times, time.Time.Compare)
}

// SortEvents sorts events by time, the oldest first.
func SortEvents(all []corev1.Event) {
	slices.SortStableFunc(all, func(a, b corev1.Event) int {
		return cmp.Or(LastSeen(&a).Compare(LastSeen(&b)), strings.Compare(a.Name, b.Name))
	})
}

// Unexplained returns the object whose events may explain why the component is not ready, if the reported reason is vague. It returns the zero
// Culprit if no events are needed.
func (s *State) Unexplained() Culprit {
	if s.Settled || s.Problem != "" && !s.Culprit.IsVague() {
		return Culprit{}
	}
	for _, c := range []Culprit{s.HintCulprit, s.Culprit} {
		if slices.Contains([]string{"Pod", "StatefulSet", "PersistentVolumeClaim"}, c.Kind) && c.IsVague() {
			return c
		}
	}
	return Culprit{}
}

// Explain replaces a vague problem and hint by a cause from an event.
func (s *State) Explain(culprit Culprit, text string) {
	if s.Problem != "" {
		s.problem(culprit, text)
	}
	s.hint(culprit, text)
	s.Explained = true
}
