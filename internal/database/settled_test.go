// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The time that WellFor returns begins when the pod becomes ready, or when one of its containers last restarted, whichever is later.
func TestWellFor(t *testing.T) {
	t.Parallel()
	now := time.Unix(10_000, 0)
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }
	started := func(d time.Duration) corev1.ContainerState {
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: ago(d)}}
	}
	ended := func(d time.Duration, code int32, reason string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: ago(d), Reason: reason, ExitCode: code}}
	}
	for name, c := range map[string]struct {
		ready      corev1.ConditionStatus
		since      time.Duration
		containers []corev1.ContainerStatus
		well       time.Duration
		end        string
	}{
		"ready":       {corev1.ConditionTrue, time.Minute, []corev1.ContainerStatus{{Name: "etcd", State: started(2 * time.Minute)}}, time.Minute, ""},
		"not ready":   {corev1.ConditionFalse, time.Minute, []corev1.ContainerStatus{{Name: "etcd", State: started(2 * time.Minute)}}, 0, ""},
		"not started": {corev1.ConditionFalse, 0, nil, 0, ""},
		"restarted": {corev1.ConditionTrue, time.Hour, []corev1.ContainerStatus{
			{Name: "etcd", State: started(time.Second), LastTerminationState: ended(2*time.Second, 137, "OOMKilled")},
		}, time.Second, "container etcd ended: OOMKilled"},
		"another container restarted": {corev1.ConditionTrue, time.Hour, []corev1.ContainerStatus{
			{Name: "etcd", State: started(2 * time.Hour), LastTerminationState: ended(2*time.Hour, 1, "Error")}, // too long ago
			{Name: "proxy", State: started(time.Minute), LastTerminationState: ended(time.Minute, 3, "Error")},
		}, time.Minute, "container proxy ended with exit code 3"},
		"ends now": {corev1.ConditionTrue, time.Hour, []corev1.ContainerStatus{{Name: "etcd", State: ended(0, 1, "")}}, 0, "container etcd ended with exit code 1"},
	} {
		pod := &corev1.Pod{Status: corev1.PodStatus{
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: c.ready, LastTransitionTime: ago(c.since)}}, ContainerStatuses: c.containers,
		}}
		assert.Equal(t, WellFor(pod, now), c.well, name)
		assert.Equal(t, LastEnd(pod, now), c.end, name)
	}
}
