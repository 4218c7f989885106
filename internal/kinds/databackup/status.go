// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package databackup

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/kinds/agentjob"
	"d3os.com/d3os-operator/internal/metrics"
)

// verdict is where a backup stands. Without a reason nothing is known that keeps its Job from being made.
type verdict struct {
	Phase           backupv1.Phase
	Reason, Message string
}

// judge says where a backup stands that has not ended as far as its status knows.
func judge(b *backupv1.DataBackup, w World) verdict {
	switch {
	case w.Job == nil && agentjob.IsCopy(b):
		return verdict{backupv1.PhaseFailed, backupv1.ReasonCopied, agentjob.CopyText(backupv1.KindDataBackup, b) + ". The store lists what it holds"}
	case w.Conflict != "":
		return verdict{backupv1.PhasePending, backupv1.ReasonJobConflict, fmt.Sprintf(
			"Job %s is there and belongs to %s: delete it, or create a DataBackup of another name", b.Name, w.Conflict)}
	case w.Job != nil:
		return judgeJob(b, w.Job)
	case b.Status.Job != "":
		return verdict{backupv1.PhaseFailed, backupv1.ReasonJobDeleted, fmt.Sprintf(
			"Job %s was deleted before it was seen to end: look in the store whether it made a backup, or create another DataBackup", b.Name)}
	case w.Source == nil:
		return verdict{backupv1.PhasePending, backupv1.ReasonSourceNotFound, w.Problem}
	}
	return verdict{Phase: backupv1.PhasePending}
}

func judgeJob(b *backupv1.DataBackup, j *agentjob.Job) verdict {
	switch {
	case j.HasSucceeded():
		text := "the store holds backup " + j.Result.ID
		if !j.Done {
			text += "; Job " + b.Name + " goes on: " + j.Holders()
		}
		return verdict{backupv1.PhaseSucceeded, backupv1.ReasonSucceeded, text}
	case j.Done && j.Succeeded:
		return verdict{backupv1.PhaseSucceeded, backupv1.ReasonResultLost, fmt.Sprintf(
			"Job %s succeeded, so the store holds the backup; its pod was gone before its report was read: the list of the store has it", b.Name)}
	case j.Done && j.Result != nil && !j.Result.OK:
		return verdict{backupv1.PhaseFailed, cmp.Or(j.Result.Reason, backupv1.ReasonJobFailed), j.Result.Message}
	case j.Done:
		return verdict{backupv1.PhaseFailed, backupv1.ReasonJobFailed, fmt.Sprintf("Job %s failed: %s", b.Name, j.Why())}
	case j.HasFailed():
		said := j.Failure()
		return verdict{backupv1.PhaseFailed, cmp.Or(said.Reason, backupv1.ReasonJobFailed), said.Message + "; it is not tried again: " + j.Holders()}
	case j.IsSuspended:
		return verdict{backupv1.PhaseRunning, backupv1.ReasonJobSuspended, "Job " + b.Name + " does not start: " + j.Stuck}
	case j.Stuck != "":
		return verdict{backupv1.PhaseRunning, backupv1.ReasonPodNotStarting, "Job " + b.Name + " does not start: " + j.Stuck}
	case j.Waiting != "":
		return verdict{backupv1.PhaseRunning, backupv1.ReasonPodNotStarting, "the pod of Job " + b.Name + " does not start: " + j.Waiting}
	case j.Result != nil && !j.Result.OK:
		return verdict{backupv1.PhaseRunning, backupv1.ReasonRunning, "tried again; the last try failed: " + j.Result.Message}
	}
	return verdict{backupv1.PhaseRunning, backupv1.ReasonRunning, "Job " + b.Name + " is at work: `kubectl logs job/" + b.Name + "` shows how far"}
}

// Status writes what was seen into the status of a DataBackup. One that has ended stays as it is.
func (*Kind) Status(b *backupv1.DataBackup, seen kinds.Seen[World], now metav1.Time) {
	s := &b.Status
	s.ObservedGeneration = seen.Generation
	if isFinal(s.Phase) {
		return
	}
	if s.Phase == "" {
		s.Phase = backupv1.PhasePending
	}
	stalled := false
	switch {
	case seen.Deleting:
		s.Reason, s.Message = backupv1.ReasonDeleting, "being deleted, and the Job with it; what the store holds stays"
	case seen.Failure != nil:
		s.Reason, s.Message, stalled = seen.Failure.Reason, seen.Failure.Message, seen.Failure.Stalled
	case seen.Observed != nil:
		v := judge(b, *seen.Observed)
		if v.Reason == "" {
			v.Reason, v.Message = backupv1.ReasonRunning, "the Job is being made"
		}
		s.Phase, s.Reason, s.Message = v.Phase, v.Reason, v.Message
		stalled = v.Phase == backupv1.PhaseFailed || v.Reason == backupv1.ReasonJobConflict
		fill(s, seen.Observed.Job)
	}
	if isFinal(s.Phase) && s.CompletedAt == nil {
		s.CompletedAt = &now
	}
	conditions(s, stalled, now)
}

// fill says of a backup what its Job and its pods say.
func fill(s *backupv1.DataBackupStatus, j *agentjob.Job) {
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
	s.ID, s.Bytes, s.StoredBytes, s.Tables, s.Rows, s.Revision = r.ID, r.Bytes, r.StoredBytes, r.Tables, r.Rows, r.Revision
	s.Size, s.ServerVersion, s.Warnings = agentjob.Size(r.StoredBytes), r.Server, r.Warnings
	s.Duration = r.Duration()
	if p := r.Position; p != nil {
		s.Position = &backupv1.Position{File: p.File, Offset: p.Offset, GTID: p.GTID}
	}
}

func conditions(s *backupv1.DataBackupStatus, stalled bool, now metav1.Time) {
	ready := s.Phase == backupv1.PhaseSucceeded
	c := kinds.Conditions{List: &s.Conditions, Generation: s.ObservedGeneration, Now: now}
	c.Set(backupv1.ConditionReady, ready, s.Reason, s.Message, s.Reason, s.Message)
	c.While(backupv1.ConditionReconciling, !ready && !stalled, s.Reason, s.Message)
	c.While(backupv1.ConditionStalled, !ready && stalled, s.Reason, s.Message)
}

// Summary says what a DataBackup's status amounts to.
func (*Kind) Summary(b *backupv1.DataBackup) kinds.Summary {
	s := &b.Status
	ready := s.Phase == backupv1.PhaseSucceeded
	summary := kinds.Summary{
		Phase: string(s.Phase), Generation: s.ObservedGeneration, Ready: ready, New: !ready,
		ReadyText: fmt.Sprintf("%s (%s)", s.Message, s.Size), Urgent: true, Conditions: s.Conditions,
		Parts: []metrics.Part{{Name: "job", Ready: ready}},
	}
	if meta.IsStatusConditionTrue(s.Conditions, backupv1.ConditionStalled) {
		summary.Problem, summary.ProblemReason, summary.ProblemField = s.Message, s.Reason, "status.conditions"
	}
	return summary
}
