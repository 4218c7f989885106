// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package runs

import (
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"d3os.com/d3os-operator/internal/kinds/agentjob"
	"d3os.com/d3os-operator/internal/object"
)

func TestLongest(t *testing.T) {
	t.Parallel()
	for schedule, days := range map[string]int{
		"": 0, "@hourly": 1, "@weekly": 7, "30 2 * * *": 1, "*/5 * * * *": 1, "0 5 * * 0": 7, "0 5 * * MON-FRI": 7, "0 5 1 * *": 31, "0 5 1 * 0": 7, "0 5 1 1 *": 366, "0 5 1 1 0": 366,
	} {
		assert.Equal(t, Longest(schedule), time.Duration(days)*day, schedule)
	}
}

// Runs that never end, never start, or are never made are overdue a while after the schedule's time.
func TestOverdue(t *testing.T) {
	t.Parallel()
	last := time.Unix(1_800_000_000, 0)
	pod := func(after time.Duration, state corev1.ContainerState) []*corev1.Pod {
		return []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "p", CreationTimestamp: metav1.NewTime(last.Add(after)), Labels: map[string]string{object.LabelBackup: "mysql"}},
			Status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{Name: agentjob.Container, State: state}}}}}
	}
	running, ended := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	for name, c := range map[string]struct {
		pods     []*corev1.Pod
		schedule string
		after    time.Duration
		want     string
	}{
		"in time":               {pod(20*time.Hour, running), "@daily", 25 * time.Hour, ""},
		"never ends":            {pod(24*time.Hour, running), "@daily", 27 * time.Hour, "has not ended"},
		"never starts":          {pod(24*time.Hour, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}), "@daily", 27 * time.Hour, "does not work"},
		"none is made":          {pod(-time.Hour, ended), "@daily", 27 * time.Hour, "started none"},
		"no pod is left":        {nil, "@daily", 27 * time.Hour, "started none"},
		"ended without success": {pod(24*time.Hour, ended), "@daily", 27 * time.Hour, "ended without one"},
		"on demand alone":       {pod(24*time.Hour, running), "", 999 * time.Hour, ""},
		"every minute":          {pod(time.Hour, running), "* * * * *", 25 * time.Hour, ""},
		"weekly":                {pod(time.Hour, running), "0 5 * * 0", 8 * day, "has not ended"},
	} {
		at := metav1.NewTime(last)
		got := Overdue(c.pods, "mysql", c.schedule, &at, last.Add(c.after))
		if !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, wanted %q", name, got, c.want)
		}
	}
	assert.Equal(t, Overdue(nil, "mysql", "@daily", nil, last), "", "without a first one there is another reason")
}
