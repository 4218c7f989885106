// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

// PartJobs is the suffix in the name of the part that makes and checks backups. The name begins with the name of the
// part with the data. Names of users' services and cron jobs contain no dot, so no other part has the same name.
const PartJobs = ".backup"

// Run is a pod that has ended.
type Run struct {
	contract.Result

	Ended metav1.Time
}

// IsNewer reports whether a run ended after the last successful run, which ended at good. If good is nil, there is no
// such run, and IsNewer returns true. It returns false for a nil run.
func (r *Run) IsNewer(good *metav1.Time) bool {
	return r != nil && (good == nil || good.Before(&r.Ended))
}

// Last returns the last successful run and the last failed run of a kind of Job; nil for none. A pod without a report counts as failed.
func Last(pods []*corev1.Pod, label string) (good, bad *Run) {
	for _, pod := range pods {
		if pod.Labels[object.LabelBackup] != label {
			continue
		}
		for _, c := range pod.Status.ContainerStatuses {
			end := c.State.Terminated
			if c.Name != Container || end == nil {
				continue
			}
			r := &Run{Result: Read(end.Message), Ended: end.FinishedAt}
			if r.OK = r.OK && end.ExitCode == 0; r.OK && (good == nil || good.Ended.Before(&r.Ended)) {
				good = r
			} else if !r.OK && (bad == nil || bad.Ended.Before(&r.Ended)) {
				if r.Message == "" {
					r.Message = fmt.Sprintf("pod %s ended with exit code %d: see `kubectl logs %s`", pod.Name, end.ExitCode, pod.Name)
				}
				bad = r
			}
		}
	}
	return good, bad
}

// IsReason reports whether a text is a valid reason of a condition.
func IsReason(text string) bool { return text != "" && reasonPattern.MatchString(text) }

// Verdict is the status of a condition, with reason and message.
type Verdict struct {
	Good            bool
	Reason, Message string
	// Since is the end of the last successful backup, if the verdict is good because of that backup; otherwise nil.
	Since *metav1.Time
	// Warnings are the warnings of the backup in the message. Set appends the beginning of the first warning to the message.
	Warnings []string
}

// Stuck returns the verdict for a backup Job without a running pod, or nil.
func Stuck(jobs []Unfinished) *Verdict {
	for _, job := range jobs {
		if job.Stuck != "" {
			return &Verdict{Reason: backupv1.ReasonPodNotStarting, Message: "Job " + job.Name + " does not start: " + job.Stuck}
		}
	}
	return nil
}

// Set sets a condition to the verdict, or removes the condition if the verdict is nil. A reported failure stays until a
// newer backup succeeds, even if the pod that reported the failure is deleted before.
func (v *Verdict) Set(c reconcile.Conditions, name string) {
	if v == nil {
		meta.RemoveStatusCondition(c.List, name)
		return
	}
	if before := meta.FindStatusCondition(*c.List, name); v.Good && v.Since != nil && before != nil && isFailure(before) && v.Since.Before(&before.LastTransitionTime) {
		c.Set(name, false, "", "", before.Reason, before.Message)
		return
	}
	message := v.Message
	if len(v.Warnings) > 0 {
		message += "; " + summarize(v.Warnings)
	}
	c.Set(name, v.Good, v.Reason, message, v.Reason, message)
}

// Take stores the time and the ID of a run, unless the stored run is newer. So the stored time never decreases, even if
// pods are deleted.
func Take(at **metav1.Time, id *string, r *Run) {
	if r.IsNewer(*at) {
		*at, *id = r.Ended.DeepCopy(), r.ID
	}
}

// TakeBackup stores the time, the ID and the warnings of a backup as Take does. The warnings of the previous backup are replaced.
func TakeBackup(at **metav1.Time, id *string, warnings *[]string, r *Run) {
	if r.IsNewer(*at) {
		*warnings = r.Warnings
	}
	Take(at, id, r)
}

// Judge returns the verdict about backups. at, id and warnings describe the last success, and bad the last failure (nil
// for none). overdue is the reason why the next backup is overdue, or "".
func Judge(at *metav1.Time, id string, warnings []string, bad *Run, overdue string) *Verdict {
	switch {
	case bad.IsNewer(at):
		return &Verdict{Reason: cmp.Or(string(bad.Reason), backupv1.ReasonBackupFailed), Message: lastFailed + bad.Message}
	case at == nil:
		return &Verdict{Reason: backupv1.ReasonNoBackup, Message: "no backup was made yet: create a DataBackup, or wait for the schedule"}
	case overdue != "":
		return &Verdict{Reason: backupv1.ReasonBackupOverdue, Message: "no backup since " + at.UTC().Format(time.RFC3339) + ": " + overdue}
	}
	return &Verdict{Good: true, Since: at, Reason: backupv1.ReasonBackupSucceeded, Message: "the last backup is " + id, Warnings: warnings}
}

// isFailure reports whether a condition reports a failed backup.
func isFailure(c *metav1.Condition) bool {
	return c.Status == metav1.ConditionFalse && strings.HasPrefix(c.Message, lastFailed)
}

// lastFailed is the prefix of the message about a failed backup.
const lastFailed = "the last backup failed: "
