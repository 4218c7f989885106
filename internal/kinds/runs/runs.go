// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package runs judges how backups are, by what the pods that make them said at their end.
package runs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/kinds/agentjob"
	"d3os.com/d3os-operator/internal/object"
)

// PartJobs ends the name of the part whose pods make and check backups, after the name of the part whose data they read. Its dot
// keeps it apart from every name that a user can give to a service or a cron job.
const PartJobs = agentjob.PartJobs

// Report is what a pod says at its end: the last line that the agent prints (package contract of cmd/agent).
type Report struct {
	OK              bool
	Reason, Message string
	ID              string
	// Verified: a check that failed has found the backup itself good before.
	Verified bool
}

// Run is a pod that has ended.
type Run struct {
	Report

	Ended metav1.Time
}

// IsNewer reports whether a run ended after the last one that succeeded. None is not; where none succeeded, any is.
func (r *Run) IsNewer(good *metav1.Time) bool {
	return r != nil && (good == nil || good.Before(&r.Ended))
}

// Last returns the last run of a kind of Job that succeeded, and the last one that failed; nil for none. A pod that ended
// without a word has failed.
func Last(pods []*corev1.Pod, label string) (good, bad *Run) {
	for _, pod := range pods {
		if pod.Labels[object.LabelBackup] != label {
			continue
		}
		for _, c := range pod.Status.ContainerStatuses {
			end := c.State.Terminated
			if c.Name != agentjob.Container || end == nil {
				continue
			}
			r := &Run{Report: Read(end.Message), Ended: end.FinishedAt}
			if r.OK = r.OK && end.ExitCode == 0; r.OK && (good == nil || good.Ended.Before(&r.Ended)) {
				good = r
			} else if !r.OK && (bad == nil || bad.Ended.Before(&r.Ended)) {
				if r.Message == "" {
					r.Message = fmt.Sprintf("pod %s ended with exit code %d: `kubectl logs %s` says more", pod.Name, end.ExitCode, pod.Name)
				}
				bad = r
			}
		}
	}
	return good, bad
}

// Read reads the last line of a container. A reason that is none of the API is left out.
func Read(message string) Report {
	var r Report
	if json.Unmarshal([]byte(message), &r) != nil {
		return Report{}
	}
	if !reasonPattern.MatchString(r.Reason) {
		r.Reason = ""
	}
	return r
}

// reasonPattern is that of the API for reasons of conditions, but shorter.
var reasonPattern = regexp.MustCompile(`^[A-Za-z]{1,40}$`)

// Verdict is the status of a condition, and why.
type Verdict struct {
	Good            bool
	Reason, Message string
	// Since is when the last backup succeeded on which a good verdict rests; nil where it rests on something else.
	Since *metav1.Time
}

// Stuck returns that a Job of backups has no pod at work; nil where none is so.
func Stuck(jobs []agentjob.Unfinished) *Verdict {
	for _, job := range jobs {
		if job.Stuck != "" {
			return &Verdict{Reason: backupv1.ReasonPodNotStarting, Message: "Job " + job.Name + " does not start: " + job.Stuck}
		}
	}
	return nil
}

// Set sets a condition to the verdict, or removes it where there is none. A failure that was reported stays until a newer backup
// succeeds: the pod that reported it goes one day.
func (v *Verdict) Set(c kinds.Conditions, name string) {
	if v == nil {
		meta.RemoveStatusCondition(c.List, name)
		return
	}
	if before := meta.FindStatusCondition(*c.List, name); v.Good && v.Since != nil && before != nil && isFailure(before) && v.Since.Before(&before.LastTransitionTime) {
		c.Set(name, false, "", "", before.Reason, before.Message)
		return
	}
	c.Set(name, v.Good, v.Reason, v.Message, v.Reason, v.Message)
}

// Take takes over what a run says, unless something newer is known: times never go back, because pods go one day.
func Take(at **metav1.Time, id *string, r *Run) {
	if r.IsNewer(*at) {
		*at, *id = r.Ended.DeepCopy(), r.ID
	}
}

// Judge says how backups are, by the last one that succeeded and the last one that failed, nil for none, and by why the next one is
// overdue, "" where it is not.
func Judge(at *metav1.Time, id string, bad *Run, overdue string) *Verdict {
	switch {
	case bad.IsNewer(at):
		return &Verdict{Reason: cmp.Or(bad.Reason, backupv1.ReasonBackupFailed), Message: lastFailed + bad.Message}
	case at == nil:
		return &Verdict{Reason: backupv1.ReasonNoBackup, Message: "no backup was made yet: create a DataBackup, or wait for the schedule"}
	case overdue != "":
		return &Verdict{Reason: backupv1.ReasonBackupOverdue, Message: "no backup since " + at.UTC().Format(time.RFC3339) + ": " + overdue}
	}
	return &Verdict{Good: true, Since: at, Reason: backupv1.ReasonBackupSucceeded, Message: "the last backup is " + id}
}

// isFailure reports whether a condition says that a backup failed.
func isFailure(c *metav1.Condition) bool {
	return c.Status == metav1.ConditionFalse && strings.HasPrefix(c.Message, lastFailed)
}

// lastFailed begins the message of a verdict on a backup that failed.
const lastFailed = "the last backup failed: "
