// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// PodProblem says why a pod does not come up, as "Reason: message", or nothing when it is well
// or merely starting. The text stays the same while the cause does: it has no counters, no
// times, and does not alternate with the kubelet's retries.
func PodProblem(pod *corev1.Pod) string {
	if pod.DeletionTimestamp != nil {
		return ""
	}
	if c := condition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse &&
		c.Reason == corev1.PodReasonUnschedulable && !volumesPending(c.Message) {
		return "Unschedulable: " + c.Message
	}
	if pod.Status.Phase == corev1.PodFailed {
		return strings.TrimSuffix(fmt.Sprintf("%s: %s", orElse(pod.Status.Reason, "Failed"), pod.Status.Message), ": ")
	}
	for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if problem := containerProblem(container); problem != "" {
			return problem
		}
	}
	return ""
}

// podHint says what a pod that is not ready is doing.
func podHint(pod *corev1.Pod) string {
	if pod.DeletionTimestamp != nil {
		return ""
	}
	if c := condition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		return fmt.Sprintf("%s: %s", c.Reason, c.Message)
	}
	if c := condition(pod, corev1.PodReady); c != nil && c.Status == corev1.ConditionFalse {
		return "not ready: " + orElse(c.Message, c.Reason)
	}
	return ""
}

// starting are the waiting reasons of a container that is on its way.
var starting = []string{"", "ContainerCreating", "PodInitializing"}

func containerProblem(c corev1.ContainerStatus) string {
	if waiting := c.State.Waiting; waiting != nil && !slices.Contains(starting, waiting.Reason) && waiting.Reason != "CrashLoopBackOff" {
		return imagePull(waiting)
	}
	// A crashing container is by turns running, terminated and waiting; it is one problem.
	ended := c.State.Terminated
	if ended == nil && !c.Ready && (c.RestartCount > 0 || c.State.Waiting != nil) {
		ended = c.LastTerminationState.Terminated
	}
	if ended != nil && ended.ExitCode != 0 {
		return fmt.Sprintf("CrashLoopBackOff: container %s ended with exit code %d (%s)", c.Name, ended.ExitCode, orElse(ended.Reason, "Error"))
	}
	if waiting := c.State.Waiting; waiting != nil && waiting.Reason == "CrashLoopBackOff" {
		return fmt.Sprintf("CrashLoopBackOff: container %s keeps ending", c.Name)
	}
	return ""
}

// imagePull gives the kubelet's two alternating reasons for one failing pull a single form;
// other reasons pass through.
func imagePull(waiting *corev1.ContainerStateWaiting) string {
	const pull, backOff = "ErrImagePull", "ImagePullBackOff"
	reason, message := waiting.Reason, waiting.Message
	if reason == pull || reason == backOff {
		reason = backOff
		if _, cause, ok := strings.Cut(message, pull+": "); ok {
			message = cause
		}
	}
	return strings.TrimSuffix(fmt.Sprintf("%s: %s", reason, message), ": ")
}

// volumesPending: the scheduler's first look often comes before the volume is bound.
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

func orElse(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}
