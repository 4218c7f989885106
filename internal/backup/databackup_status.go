// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	"d3os.com/d3os-operator/internal/metrics"
	"d3os.com/d3os-operator/internal/reconcile"
)

// backupVerdict is the state of a backup. An empty reason means that the Job can be created.
type backupVerdict struct {
	Phase           backupv1.Phase
	Reason, Message string
}

// judgeBackup computes the phase of a backup whose status is not final.
func judgeBackup(b *backupv1.DataBackup, obs DataBackupObservation) backupVerdict {
	switch {
	case obs.Job == nil && IsCopy(b):
		return backupVerdict{backupv1.PhaseFailed, backupv1.ReasonCopied, CopyText(backupv1.KindDataBackup, b) + ". To find earlier backups, list the store"}
	case obs.Conflict != "":
		return backupVerdict{backupv1.PhasePending, backupv1.ReasonJobConflict, fmt.Sprintf(
			"Job %s exists and belongs to %s: delete that Job, or create a DataBackup with another name", b.Name, obs.Conflict)}
	case obs.Job != nil:
		return judgeBackupJob(b, obs.Job)
	case b.Status.Job != "":
		return backupVerdict{backupv1.PhaseFailed, backupv1.ReasonJobDeleted, fmt.Sprintf(
			"Job %s was deleted before it was seen to end: look in the store whether it made a backup, or create another DataBackup", b.Name)}
	case obs.Source == nil:
		return backupVerdict{backupv1.PhasePending, backupv1.ReasonSourceNotFound, obs.Problem}
	}
	return backupVerdict{Phase: backupv1.PhasePending}
}

func judgeBackupJob(b *backupv1.DataBackup, j *Job) backupVerdict {
	switch {
	case j.HasSucceeded():
		text := "the store holds backup " + j.Result.ID
		if !j.Done {
			text += "; Job " + b.Name + " still runs: " + j.Holders()
		}
		return backupVerdict{backupv1.PhaseSucceeded, backupv1.ReasonSucceeded, text}
	case j.Done && j.Succeeded:
		return backupVerdict{backupv1.PhaseSucceeded, backupv1.ReasonResultLost, fmt.Sprintf(
			"Job %s succeeded, so the store has the backup. Its pod was deleted before its report was read: list the store to find the backup", b.Name)}
	case j.Done && j.Result != nil && !j.Result.OK:
		return backupVerdict{backupv1.PhaseFailed, cmp.Or(string(j.Result.Reason), backupv1.ReasonJobFailed), j.Result.Message}
	case j.Done:
		return backupVerdict{backupv1.PhaseFailed, backupv1.ReasonJobFailed, fmt.Sprintf("Job %s failed: %s", b.Name, j.Why())}
	case j.HasFailed():
		said := j.Failure()
		return backupVerdict{backupv1.PhaseFailed, cmp.Or(string(said.Reason), backupv1.ReasonJobFailed), said.Message + "; it is not tried again: " + j.Holders()}
	case j.IsSuspended:
		return backupVerdict{backupv1.PhaseRunning, backupv1.ReasonJobSuspended, "Job " + b.Name + " does not start: " + j.Stuck}
	case j.Stuck != "":
		return backupVerdict{backupv1.PhaseRunning, backupv1.ReasonPodNotStarting, "Job " + b.Name + " does not start: " + j.Stuck}
	case j.Waiting != "":
		return backupVerdict{backupv1.PhaseRunning, backupv1.ReasonPodNotStarting, "the pod of Job " + b.Name + " does not start: " + j.Waiting}
	case j.Result != nil && !j.Result.OK:
		return backupVerdict{backupv1.PhaseRunning, backupv1.ReasonRunning, "the backup is tried again; the last attempt failed: " + j.Result.Message}
	}
	return backupVerdict{backupv1.PhaseRunning, backupv1.ReasonRunning, "Job " + b.Name + " is running: `kubectl logs job/" + b.Name + "` shows its progress"}
}

// Status writes the observation to the status of a DataBackup. It does not change a final status.
func (*DataBackups) Status(b *backupv1.DataBackup, seen reconcile.Seen[DataBackupObservation], now metav1.Time) {
	s := &b.Status
	s.ObservedGeneration = seen.Generation
	if isFinalBackup(s.Phase) {
		return
	}
	if s.Phase == "" {
		s.Phase = backupv1.PhasePending
	}
	stalled := false
	switch {
	case seen.Deleting:
		s.Reason, s.Message = backupv1.ReasonDeleting, "being deleted, with its Job; the backups in the store are kept"
	case seen.Failure != nil:
		s.Reason, s.Message, stalled = seen.Failure.Reason, seen.Failure.Message, seen.Failure.Stalled
	case seen.Observed != nil:
		v := judgeBackup(b, *seen.Observed)
		if v.Reason == "" {
			v.Reason, v.Message = backupv1.ReasonRunning, "the Job is being made"
		}
		s.Phase, s.Reason, s.Message = v.Phase, v.Reason, v.Message
		stalled = v.Phase == backupv1.PhaseFailed || v.Reason == backupv1.ReasonJobConflict
		fillBackup(s, seen.Observed.Job)
	}
	if isFinalBackup(s.Phase) && s.CompletedAt == nil {
		s.CompletedAt = &now
	}
	conditions(&s.Conditions, s.ObservedGeneration, s.Phase == backupv1.PhaseSucceeded, stalled, s.Reason, s.Message, now)
}

// fillBackup copies the state and the report of the Job to the status.
func fillBackup(s *backupv1.DataBackupStatus, j *Job) {
	if j == nil {
		return
	}
	s.Job, s.StartedAt = j.UID, &j.Created
	if j.Done {
		s.CompletedAt = j.Ended
	}
	r := j.Result
	if !j.Done && !j.HasSucceeded() || r == nil || !r.OK {
		return
	}
	s.ID, s.Bytes, s.StoredBytes, s.Tables, s.Rows, s.Revision = r.ID, r.Bytes, r.StoredBytes, tablesOf(r), r.Rows, r.Revision
	s.Size, s.ServerVersion, s.Warnings = Size(r.StoredBytes), r.Server, r.Warnings
	s.Duration = durationOf(r)
	if p := positionOf(r); p != nil {
		s.Position = p
	}
}

// conditions sets the conditions of a DataBackup or a DataRestore.
func conditions(list *[]metav1.Condition, generation int64, ready, stalled bool, reason, message string, now metav1.Time) {
	c := reconcile.Conditions{List: list, Generation: generation, Now: now}
	c.Set(backupv1.ConditionReady, ready, reason, message, reason, message)
	c.While(backupv1.ConditionReconciling, !ready && !stalled, reason, message)
	c.While(backupv1.ConditionStalled, !ready && stalled, reason, message)
}

// Summary returns the summary of a DataBackup's status.
func (*DataBackups) Summary(b *backupv1.DataBackup) reconcile.Summary {
	s := &b.Status
	ready := s.Phase == backupv1.PhaseSucceeded
	summary := reconcile.Summary{
		Phase: string(s.Phase), Generation: s.ObservedGeneration, Ready: ready, New: !ready,
		ReadyText: fmt.Sprintf("%s (%s)", s.Message, s.Size), Urgent: true, Conditions: s.Conditions,
		Parts: []metrics.Part{{Name: "job", Ready: ready}},
	}
	if meta.IsStatusConditionTrue(s.Conditions, backupv1.ConditionStalled) {
		summary.Problem, summary.ProblemReason, summary.ProblemField = s.Message, s.Reason, "status.conditions"
	}
	return summary
}
