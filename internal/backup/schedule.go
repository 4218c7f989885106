// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
)

const day = 24 * time.Hour

// Overdue returns why runs of a kind of Job are overdue, or "". They are overdue if the longest time between two runs has passed since the
// last good one, plus a twelfth of it for the work.
func Overdue(pods []*corev1.Pod, label, schedule string, last *metav1.Time, now time.Time) string {
	every := Longest(schedule)
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
		return "its CronJob has started none"
	case hasEnded(newest):
		return "pod " + newest.Name + " has ended without one"
	}
	began := newest.CreationTimestamp.UTC().Format(time.RFC3339)
	if problem := health.PodProblem(newest); problem != "" {
		return "pod " + newest.Name + " of " + began + " does not work: " + problem
	}
	return "pod " + newest.Name + " of " + began + " has not ended: `kubectl logs " + newest.Name + "` shows how far it is"
}

// hasEnded reports whether the working container has ended.
func hasEnded(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.Name == Container && c.State.Terminated != nil
	})
}

// Longest returns the longest time between two runs of a cron schedule, rounded up to days, or 0 without a schedule. It is for alerts,
// which must not fire too early.
func Longest(schedule string) time.Duration {
	named := map[string]time.Duration{
		"@yearly": 366 * day, "@annually": 366 * day, "@monthly": 31 * day, "@weekly": 7 * day, "@daily": day, "@midnight": day, "@hourly": day,
	}
	fields := strings.Fields(schedule)
	switch {
	case len(fields) == 0:
		return 0
	case len(fields) != 5:
		return named[schedule]
	}
	isAny := func(field string) bool { return field == "*" || field == "?" || field == "*/1" }
	dayOfMonth, month, dayOfWeek := fields[2], fields[3], fields[4]
	switch {
	case !isAny(month):
		return 366 * day
	case !isAny(dayOfWeek): // if both are given, it runs on days that match either
		return 7 * day
	case !isAny(dayOfMonth):
		return 31 * day
	}
	return day
}
