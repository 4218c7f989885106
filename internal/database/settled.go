// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"d3os.com/d3os-operator/internal/health"
)

// WellFor returns the time for which a pod has been ready while none of its containers was restarted; 0 if it is not ready.
func WellFor(pod *corev1.Pod, now time.Time) time.Duration {
	ready, since := health.Readiness(pod)
	if !ready || pod.DeletionTimestamp != nil {
		return 0
	}
	for i := range pod.Status.ContainerStatuses {
		running := pod.Status.ContainerStatuses[i].State.Running
		if running == nil {
			return 0
		}
		if running.StartedAt.After(since) {
			since = running.StartedAt.Time
		}
	}
	return max(0, now.Sub(since))
}

// recentEnd is the maximum age of a container's end that LastEnd reports. It is longer than the five minutes that the
// kubelet may wait before it starts the container again.
const recentEnd = 10 * time.Minute

// LastEnd describes the last end of a container of a pod, such as "container etcd ended: OOMKilled". It returns "" if no container ended
// within ten minutes.
func LastEnd(pod *corev1.Pod, now time.Time) string {
	text, at := "", now.Add(-recentEnd)
	for i := range pod.Status.ContainerStatuses {
		c := &pod.Status.ContainerStatuses[i]
		for _, end := range []*corev1.ContainerStateTerminated{c.LastTerminationState.Terminated, c.State.Terminated} {
			if end == nil || end.FinishedAt.Time.Before(at) {
				continue
			}
			text, at = fmt.Sprintf("container %s ended: %s", c.Name, end.Reason), end.FinishedAt.Time
			if end.Reason == "" || end.Reason == "Error" {
				text = fmt.Sprintf("container %s ended with exit code %d", c.Name, end.ExitCode)
			}
		}
	}
	return text
}
