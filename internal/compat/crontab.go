// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"cmp"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shared "d3os.com/d3os-operator/api/compat"
	stablev1 "d3os.com/d3os-operator/api/stable/v1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/render"
	"d3os.com/d3os-operator/internal/schedule"
)

// NewCronTabs returns the kind CronTab. live reads from the API server. agent is the image with the agent; empty if it is unknown.
func NewCronTabs(renderer *render.Renderer, c client.Client, live client.Reader, agent string) *Kind[*stablev1.CronTab] {
	return newKind(definition[*stablev1.CronTab]{
		gvk:    stablev1.GroupVersion.WithKind(stablev1.Kind),
		create: func() *stablev1.CronTab { return &stablev1.CronTab{} },
		status: func(c *stablev1.CronTab) *shared.Status { return &c.Status.Status },
		values: cronTab,
		report: reportRuns,
		well:   runsAt,
		live:   live,
	}, renderer, c, agent)
}

// cronTab returns the chart of a CronTab and its values, or an error about a mistake in its schedule.
func cronTab(c *stablev1.CronTab, agent string) (chart string, values map[string]any, err error) {
	spec := &c.Spec
	if err := schedule.Check(spec.CronSpec); err != nil {
		return "", nil, render.FieldError("spec.cronSpec", "%v", err)
	}
	if !schedule.IsDue(spec.CronSpec) {
		return "", nil, render.FieldError("spec.cronSpec", "'%s' is never due", spec.CronSpec)
	}
	if err := schedule.CheckZone(spec.TimeZone); err != nil {
		return "", nil, render.FieldError("spec.timeZone", "%v", err)
	}
	v := container(&spec.Container)
	if dsv1.HasSeconds(spec.CronSpec) {
		if len(spec.Command) == 0 {
			return "", nil, render.FieldError("spec.command", "is required with the schedule '%s': the schedule has seconds, so one pod keeps running and "+
				"starts the command at each tick, and the operator does not know the entrypoint of the image. Set command, such as [sh, -c, date]", spec.CronSpec)
		}
		v["agentImage"] = agent
	}
	v["replicas"], v["suspend"] = max(ptr.Deref(spec.Replicas, 1), 1), isSuspended(c)
	v["schedule"], v["scheduleTimeZone"], v["concurrencyPolicy"] = spec.CronSpec, spec.TimeZone, cmp.Or(spec.ConcurrencyPolicy, "Forbid")
	v["command"], v["args"] = spec.Command, spec.Args
	v["startingDeadlineSeconds"], v["activeDeadlineSeconds"] = spec.StartingDeadlineSeconds, spec.ActiveDeadlineSeconds
	v["successfulJobsHistoryLimit"], v["failedJobsHistoryLimit"] = spec.SuccessfulJobsHistoryLimit, spec.FailedJobsHistoryLimit
	return "cronjob", v, nil
}

// runsAt describes the schedule of a CronTab in the same words in which internal/health describes the schedule of a CronJob.
func runsAt(c *stablev1.CronTab) string {
	if isSuspended(c) {
		return "suspended"
	}
	return "runs at " + c.Spec.CronSpec
}

// isSuspended reports whether a CronTab starts no runs, because it is suspended or has 0 replicas.
func isSuspended(c *stablev1.CronTab) bool {
	return c.Spec.Suspend || ptr.Deref(c.Spec.Replicas, 1) == 0
}

// reportRuns sets the fields of a CronTab's status that come from its CronJob.
func reportRuns(c *stablev1.CronTab, obs Observation) {
	s, job := &c.Status, &batchv1.CronJob{}
	s.LastScheduleTime, s.LastSuccessfulTime = nil, nil
	if obs.Workload == nil || obs.Workload.GetKind() != object.CronJobKind.Kind ||
		runtime.DefaultUnstructuredConverter.FromUnstructured(obs.Workload.Object, job) != nil {
		return
	}
	s.Replicas = ptr.Deref(job.Spec.JobTemplate.Spec.Parallelism, 1)
	s.LastScheduleTime, s.LastSuccessfulTime = job.Status.LastScheduleTime, job.Status.LastSuccessfulTime
}
