// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backups judges how the backups of a database are, by what their pods say. It is pure.
package backups

import (
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
)

// The ends of the names of parts whose pods look after backups, behind that of the component.
const (
	PartJobs    = "-backup"
	PartArchive = "-archive"
)

// The containers that do the work.
const (
	containerJob     = "backup"
	containerArchive = "archive"
)

// giveUp is after how long without success the archive ends with the reason (--give-up in the chart). One that runs for
// longer archives, whatever ended the one before.
const giveUp = 2 * time.Minute

// Observed is what was seen of the backups of a database.
type Observed struct {
	// Declared is what the spec says; nil for no backups.
	Declared *dsv1.Backup
	// Component is that of the database, such as mysql. IsStopped: it is to have no pod.
	Component string
	IsStopped bool
	// Jobs and Archive are the pods of these parts.
	Jobs, Archive []*corev1.Pod
}

// report is what a pod says at its end: the last line that the agent prints (package contract of cmd/agent).
type report struct {
	OK              bool
	Reason, Message string
	ID              string
}

// run is a pod that has ended.
type run struct {
	report

	ended metav1.Time
}

// last returns the last run of a kind of Job that succeeded, and the last one that failed; nil for none. A pod that ended
// without a word has failed.
func last(pods []*corev1.Pod, label string) (good, bad *run) {
	for _, pod := range pods {
		if pod.Labels[object.LabelBackup] != label {
			continue
		}
		for _, c := range pod.Status.ContainerStatuses {
			end := c.State.Terminated
			if c.Name != containerJob || end == nil {
				continue
			}
			r := &run{report: read(end.Message), ended: end.FinishedAt}
			if r.OK = r.OK && end.ExitCode == 0; r.OK && (good == nil || good.ended.Before(&r.ended)) {
				good = r
			} else if !r.OK && (bad == nil || bad.ended.Before(&r.ended)) {
				if r.Message == "" {
					r.Message = fmt.Sprintf("pod %s ended with exit code %d: `kubectl logs %s` says more", pod.Name, end.ExitCode, pod.Name)
				}
				bad = r
			}
		}
	}
	return good, bad
}

func read(message string) report {
	var r report
	if json.Unmarshal([]byte(message), &r) != nil {
		return report{}
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
}

// Judge returns the next status of the backups, and what the conditions BackupHealthy and Recoverable say; nil for one that
// there is not. Times never go back: the pods that reported them go one day.
func Judge(before *dsv1.BackupStatus, o Observed, now time.Time) (next *dsv1.BackupStatus, healthy, recoverable *Verdict) {
	if o.Declared == nil {
		return nil, nil, nil
	}
	next = &dsv1.BackupStatus{}
	if before != nil {
		next = before.DeepCopy()
	}
	good, bad := last(o.Jobs, o.Component)
	take(&next.LastSuccessful, &next.LastID, good)
	verified, refuted := last(o.Jobs, o.Component+"-verify")
	take(&next.LastVerified, &next.VerifiedID, verified)
	healthy = judgeRuns(o.Declared, next, bad, refuted)
	if o.Declared.PointInTime != nil {
		recoverable = judgeArchive(next, o, now)
	}
	return next, healthy, recoverable
}

// take takes over what a run says, unless something newer is known.
func take(at **metav1.Time, id *string, r *run) {
	if r != nil && (*at == nil || (*at).Before(&r.ended)) {
		*at, *id = r.ended.DeepCopy(), r.ID
	}
}

func judgeRuns(declared *dsv1.Backup, s *dsv1.BackupStatus, bad, refuted *run) *Verdict {
	isNewer := func(r *run, good *metav1.Time) bool { return r != nil && (good == nil || good.Before(&r.ended)) }
	switch {
	case isNewer(bad, s.LastSuccessful):
		return &Verdict{Reason: orElse(bad.Reason, dsv1.ReasonBackupFailed), Message: "the last backup failed: " + bad.Message}
	case s.LastSuccessful == nil:
		return &Verdict{Reason: dsv1.ReasonNoBackup, Message: "no backup was made yet: create a DataBackup, or wait for the schedule"}
	case declared.Verify == nil:
		return &Verdict{Good: true, Reason: dsv1.ReasonBackupSucceeded, Message: "the last backup is " + s.LastID + "; backups are not checked"}
	case isNewer(refuted, s.LastVerified):
		return &Verdict{Reason: orElse(refuted.Reason, dsv1.ReasonVerificationFailed), Message: "the last check of a backup failed: " + refuted.Message}
	case s.LastVerified == nil:
		return &Verdict{Reason: dsv1.ReasonNotVerified, Message: "the last backup is " + s.LastID + "; no backup was checked yet"}
	}
	return &Verdict{Good: true, Reason: dsv1.ReasonVerified, Message: fmt.Sprintf("the last backup is %s, the last that was checked %s", s.LastID, s.VerifiedID)}
}

// judgeArchive judges by the newest pod of the archive. It is ready while the latest moments can be restored.
func judgeArchive(s *dsv1.BackupStatus, o Observed, now time.Time) *Verdict {
	if o.IsStopped {
		return &Verdict{Reason: dsv1.ReasonArchiveStopped, Message: "the database is stopped, and the archive with it"}
	}
	pod := newest(o.Archive)
	starting := &Verdict{Reason: dsv1.ReasonArchiveNotReady, Message: "the archive of the binary log starts"}
	if pod == nil {
		return starting
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return &Verdict{Good: true, Reason: dsv1.ReasonArchived, Message: "the binary log is archived: each moment from a backup on can be restored"}
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name != containerArchive {
			continue
		}
		if verdict := judgeContainer(c, s.LastSuccessful != nil, now); verdict != nil {
			return verdict
		}
	}
	if problem := health.PodProblem(pod); problem != "" {
		return &Verdict{Reason: dsv1.ReasonArchiveNotReady, Message: "pod " + pod.Name + ": " + problem}
	}
	return starting
}

// newest returns the pod that was created last of those that stay, or nil.
func newest(pods []*corev1.Pod) (found *corev1.Pod) {
	for _, p := range pods {
		if p.DeletionTimestamp == nil && (found == nil || found.CreationTimestamp.Before(&p.CreationTimestamp)) {
			found = p
		}
	}
	return found
}

// judgeContainer judges an archive that is not ready by what its container does and said last; nil when that tells nothing.
func judgeContainer(c corev1.ContainerStatus, hasBackup bool, now time.Time) *Verdict {
	end, running := c.LastTerminationState.Terminated, c.State.Running
	if c.State.Terminated != nil {
		end = c.State.Terminated
	}
	var said report
	if end != nil {
		said = read(end.Message)
	}
	archives := running != nil && now.Sub(running.StartedAt.Time) > giveUp
	switch {
	case said.Message != "" && (!archives || said.Reason == reasonGap):
		return &Verdict{Reason: orElse(said.Reason, dsv1.ReasonArchiveNotReady), Message: said.Message}
	case archives || running != nil && !hasBackup:
		return &Verdict{Reason: dsv1.ReasonNoBackup, Message: "the binary log is archived, but no backup lies on the archive: create a DataBackup, or wait for the schedule"}
	}
	return nil
}

// reasonGap is the agent's: a timeline was begun that does not continue the one before.
const reasonGap = "Gap"

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
