// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"

	"d3os.com/d3os-operator/internal/contract"
)

// After a pod has reported success, later reports are ignored. If a container has failed, its report of success is
// ignored.
func TestReports(t *testing.T) {
	t.Parallel()
	pod := func(code int32, message string) *corev1.Pod {
		end := &corev1.ContainerStateTerminated{ExitCode: code, Message: message}
		return &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
			{Name: "sidecar", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: `{"ok":true,"id":"no"}`}}},
			{Name: Container, State: corev1.ContainerState{Terminated: end}},
		}}}
	}
	j := &Job{}
	j.Take(pod(11, `{"ok":false,"reason":"ServerUnreachable","message":"no answer"}`))
	assert.Equal(t, j.Result.Reason, contract.ReasonServerUnreachable)
	j.Take(pod(137, ""))
	assert.Equal(t, j.Exit, int32(137))
	j.Take(pod(0, `{"ok":true,"id":"good","later":{"reached":"2026-01-02T15:04:07Z","newer":1},"newer":{"field":[1]}}`)) // written by a newer agent
	j.Take(pod(1, `{"ok":false,"reason":"Failed","message":"later"}`))
	assert.Assert(t, j.Result.OK && j.Result.ID == "good")
	j = &Job{}
	j.Take(pod(1, `{"ok":true,"id":"bad"}`))
	assert.Assert(t, !j.Result.OK)
	j = &Job{}
	j.Take(pod(0, "{"))
	assert.Assert(t, j.Result == nil)
	bad := pod(0, "")
	bad.Status.ContainerStatuses = nil
	bad.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: ContainerValidate, State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: 32, Message: `{"reason":"NotFound","message":"no such backup"}`},
	}}}
	j.Take(bad)
	assert.Equal(t, j.Result.Reason, contract.ReasonNotFound)
	assert.Equal(t, j.Exit, int32(32))
}
