// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/backup"
	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/health"
)

// PartArchive is the suffix of the name of the part that archives the binary log. The prefix is the component's name.
// Names that users choose contain no dot, so no other part has that name.
const PartArchive = ".archive"

// containerArchive is the name of the container that archives the binary log.
const containerArchive = "archive"

// giveUp is the time without success after which the archive's container exits and reports the reason (--give-up in the
// chart). So a container that has run for longer than giveUp archives successfully, and the reason for which the previous
// container exited no longer counts.
const giveUp = 2 * time.Minute

// Observed is the observation of a database's backups.
type Observed struct {
	// Declared is the declaration of backups in the spec; nil for none.
	Declared *dsv1.Backup
	// Component is the name of the database's component, such as mysql. IsStopped reports whether the database should have no pod. In that
	// case, no run counts as overdue.
	Component string
	IsStopped bool
	// Jobs are the pods of backup Jobs, for example of Jobs that make or check backups. Archive are the pods that archive the binary log.
	Jobs, Archive []*corev1.Pod
	// Unfinished are the unfinished Jobs.
	Unfinished []backup.Unfinished
}

// JudgeBackups returns the next status of the backups, and the verdicts for the conditions BackupHealthy and
// Recoverable (nil removes a condition). Times in the status never decrease, even if the pods that reported them are
// deleted.
func JudgeBackups(before *dsv1.BackupStatus, o Observed, now time.Time) (next *dsv1.BackupStatus, healthy, recoverable *backup.Verdict) {
	if o.Declared == nil {
		return nil, nil, nil
	}
	next = &dsv1.BackupStatus{}
	if before != nil {
		next = before.DeepCopy()
	}
	good, bad := backup.Last(o.Jobs, o.Component)
	backup.TakeBackup(&next.LastSuccessful, &next.LastID, &next.Warnings, good)
	verified, refuted := backup.Last(o.Jobs, o.Component+labelVerify)
	backup.Take(&next.LastVerified, &next.VerifiedID, verified)
	if refuted != nil && refuted.Verified { // the backup is good: the last check restored it, but could not replay the archive
		backup.Take(&next.LastVerified, &next.VerifiedID, refuted)
	}
	healthy = cmp.Or(backup.Stuck(o.Unfinished), judgeRuns(next, o, bad, refuted, now))
	if o.Declared.PointInTime != nil {
		if recoverable = judgeArchive(next, o, now); recoverable.Good {
			recoverable = cmp.Or(unusable(next, verified, refuted), recoverable)
		}
	}
	return next, healthy, recoverable
}

// labelVerify is the suffix in the label of Jobs that check backups.
const labelVerify = "-verify"

// unusable returns a verdict if the last check restored a backup but could not replay the archive. It returns nil if
// the replay succeeded, or if a newer check or a newer backup exists.
func unusable(s *dsv1.BackupStatus, verified, refuted *backup.Run) *backup.Verdict {
	if refuted == nil || !refuted.Verified || verified != nil && !verified.Ended.Before(&refuted.Ended) || !refuted.IsNewer(s.LastSuccessful) {
		return nil
	}
	return &backup.Verdict{Reason: cmp.Or(string(refuted.Reason), dsv1.ReasonArchiveUnusable), Message: fmt.Sprintf(
		"the last check could not replay the archive after backup %s: create a DataBackup; points in time after the new backup can be restored without that archive: %s", refuted.ID, refuted.Message)}
}

func judgeRuns(s *dsv1.BackupStatus, o Observed, bad, refuted *backup.Run, now time.Time) *backup.Verdict {
	declared := o.Declared
	overdue := func(label, schedule string, last *metav1.Time) string {
		if o.IsStopped {
			return ""
		}
		return backup.Overdue(o.Jobs, label, schedule, declared.TimeZone, last, now)
	}
	made := backup.Judge(s.LastSuccessful, s.LastID, s.Warnings, bad, overdue(o.Component, declared.Schedule, s.LastSuccessful))
	switch {
	case !made.Good:
		return made
	case declared.Verify == nil:
		made.Message += "; backups are not checked"
		return made
	case refuted.IsNewer(s.LastVerified):
		return &backup.Verdict{Reason: cmp.Or(string(refuted.Reason), dsv1.ReasonVerificationFailed), Message: "the last check of a backup failed: " + refuted.Message}
	case s.LastVerified == nil:
		return &backup.Verdict{Reason: dsv1.ReasonNotVerified, Message: made.Message + "; no backup was checked yet", Warnings: made.Warnings}
	}
	if late := overdue(o.Component+labelVerify, declared.Verify.Schedule, s.LastVerified); late != "" {
		return &backup.Verdict{Reason: dsv1.ReasonCheckOverdue, Message: "no check of a backup since " + s.LastVerified.UTC().Format(time.RFC3339) + ": " + late}
	}
	return &backup.Verdict{Good: true, Since: made.Since, Reason: dsv1.ReasonVerified, Warnings: made.Warnings,
		Message: fmt.Sprintf("%s, the last checked backup is %s", made.Message, s.VerifiedID)}
}

// judgeArchive judges the archive by its newest pod. That pod is ready while the database can be restored to the latest
// point in time.
func judgeArchive(s *dsv1.BackupStatus, o Observed, now time.Time) *backup.Verdict {
	if o.IsStopped {
		return &backup.Verdict{Reason: dsv1.ReasonArchiveStopped, Message: "the database is stopped, so nothing is archived"}
	}
	pod := newest(o.Archive)
	starting := &backup.Verdict{Reason: dsv1.ReasonArchiveNotReady, Message: "the archive of the binary log starts"}
	if pod == nil {
		return starting
	}
	if health.IsReady(pod) {
		return &backup.Verdict{Good: true, Reason: dsv1.ReasonArchived, Message: "the binary log is archived: each point in time after a backup can be restored"}
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
		return &backup.Verdict{Reason: dsv1.ReasonArchiveNotReady, Message: "pod " + pod.Name + ": " + problem}
	}
	return starting
}

// newest returns the pod that was created last and is not being deleted, or nil.
func newest(pods []*corev1.Pod) (found *corev1.Pod) {
	for _, p := range pods {
		if p.DeletionTimestamp == nil && (found == nil || found.CreationTimestamp.Before(&p.CreationTimestamp)) {
			found = p
		}
	}
	return found
}

// Gap returns the time at which the archive found a gap in the binary log. It returns nil if there is no gap. It also returns nil if the
// archive is ready again, because a backup is then newer than the gap.
func (o Observed) Gap() *metav1.Time {
	pod := newest(o.Archive)
	if o.IsStopped || pod == nil || health.IsReady(pod) {
		return nil
	}
	for _, c := range pod.Status.ContainerStatuses {
		if end, said := lastWord(c); c.Name == containerArchive && said.Reason == contract.ReasonGap {
			return &end.FinishedAt
		}
	}
	return nil
}

// lastWord returns the last termination of a container, and the report in it. end is nil if the container has never ended.
func lastWord(c corev1.ContainerStatus) (end *corev1.ContainerStateTerminated, said contract.Result) {
	if end = c.LastTerminationState.Terminated; c.State.Terminated != nil {
		end = c.State.Terminated
	}
	if end != nil {
		said = backup.Read(end.Message)
	}
	return end, said
}

// judgeContainer returns the verdict about an archive that is not ready, from the state and the last report of its container. It returns
// nil if they show no reason.
func judgeContainer(c corev1.ContainerStatus, hasBackup bool, now time.Time) *backup.Verdict {
	running := c.State.Running
	_, said := lastWord(c)
	archives := running != nil && now.Sub(running.StartedAt.Time) > giveUp
	switch {
	case said.Message != "" && (!archives || said.Reason == contract.ReasonGap):
		return &backup.Verdict{Reason: cmp.Or(string(said.Reason), dsv1.ReasonArchiveNotReady), Message: said.Message}
	case archives || running != nil && !hasBackup:
		return &backup.Verdict{Reason: dsv1.ReasonNoBackup, Message: "the binary log is archived, but there is no backup to which the archive can be applied: create a DataBackup, or wait for the schedule"}
	}
	return nil
}
