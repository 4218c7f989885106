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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodProblem returns the reason why a pod does not become ready, as "Reason: message". It returns "" for a healthy pod and for a pod that
// is only starting. The text does not change until the cause changes: it has no counters and no times, and does not alternate with the
// kubelet's retries.
func PodProblem(pod *corev1.Pod) string {
	if problem := nodeProblem(pod); problem != "" {
		return problem
	}
	if gone(pod) {
		return ""
	}
	if c := condition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse &&
		c.Reason == corev1.PodReasonUnschedulable && !volumesPending(c.Message) {
		return "Unschedulable: " + Essence(c.Message)
	}
	if pod.Status.Phase == corev1.PodFailed {
		return strings.TrimSuffix(fmt.Sprintf("%s: %s", cmp.Or(pod.Status.Reason, "Failed"), pod.Status.Message), ": ")
	}
	for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if problem := containerProblem(container, notReadySince(pod)); problem != "" {
			return problem
		}
	}
	return ""
}

// ReasonNodeUnreachable is the reason of a pod whose node cannot be reached.
const ReasonNodeUnreachable = "NodeUnreachable"

// nodeProblem describes a pod whose node does not report: the time of the last report, and the next step for a person.
// It returns "" for other pods.
//
// Kubernetes' node lifecycle controller sets the condition Ready of such a pod to False. The kubelet's last report still
// shows all containers as ready. After some minutes, the controller deletes the pod. The pod object stays until the node
// reports again, because its processes may still write to the volume. Only a person who knows that the node is powered
// off may taint the node.
func nodeProblem(pod *corev1.Pod) string {
	containers, ready := condition(pod, corev1.ContainersReady), condition(pod, corev1.PodReady)
	if containers == nil || ready == nil || pod.Spec.NodeName == "" || pod.Status.Phase != corev1.PodRunning ||
		containers.Status != corev1.ConditionTrue || ready.Status != corev1.ConditionFalse || ready.Reason == readinessGates {
		return ""
	}
	text := fmt.Sprintf("%s: node %s has not reported since %s: the pod may still run there", ReasonNodeUnreachable, pod.Spec.NodeName,
		ready.LastTransitionTime.UTC().Format(time.RFC3339))
	if claimOf(pod) == "" {
		return text + ". Bring the node back; Kubernetes replaces the pod after some minutes"
	}
	return fmt.Sprintf("%s, so no other pod gets its volume. Bring the node back; or, if it is off for sure, let Kubernetes move the pod: "+
		"kubectl taint node %s node.kubernetes.io/out-of-service=nodeshutdown:NoExecute", text, pod.Spec.NodeName)
}

// claimOf returns the name of the first claim that a pod mounts, or "".
func claimOf(pod *corev1.Pod) string {
	for i := range pod.Spec.Volumes {
		if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
			return claim.ClaimName
		}
	}
	return ""
}

// ReasonNotBound is the reason of a claim that a pod waits for.
const ReasonNotBound = "NotBound"

// unboundClaim returns the name of a pod's first claim if the pod cannot be scheduled because a claim is not bound; otherwise "".
func unboundClaim(pod *corev1.Pod) string {
	if c := condition(pod, corev1.PodScheduled); gone(pod) || c == nil || c.Status != corev1.ConditionFalse || !volumesPending(c.Message) {
		return ""
	}
	return claimOf(pod)
}

// readinessGates is the reason of a pod that is not ready although all its containers are ready and its node is healthy.
const readinessGates = "ReadinessGatesNotReady"

// podHint describes the progress of a pod that is not ready: the reason in one word, and a text.
func podHint(pod *corev1.Pod) (reason, text string) {
	if gone(pod) {
		return "", ""
	}
	if c := condition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		return c.Reason, fmt.Sprintf("%s: %s", c.Reason, Essence(c.Message))
	}
	if c := condition(pod, corev1.PodReady); c != nil && c.Status == corev1.ConditionFalse {
		return cmp.Or(c.Reason, "NotReady"), "not ready: " + cmp.Or(c.Message, c.Reason)
	}
	return "", ""
}

// gone reports whether a pod no longer counts. If a pod has ended (it was evicted, or its node was shut down), its ReplicaSet creates a new
// pod, and the old pod object remains for days. A StatefulSet and a DaemonSet delete such a pod before they create a new pod.
func gone(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil {
		return true
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	ended := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
	return ended && owner != nil && owner.Kind == "ReplicaSet"
}

// notReadySince returns the time at which a pod stopped being ready; zero if unknown.
func notReadySince(pod *corev1.Pod) metav1.Time {
	if c := condition(pod, corev1.PodReady); c != nil && c.Status == corev1.ConditionFalse {
		return c.LastTransitionTime
	}
	return metav1.Time{}
}

// starting are the waiting reasons of a container that is being started.
var starting = []string{"", "ContainerCreating", "PodInitializing"}

// IsStarting reports whether a waiting container still starts normally: nothing has failed yet.
func IsStarting(waiting *corev1.ContainerStateWaiting) bool {
	return slices.Contains(starting, waiting.Reason)
}

func containerProblem(c corev1.ContainerStatus, notReadySince metav1.Time) string {
	if problem := startProblem(c); problem != "" {
		return problem
	}
	if waiting := c.State.Waiting; waiting != nil && !IsStarting(waiting) && waiting.Reason != "CrashLoopBackOff" {
		return imagePull(waiting)
	}
	if ended := lastEnd(c, notReadySince); ended != nil && ended.ExitCode != 0 {
		if own := OwnWords(ended.Message); own != "" {
			return own
		}
		if line := LastError(strings.Split(ended.Message, "\n")); line != "" && !isStopped(ended) {
			return fmt.Sprintf("CrashLoopBackOff: %s (container %s, %s)", line, c.Name, ExitCode(ended))
		}
		return fmt.Sprintf("CrashLoopBackOff: container %s ended with %s", c.Name, ExitCode(ended))
	}
	if waiting := c.State.Waiting; waiting != nil && waiting.Reason == "CrashLoopBackOff" {
		return fmt.Sprintf("CrashLoopBackOff: container %s keeps exiting", c.Name)
	}
	return ""
}

// isStopped reports whether the kernel or the kubelet ended a container: in that case, the container's last output does not show the cause.
func isStopped(ended *corev1.ContainerStateTerminated) bool {
	const killed, terminated = 128 + 9, 128 + 15
	return ended.ExitCode == killed || ended.ExitCode == terminated
}

// ExitCode returns the exit code of a container that ended, with the reason if the reason is unusual: "exit code 137 (OOMKilled)".
func ExitCode(ended *corev1.ContainerStateTerminated) string {
	text := fmt.Sprintf("exit code %d", ended.ExitCode)
	if ended.Reason != "" && ended.Reason != "Error" {
		text += " (" + ended.Reason + ")"
	}
	return text
}

// startErrors are the reasons of a container whose program the runtime could not start.
var startErrors = []string{"StartError", "ContainerCannotRun", "RunContainerError"}

// startProblem describes the program that could not be started in a container, or returns "". The kubelet reports this problem alternately
// as the container's waiting reason and as its last termination.
func startProblem(c corev1.ContainerStatus) string {
	var message string
	waiting, ended := c.State.Waiting, c.State.Terminated
	if ended == nil && waiting != nil && waiting.Reason == "CrashLoopBackOff" {
		ended = c.LastTerminationState.Terminated
	}
	switch {
	case ended != nil && slices.Contains(startErrors, ended.Reason):
		message = ended.Message
	case waiting != nil && slices.Contains(startErrors, waiting.Reason):
		message = waiting.Message
	default:
		return ""
	}
	// The earlier parts of the message are only texts of the layers below the kubelet.
	if i := strings.LastIndex(message, "exec: "); i >= 0 {
		message = message[i:]
	}
	message = strings.TrimSuffix(strings.TrimSpace(message), ": unknown")
	return strings.TrimSuffix(fmt.Sprintf("StartError: container %s cannot start: %s", c.Name, message), ": ")
}

// Readiness reports whether a pod is ready, and the time of the last change of its condition Ready.
func Readiness(pod *corev1.Pod) (ready bool, since time.Time) {
	if c := condition(pod, corev1.PodReady); c != nil {
		return c.Status == corev1.ConditionTrue, c.LastTransitionTime.Time
	}
	return false, pod.CreationTimestamp.Time
}

// IsReady reports whether a pod is ready.
func IsReady(pod *corev1.Pod) bool {
	ready, _ := Readiness(pod)
	return ready
}

// Unready reports whether a pod runs but is not ready: its containers have started, and a probe has not succeeded yet or fails now.
func Unready(pod *corev1.Pod) bool {
	c := condition(pod, corev1.PodReady)
	return !gone(pod) && pod.Status.Phase == corev1.PodRunning && c != nil && c.Status == corev1.ConditionFalse && PodProblem(pod) == ""
}

// lastEnd returns the termination that explains why a container is not ready now, or nil. A crashing container
// alternates between terminated, waiting and running, which is one problem.
//
// If the container runs, its last crash is the cause only if its pod stopped being ready before the container started.
// If the pod was ready after that start, the present problem has another cause. While a container is created again,
// such as after a restart of the node, its last termination is not the cause either.
func lastEnd(c corev1.ContainerStatus, notReadySince metav1.Time) *corev1.ContainerStateTerminated {
	switch {
	case c.State.Terminated != nil:
		return c.State.Terminated
	case c.State.Waiting != nil && c.State.Waiting.Reason == "CrashLoopBackOff":
		return c.LastTerminationState.Terminated
	case c.State.Running != nil && !c.Ready && !notReadySince.After(c.State.Running.StartedAt.Time):
		return c.LastTerminationState.Terminated
	}
	return nil
}

// imagePull maps the kubelet's two alternating reasons for a failing pull to one, and returns other reasons unchanged.
func imagePull(waiting *corev1.ContainerStateWaiting) string {
	const pull, backOff = "ErrImagePull", "ImagePullBackOff"
	reason, message := waiting.Reason, waiting.Message
	if reason == pull || reason == backOff {
		reason = backOff
	}
	return strings.TrimSuffix(fmt.Sprintf("%s: %s", reason, Essence(message)), ": ")
}

// volumesPending reports whether a message is the scheduler's answer about a claim that is not bound yet. The first attempt to schedule a pod
// often gets this answer.
func volumesPending(message string) bool {
	return strings.Contains(message, "unbound immediate PersistentVolumeClaims")
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
