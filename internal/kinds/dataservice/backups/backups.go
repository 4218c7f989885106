// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backups judges how the backups of a database are, by what their pods say. It is pure.
package backups

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/kinds/agentjob"
	"d3os.com/d3os-operator/internal/kinds/runs"
)

// PartArchive ends the name of the part whose pod archives, after that of the component. No name of a user's has a dot.
const PartArchive = ".archive"

// containerArchive does the work of the archive.
const containerArchive = "archive"

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
	// Unfinished are the Jobs that have not ended.
	Unfinished []agentjob.Unfinished
}

// Judge returns the next status of the backups, and what the conditions BackupHealthy and Recoverable say; nil for one that
// there is not. Times never go back: the pods that reported them go one day.
func Judge(before *dsv1.BackupStatus, o Observed, now time.Time) (next *dsv1.BackupStatus, healthy, recoverable *runs.Verdict) {
	if o.Declared == nil {
		return nil, nil, nil
	}
	next = &dsv1.BackupStatus{}
	if before != nil {
		next = before.DeepCopy()
	}
	good, bad := runs.Last(o.Jobs, o.Component)
	runs.Take(&next.LastSuccessful, &next.LastID, good)
	verified, refuted := runs.Last(o.Jobs, o.Component+labelVerify)
	runs.Take(&next.LastVerified, &next.VerifiedID, verified)
	if refuted != nil && refuted.Verified { // what failed is the archive
		runs.Take(&next.LastVerified, &next.VerifiedID, refuted)
	}
	healthy = cmp.Or(runs.Stuck(o.Unfinished), judgeRuns(next, o, bad, refuted, now))
	if o.Declared.PointInTime != nil {
		if recoverable = judgeArchive(next, o, now); recoverable.Good {
			recoverable = cmp.Or(unusable(next, verified, refuted), recoverable)
		}
	}
	return next, healthy, recoverable
}

// labelVerify ends the label of the Jobs that check backups.
const labelVerify = "-verify"

// unusable returns that the last check could not replay the archive behind a good backup, until a newer check or a newer backup; nil
// where it could.
func unusable(s *dsv1.BackupStatus, verified, refuted *runs.Run) *runs.Verdict {
	if refuted == nil || !refuted.Verified || verified != nil && !verified.Ended.Before(&refuted.Ended) || !refuted.IsNewer(s.LastSuccessful) {
		return nil
	}
	return &runs.Verdict{Reason: cmp.Or(refuted.Reason, dsv1.ReasonArchiveUnusable), Message: fmt.Sprintf(
		"the archive behind backup %s could not be replayed by the last check: create a DataBackup, moments after it do not need that: %s", refuted.ID, refuted.Message)}
}

func judgeRuns(s *dsv1.BackupStatus, o Observed, bad, refuted *runs.Run, now time.Time) *runs.Verdict {
	declared := o.Declared
	made := runs.Judge(s.LastSuccessful, s.LastID, bad, runs.Overdue(o.Jobs, o.Component, declared.Schedule, s.LastSuccessful, now))
	switch {
	case !made.Good:
		return made
	case declared.Verify == nil:
		made.Message += "; backups are not checked"
		return made
	case refuted.IsNewer(s.LastVerified):
		return &runs.Verdict{Reason: cmp.Or(refuted.Reason, dsv1.ReasonVerificationFailed), Message: "the last check of a backup failed: " + refuted.Message}
	case s.LastVerified == nil:
		return &runs.Verdict{Reason: dsv1.ReasonNotVerified, Message: made.Message + "; no backup was checked yet"}
	}
	if overdue := runs.Overdue(o.Jobs, o.Component+labelVerify, declared.Verify.Schedule, s.LastVerified, now); overdue != "" {
		return &runs.Verdict{Reason: dsv1.ReasonCheckOverdue, Message: "no check of a backup since " + s.LastVerified.UTC().Format(time.RFC3339) + ": " + overdue}
	}
	return &runs.Verdict{Good: true, Since: made.Since, Reason: dsv1.ReasonVerified, Message: fmt.Sprintf("%s, the last that was checked %s", made.Message, s.VerifiedID)}
}

// judgeArchive judges by the newest pod of the archive. It is ready while the latest moments can be restored.
func judgeArchive(s *dsv1.BackupStatus, o Observed, now time.Time) *runs.Verdict {
	if o.IsStopped {
		return &runs.Verdict{Reason: dsv1.ReasonArchiveStopped, Message: "the database is stopped, and the archive with it"}
	}
	pod := newest(o.Archive)
	starting := &runs.Verdict{Reason: dsv1.ReasonArchiveNotReady, Message: "the archive of the binary log starts"}
	if pod == nil {
		return starting
	}
	if isReady(pod) {
		return &runs.Verdict{Good: true, Reason: dsv1.ReasonArchived, Message: "the binary log is archived: each moment from a backup on can be restored"}
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
		return &runs.Verdict{Reason: dsv1.ReasonArchiveNotReady, Message: "pod " + pod.Name + ": " + problem}
	}
	return starting
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
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

// Gap returns when the archive found that the binary log has a gap, as long as no backup lies behind that; nil for no gap.
func (o Observed) Gap() *metav1.Time {
	pod := newest(o.Archive)
	if o.IsStopped || pod == nil || isReady(pod) {
		return nil
	}
	for _, c := range pod.Status.ContainerStatuses {
		if end, said := lastWord(c); c.Name == containerArchive && said.Reason == reasonGap {
			return &end.FinishedAt
		}
	}
	return nil
}

// lastWord returns the last end of a container, and what it said; nil for none.
func lastWord(c corev1.ContainerStatus) (end *corev1.ContainerStateTerminated, said runs.Report) {
	if end = c.LastTerminationState.Terminated; c.State.Terminated != nil {
		end = c.State.Terminated
	}
	if end != nil {
		said = runs.Read(end.Message)
	}
	return end, said
}

// judgeContainer judges an archive that is not ready by what its container does and said last; nil when that tells nothing.
func judgeContainer(c corev1.ContainerStatus, hasBackup bool, now time.Time) *runs.Verdict {
	running := c.State.Running
	_, said := lastWord(c)
	archives := running != nil && now.Sub(running.StartedAt.Time) > giveUp
	switch {
	case said.Message != "" && (!archives || said.Reason == reasonGap):
		return &runs.Verdict{Reason: cmp.Or(said.Reason, dsv1.ReasonArchiveNotReady), Message: said.Message}
	case archives || running != nil && !hasBackup:
		return &runs.Verdict{Reason: dsv1.ReasonNoBackup, Message: "the binary log is archived, but no backup lies on the archive: create a DataBackup, or wait for the schedule"}
	}
	return nil
}

// reasonGap is the agent's: a timeline was begun that does not continue the one before.
const reasonGap = "Gap"
