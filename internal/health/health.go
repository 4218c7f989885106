// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package health assesses a component by its live objects and pods. It sends no requests. The library kstatus decides whether an object is
// settled; this package adds the pod that causes a problem, and the reason.
package health

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// State is the health of a component.
type State struct {
	// Settled: every object has reached its latest spec, and all pods are ready.
	Settled bool
	// Rolling: objects are not settled, and the only reason is a change that their controllers roll out or have not seen yet.
	Rolling bool
	// Ready and Desired count the pods of the workload.
	Ready, Desired int32
	// Problem names the pod or object that does not become ready, and the reason; empty while there is no problem, or only progress.
	Problem string
	// Culprit is the object that Problem is about.
	Culprit Culprit
	// Hint names the object that is not settled. A status shows Hint if the component should be settled, and Problem is empty.
	Hint string
	// HintCulprit is the object that Hint is about.
	HintCulprit Culprit
	// Explained reports whether the cause in Hint comes from an event.
	Explained bool
	// Note is for the user while there is no problem.
	Note Note
}

// Note is a message about a component that has no problem.
type Note struct {
	Text string
	// Culprit is the object that requires an action of the user, such as an autoscaler at its maximum. It is empty if the note is only
	// information, such as the last run of a cron job.
	Culprit Culprit
	// From is the Unix time from which a status shows the note, because some states only deserve a message if they last. 0 means always.
	From int64
	// Backup reports whether the note is about the backups of a resource.
	Backup bool
}

// Info returns a note that requires no action.
func Info(text string) Note { return Note{Text: text} }

// Culprit is the object that a person should inspect, with the reason and a message. Reason is one word, such as ImagePullBackOff. Reason
// and Message do not change until the cause changes.
type Culprit struct {
	Kind, Name, Reason, Message string
}

func (c Culprit) text() string {
	return fmt.Sprintf("%s %s: %s: %s", c.Kind, c.Name, c.Reason, c.Message)
}

// Assess judges a component from its live objects and its pods.
func Assess(objects []*unstructured.Unstructured, pods []*corev1.Pod) State {
	state := State{Settled: true}
	for _, object := range objects {
		if isMongoDB(object) {
			state.addMongoDB(object, pods)
			continue
		}
		state.add(object)
		if pod, text := HeldRun(object, pods); pod != nil {
			state.Note.Text += ", as " + text
		}
	}
	if !state.Settled {
		state.blame(pods)
	}
	return state
}

// AddMissing records a planned object that does not exist. The hint then explains why a component is not settled
// although all existing objects are.
func (s *State) AddMissing(planned *unstructured.Unstructured) {
	s.unsettle(false)
	s.hint(Culprit{planned.GetKind(), planned.GetName(), "Missing", "it does not exist"}, fmt.Sprintf("%s %s does not exist", planned.GetKind(), planned.GetName()))
}

// AddDoubt adds a problem that no object shows, such as a doubt about data. If the culprit is empty, the component is
// not settled, but no problem is reported. If a pod has a problem, the doubt replaces that problem only if isCause is
// true.
func (s *State) AddDoubt(culprit Culprit, isCause bool) {
	s.unsettle(false)
	if culprit != (Culprit{}) && (isCause || s.Problem == "") {
		s.problem(culprit, culprit.text())
	}
}

// AddUnconfirmed records an object that the component still needs, such as a Secret that another operator has not
// written yet. The component is not settled, but this is not a problem yet.
func (s *State) AddUnconfirmed(culprit Culprit) {
	s.unsettle(false)
	s.hint(culprit, culprit.text())
}

// unsettle records an object that is not settled. rolling reports whether a change of the object is the reason.
func (s *State) unsettle(rolling bool) {
	s.Rolling = rolling && (s.Settled || s.Rolling)
	s.Settled = false
}

// request notes that an object requires an action of the user, if it still does at a time. The note with the earliest time is kept.
func (s *State) request(culprit Culprit, from time.Time) {
	if s.Note.Culprit == (Culprit{}) || from.Unix() < s.Note.From {
		s.Note = Note{Text: culprit.text(), Culprit: culprit, From: max(from.Unix(), 0)}
	}
}

func (s *State) problem(culprit Culprit, text string) { s.Problem, s.Culprit = text, culprit }
func (s *State) hint(culprit Culprit, text string)    { s.Hint, s.HintCulprit = text, culprit }

func (s *State) add(object *unstructured.Unstructured) {
	if isCustom(object) {
		s.addCustom(object)
		return
	}
	switch object.GetKind() {
	case kindAutoscaler:
		s.addAutoscaler(object)
	case kindRoute:
		s.addRoute(object)
	}
	result, err := compute(object)
	culprit := Culprit{Kind: object.GetKind(), Name: object.GetName()}
	if err != nil {
		culprit.Reason, culprit.Message = "StatusUnreadable", fmt.Sprintf("its status cannot be read: %v", err)
	} else {
		culprit.Reason, culprit.Message = string(result.Status), result.Message
		if len(result.Conditions) > 0 && result.Conditions[0].Reason != "" {
			culprit.Reason = result.Conditions[0].Reason
		}
	}
	text := fmt.Sprintf("%s %s: %s", culprit.Kind, culprit.Name, culprit.Message)
	switch {
	case err != nil || result.Status == status.FailedStatus:
		s.unsettle(false)
		s.problem(culprit, text)
	case result.Status != status.CurrentStatus:
		s.unsettle(rolling(object))
		if s.HintCulprit.Reason != ReasonPodsMissing { // keep a hint about missing pods
			s.hint(culprit, text)
		}
	}
	s.count(object)
}

// compute returns the status that kstatus computes, except for a StatefulSet with OnDelete: kstatus reports such a StatefulSet as current
// regardless of its pods. compute reports it as current once all pods are ready, in any revision.
func compute(object *unstructured.Unstructured) (*status.Result, error) {
	if strategy, _, _ := unstructured.NestedString(object.Object, "spec", "updateStrategy", "type"); object.GetKind() != "StatefulSet" || strategy != "OnDelete" {
		return status.Compute(object)
	}
	if object.GetDeletionTimestamp() != nil {
		return &status.Result{Status: status.TerminatingStatus, Message: "Resource scheduled for deletion"}, nil
	}
	observed, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
	wanted, _, _ := unstructured.NestedInt64(object.Object, "spec", "replicas")
	there, _, _ := unstructured.NestedInt64(object.Object, "status", "replicas")
	ready, _, _ := unstructured.NestedInt64(object.Object, "status", "readyReplicas")
	if observed != object.GetGeneration() || there != wanted || ready != wanted {
		return &status.Result{Status: status.InProgressStatus, Message: fmt.Sprintf("Ready: %d/%d", ready, wanted)}, nil
	}
	return &status.Result{Status: status.CurrentStatus, Message: "all pods are ready"}, nil
}

// rolling reports whether a change of an object is in progress: its controller has not seen the change, or replaces pods to apply it. The
// loss of a pod changes none of the fields that rolling reads.
func rolling(object *unstructured.Unstructured) bool {
	if object.GetDeletionTimestamp() != nil {
		return false
	}
	observed, isReported, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
	if isReported && observed < object.GetGeneration() {
		return true
	}
	number := func(field string) int64 {
		n, _, _ := unstructured.NestedInt64(object.Object, "status", field)
		return n
	}
	text := func(fields ...string) string {
		t, _, _ := unstructured.NestedString(object.Object, fields...)
		return t
	}
	switch object.GetKind() {
	case "Deployment":
		progressing, reason, _ := conditionOf(object, "Progressing")
		return number("replicas") > number("updatedReplicas") || progressing && reason != "NewReplicaSetAvailable"
	case "StatefulSet": // with OnDelete, the controller never completes a rollout
		return text("status", "updateRevision") != text("status", "currentRevision") && text("spec", "updateStrategy", "type") != "OnDelete"
	case "DaemonSet":
		return number("currentNumberScheduled") > number("updatedNumberScheduled")
	}
	return false
}

// count reads the numbers of pods of a workload.
func (s *State) count(object *unstructured.Unstructured) {
	number := func(fields ...string) int32 {
		n, _, _ := unstructured.NestedInt64(object.Object, fields...)
		return int32(n) //nolint:gosec // the API has int32 here
	}
	switch object.GetKind() {
	case "Deployment", "StatefulSet":
		s.Desired, s.Ready = number("spec", "replicas"), number("status", "readyReplicas")
	case "CronJob":
		s.Note = Info(lastRun(object))
		return
	case "DaemonSet":
		s.Desired, s.Ready = number("status", "desiredNumberScheduled"), number("status", "numberReady")
	default:
		return
	}
	s.countMissing(object, number("status", "replicas"), number("status", "observedGeneration"))
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		// A quota, a limit range or an admission rule refuses the pods.
		if condition["type"] == "ReplicaFailure" && condition["status"] == "True" && !s.Settled {
			culprit := Culprit{object.GetKind(), object.GetName(), fmt.Sprint(condition["reason"]), Essence(fmt.Sprint(condition["message"]))}
			s.problem(culprit, fmt.Sprintf("%s %s: %s: %s", culprit.Kind, culprit.Name, culprit.Reason, culprit.Message))
		}
	}
}

// ReasonOperator is the reason of the Events that the operator records about its own pod while it lacks a right, a list fails, or a CRD is older than
// the operator.
const ReasonOperator = "OperatorNotReady"

// ReasonTooLarge is the reason of the Event about a resource that is so large that its status does not fit. So the
// status cannot report the problem.
const ReasonTooLarge = "StatusTooLarge"

// ReasonVolumeFull is the reason of a claim whose full volume cannot grow.
const ReasonVolumeFull = "VolumeFull"

// ReasonPodsMissing is the reason of a StatefulSet that lacks pods.
const ReasonPodsMissing = "PodsMissing"

// countMissing reports a StatefulSet that still lacks pods after its controller has processed it. Only the StatefulSet's events name the
// cause: a quota, an admission policy, or a missing service account or priority class.
func (s *State) countMissing(object *unstructured.Unstructured, exist int32, observed int32) {
	if s.HintCulprit.Reason == ReasonPodsMissing || object.GetKind() != "StatefulSet" || s.Settled || exist >= s.Desired || int64(observed) < object.GetGeneration() || object.GetDeletionTimestamp() != nil {
		return
	}
	culprit := Culprit{object.GetKind(), object.GetName(), ReasonPodsMissing, fmt.Sprintf(
		"%d of %d pods exist; `kubectl describe statefulset %s` shows why the other pods cannot be created", exist, s.Desired, object.GetName())}
	s.hint(culprit, fmt.Sprintf("StatefulSet %s: %s", culprit.Name, culprit.Message))
}

// blame sets the first pod that does not become ready as the culprit, because a pod's status is closer to the cause than the workload's. A
// pod on an unreachable node comes first, because the new pod waits until that pod releases the volume.
func (s *State) blame(pods []*corev1.Pod) {
	pods = slices.Clone(pods)
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	for _, problemOf := range []func(*corev1.Pod) string{nodeProblem, PodProblem} {
		for _, pod := range pods {
			if problem := problemOf(pod); problem != "" {
				reason, message, _ := strings.Cut(problem, ": ")
				s.problem(Culprit{"Pod", pod.Name, reason, message}, fmt.Sprintf("pod %s: %s", pod.Name, problem))
				return
			}
		}
	}
	for _, pod := range pods {
		if claim := unboundClaim(pod); claim != "" {
			culprit := Culprit{"PersistentVolumeClaim", claim, ReasonNotBound, fmt.Sprintf("it is not bound: `kubectl describe pvc %s` has the reason", claim)}
			s.hint(culprit, fmt.Sprintf("PersistentVolumeClaim %s: %s", claim, culprit.Message))
			return
		}
		if reason, text := podHint(pod); text != "" {
			_, message, _ := strings.Cut(text, ": ")
			s.hint(Culprit{"Pod", pod.Name, reason, message}, fmt.Sprintf("pod %s: %s", pod.Name, text))
			return
		}
	}
}
