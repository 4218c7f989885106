// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/schedule"
)

// Overdue returns the reason why runs of a kind of Job are overdue, or "". declared is their schedule, or "", and zone
// the time zone of the schedule. last is the end of the last good run. Runs are overdue if the time since last exceeds
// the longest interval of the schedule by more than a twelfth. The twelfth allows for the duration of a run.
func Overdue(pods []*corev1.Pod, label, declared, zone string, last *metav1.Time, now time.Time) string {
	every := schedule.Longest(declared, zone)
	if last == nil || every == 0 || now.Sub(last.Time) <= every+every/12 {
		return ""
	}
	var newest *corev1.Pod
	for _, pod := range pods {
		if pod.Labels[object.LabelBackup] == label && (newest == nil || newest.CreationTimestamp.Before(&pod.CreationTimestamp)) {
			newest = pod
		}
	}
	switch {
	case newest == nil || !newest.CreationTimestamp.After(last.Time) && hasEnded(newest):
		return "its CronJob has started no pod"
	case hasEnded(newest):
		return "pod " + newest.Name + " has ended without success"
	}
	began := newest.CreationTimestamp.UTC().Format(time.RFC3339)
	if problem := health.PodProblem(newest); problem != "" {
		return "pod " + newest.Name + " of " + began + " does not work: " + problem
	}
	return "pod " + newest.Name + " of " + began + " has not ended: `kubectl logs " + newest.Name + "` shows its progress"
}

// hasEnded reports whether the working container has ended.
func hasEnded(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.Name == Container && c.State.Terminated != nil
	})
}
