// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// RunFailed is a part of the note on a cron job whose last run failed.
const RunFailed = "did not succeed"

// lastRun describes the last run of a cron job: its time, and whether it succeeded. Times are UTC.
func lastRun(object *unstructured.Unstructured) string {
	job := &batchv1.CronJob{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, job); err != nil {
		return fmt.Sprintf("its status cannot be read: %v", err)
	}
	const layout = "2006-01-02 15:04 UTC"
	status, schedule := job.Status, "runs at "+job.Spec.Schedule
	if job.Spec.Suspend != nil && *job.Spec.Suspend {
		schedule = "suspended"
	}
	switch {
	case status.LastScheduleTime == nil:
		return schedule
	case len(status.Active) > 0:
		return fmt.Sprintf("%s; running since %s", schedule, status.LastScheduleTime.UTC().Format(layout))
	case status.LastSuccessfulTime != nil && !status.LastSuccessfulTime.Before(status.LastScheduleTime):
		return fmt.Sprintf("%s; last run %s, succeeded", schedule, status.LastScheduleTime.UTC().Format(layout))
	default:
		return fmt.Sprintf("%s; last run %s, %s: `kubectl logs job/%s` shows why", schedule, status.LastScheduleTime.UTC().Format(layout), RunFailed, lastJob(job))
	}
}

// IsActive reports whether a run of a cron job is active.
func IsActive(object *unstructured.Unstructured) bool {
	if object.GetKind() != "CronJob" {
		return false
	}
	active, _, _ := unstructured.NestedSlice(object.Object, "status", "active")
	return len(active) > 0
}

// HeldRun returns a pod of a cron job's active run whose working container has ended while other containers still run,
// and a text that names these containers. It returns nil if there is no such pod. The working container is the first
// container of the cron job's template. A mesh or another webhook may have added the other containers.
func HeldRun(object *unstructured.Unstructured, pods []*corev1.Pod) (held *corev1.Pod, text string) {
	job := &batchv1.CronJob{}
	if !IsActive(object) || runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, job) != nil {
		return nil, ""
	}
	containers := job.Spec.JobTemplate.Spec.Template.Spec.Containers
	for _, pod := range pods {
		owner := metav1.GetControllerOfNoCopy(pod)
		if owner == nil || owner.Kind != "Job" || !strings.HasPrefix(owner.Name, job.Name+"-") || pod.Status.Phase != corev1.PodRunning || len(containers) == 0 {
			continue
		}
		var others []string
		hasEnded := false
		for _, c := range pod.Status.ContainerStatuses {
			switch {
			case c.Name == containers[0].Name:
				hasEnded = c.State.Terminated != nil
			case c.State.Running != nil:
				others = append(others, c.Name)
			}
		}
		if hasEnded && len(others) > 0 {
			slices.Sort(others)
			verb := "run"
			if len(others) == 1 {
				verb = "runs"
			}
			return pod, fmt.Sprintf("container %s has ended, and %s still %s", containers[0].Name, strings.Join(others, ", "), verb)
		}
	}
	return nil, ""
}

// lastJob returns the name of the Job of the last run: the CronJob controller derives the name from the scheduled minute.
func lastJob(job *batchv1.CronJob) string {
	return fmt.Sprintf("%s-%d", job.Name, job.Status.LastScheduleTime.Unix()/60)
}

// FailedRun returns the name of the Job of a cron job's last run if that run failed, or "".
func FailedRun(object *unstructured.Unstructured) string {
	job := &batchv1.CronJob{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, job); err != nil {
		return ""
	}
	status := job.Status
	if status.LastScheduleTime == nil || len(status.Active) > 0 || status.LastSuccessfulTime != nil && !status.LastSuccessfulTime.Before(status.LastScheduleTime) {
		return ""
	}
	return lastJob(job)
}
