// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// lastRun says when a cron job ran last, and whether it succeeded. Times are UTC.
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
		return fmt.Sprintf("%s; last run %s, did not succeed: `kubectl logs job/%s` says why", schedule, status.LastScheduleTime.UTC().Format(layout), lastJob(job))
	}
}

// lastJob returns the name of the Job of the last run: the controller of CronJobs names it after the minute it was scheduled for.
func lastJob(job *batchv1.CronJob) string {
	return fmt.Sprintf("%s-%d", job.Name, job.Status.LastScheduleTime.Unix()/60)
}

// FailedRun returns the name of the Job of a cron job's last run when that has ended and did not succeed, and else "".
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
