// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/metrics"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

// restoreVerdict is the state of a restore. An empty reason means that the next step can run.
type restoreVerdict struct {
	Phase           backupv1.Phase
	Reason, Message string
}

// judgeRestore computes the phase of a restore whose status is not final.
func judgeRestore(r *backupv1.DataRestore, obs DataRestoreObservation) restoreVerdict {
	pending := func(reason, format string, args ...any) restoreVerdict {
		return restoreVerdict{backupv1.PhasePending, reason, fmt.Sprintf(format, args...)}
	}
	failed := func(reason, format string, args ...any) restoreVerdict {
		return restoreVerdict{backupv1.PhaseFailed, reason, fmt.Sprintf(format, args...)}
	}
	claim := claimName(r)
	if obs.Job == nil && !obs.Owned && IsCopy(r) {
		return failed(backupv1.ReasonCopied, "%s", CopyText(backupv1.KindDataRestore, r)+". The running database is not touched")
	}
	switch {
	case obs.Conflict != "":
		return pending(backupv1.ReasonJobConflict, "Job %s exists and belongs to %s: delete that Job, or create a DataRestore with another name", jobName(r), obs.Conflict)
	case hasLostClaim(r, obs):
		return failed(backupv1.ReasonVolumeDeleted, "claim %s was deleted before the restore was seen to end: create another DataRestore", claim)
	case isMarkDue(r, obs):
		return restoreVerdict{backupv1.PhaseChecking, backupv1.ReasonRunning, "the database is complete; claim " + claim + " is marked. The running database is not touched"}
	case obs.Job != nil:
		return judgeRestoreJob(r, obs.Job)
	case r.Status.Job != "":
		return failed(backupv1.ReasonJobDeleted, "Job %s was deleted before it was seen to end: create another DataRestore", jobName(r))
	case obs.Claim != nil && !obs.Owned:
		return pending(backupv1.ReasonVolumeConflict, "claim %s exists, but this restore did not create it, so the restore does not write to it. Create a DataRestore with another name", claim)
	case obs.HasMembers:
		return pending(backupv1.ReasonSourceNotFound, "the mysql of %s %s has several members, and no DataRestore restores their backups: create a new database with spec.mysql.restoreFrom",
			r.Spec.Of.Kind, r.Spec.Of.Name)
	case obs.Source == nil:
		return pending(backupv1.ReasonSourceNotFound, "%s %s of this namespace has no backup of %s: declare spec.%s.backup in it, or correct spec.of",
			r.Spec.Of.Kind, r.Spec.Of.Name, r.Spec.Of.Component, r.Spec.Of.Component)
	case obs.Taken != "":
		return pending(backupv1.ReasonNameInUse, "%s exists, so a database cannot get the name %s: create a DataRestore with another spec.databaseName", obs.Taken, r.Spec.DatabaseName)
	case obs.Claim == nil && obs.Model == nil:
		return pending(backupv1.ReasonSizeUnknown, "claim %s of the database does not exist, so its size is unknown: create a DataRestore with spec.storage.size", databaseClaim(&obs.Source.Template))
	}
	return restoreVerdict{Phase: backupv1.PhasePending}
}

// hasLostClaim reports whether the claim of a restore was deleted, replaced, or is being deleted.
func hasLostClaim(r *backupv1.DataRestore, obs DataRestoreObservation) bool {
	if r.Status.ClaimUID != "" && (!obs.Owned || string(obs.Claim.UID) != r.Status.ClaimUID || obs.Claim.DeletionTimestamp != nil) {
		return true
	}
	return obs.Job != nil && hasSucceeded(obs.Job) && r.Spec.DatabaseName != "" && !obs.Owned
}

// hasSucceeded reports whether the Job has restored the database, and its pod has reported success.
func hasSucceeded(j *Job) bool { return j.HasSucceeded() }

// isMarkDue reports whether the restored database is complete, and its claim is not annotated yet. A switch to the
// database needs the annotation.
func isMarkDue(r *backupv1.DataRestore, obs DataRestoreObservation) bool {
	return r.Spec.DatabaseName != "" && obs.Job != nil && hasSucceeded(obs.Job) && obs.Owned && obs.Claim.Annotations[object.AnnotationRestoredTo] == ""
}

func judgeRestoreJob(r *backupv1.DataRestore, j *Job) restoreVerdict {
	name := jobName(r)
	at := func(phase backupv1.Phase, doing string) restoreVerdict {
		return restoreVerdict{phase, backupv1.ReasonRunning, doing + ": `kubectl logs job/" + name + "` shows the progress. The running database is not touched"}
	}
	switch {
	case hasSucceeded(j):
		text := prepared(r, j.Result)
		if !j.Done {
			text += ". Before a switch, delete Job " + name + ", because its pod has the claim: " + j.Holders()
		}
		return restoreVerdict{backupv1.PhasePrepared, backupv1.ReasonPrepared, text}
	case j.Done && j.Succeeded:
		return restoreVerdict{backupv1.PhaseFailed, backupv1.ReasonResultLost, fmt.Sprintf(
			"Job %s succeeded, but its pod was deleted before its report was read, so the restored data is unknown: create another DataRestore", name)}
	case j.Done && j.Result != nil && !j.Result.OK:
		reason := string(j.Result.Reason)
		if reason == "" {
			reason = backupv1.ReasonJobFailed
		}
		return restoreVerdict{backupv1.PhaseFailed, reason, j.Result.Message + ". The running database was not touched"}
	case j.Done:
		return restoreVerdict{backupv1.PhaseFailed, backupv1.ReasonJobFailed, fmt.Sprintf("Job %s failed: %s. The running database was not touched", name, j.Why())}
	case j.HasFailed():
		said := j.Failure()
		return restoreVerdict{backupv1.PhaseFailed, cmp.Or(string(said.Reason), backupv1.ReasonJobFailed), fmt.Sprintf(
			"%s; it is not tried again: %s. The running database was not touched", said.Message, j.Holders())}
	case j.IsSuspended:
		return restoreVerdict{backupv1.PhaseValidating, backupv1.ReasonJobSuspended, "Job " + name + " does not start: " + j.Stuck}
	case j.Stuck != "":
		return restoreVerdict{backupv1.PhaseValidating, backupv1.ReasonPodNotStarting, "Job " + name + " does not start: " + j.Stuck}
	case j.Waiting != "":
		return restoreVerdict{backupv1.PhaseValidating, backupv1.ReasonPodNotStarting, "the pod of Job " + name + " does not start: " + j.Waiting}
	case j.Result != nil && !j.Result.OK && !j.IsAtWork:
		return restoreVerdict{backupv1.PhaseValidating, backupv1.ReasonRunning, "the restore is tried again; the last attempt failed: " + j.Result.Message}
	case !j.IsAtWork:
		return at(backupv1.PhaseValidating, "checking whether the restore can succeed")
	case j.IsReady:
		return at(backupv1.PhaseChecking, "tables and rows are checked")
	case j.IsStarted:
		return at(backupv1.PhaseReplaying, "the archive after the backup is applied")
	}
	return at(backupv1.PhaseBuilding, "the backup is loaded")
}

// prepared describes the restored database and the user's options.
func prepared(r *backupv1.DataRestore, result *contract.Result) string {
	text := fmt.Sprintf("claim %s has the database of backup %s, and this database was checked; the running database was not touched. ", claimName(r), result.ID)
	if r.Spec.DatabaseName == "" {
		return text + "This was a rehearsal: the volume is deleted with this DataRestore"
	}
	loss := lossOf(result)
	return text + fmt.Sprintf("A switch to this database would lose %s. Nothing switches by itself: to switch, write spec.%s.name: %s and spec.%s.acceptLoss: %q into %s %s",
		loss.Summary, r.Spec.Of.Component, r.Spec.DatabaseName, r.Spec.Of.Component, loss.Accept, r.Spec.Of.Kind, r.Spec.Of.Name)
}

// lossOf returns the loss that a switch to the restored database causes: the newer transactions of the running database.
func lossOf(result *contract.Result) *backupv1.Loss {
	accept := object.LossSince(orUnknown(restoredTo(result)))
	later := result.Later
	if later == nil {
		return &backupv1.Loss{Summary: accept, Accept: accept}
	}
	counted := metav1.NewTime(later.Reached.Truncate(time.Second))
	loss := &backupv1.Loss{Accept: accept, Transactions: &later.Transactions, CountedTo: &counted}
	if later.First == nil {
		loss.Summary = fmt.Sprintf("what was committed since %s", format(later.Reached))
		return loss
	}
	since := metav1.NewTime(later.First.Truncate(time.Second))
	loss.Since = &since
	loss.Summary = fmt.Sprintf("%d transactions since %s, and what was committed since %s", later.Transactions, format(*later.First), format(later.Reached))
	return loss
}

// restoredTo returns the time of the last transaction in the restored database, from the archive. Without an archive,
// it returns the start of the backup, from the backup's ID.
func restoredTo(result *contract.Result) *time.Time {
	if result.RestoredTo != nil {
		return result.RestoredTo
	}
	const layout = "20060102T150405Z"
	if len(result.ID) < len(layout) {
		return nil
	}
	began, err := time.Parse(layout, result.ID[:len(layout)])
	if err != nil {
		return nil
	}
	return &began
}

func orUnknown(at *time.Time) string {
	if at == nil {
		return "the backup"
	}
	return format(*at)
}

func format(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// Status writes the observation to the status of a DataRestore. It does not change a final status.
func (*DataRestores) Status(r *backupv1.DataRestore, seen reconcile.Seen[DataRestoreObservation], now metav1.Time) {
	s := &r.Status
	s.ObservedGeneration = seen.Generation
	if isFinalRestore(s.Phase) {
		return
	}
	if s.Phase == "" {
		s.Phase = backupv1.PhasePending
	}
	stalled := false
	switch {
	case seen.Deleting:
		s.Reason, s.Message = backupv1.ReasonDeleting, "being deleted, with its Job; the running database and the store are not changed"
	case seen.Failure != nil:
		s.Reason, s.Message, stalled = seen.Failure.Reason, seen.Failure.Message, seen.Failure.Stalled
	case seen.Observed != nil:
		v := judgeRestore(r, *seen.Observed)
		if v.Reason == "" {
			v.Reason, v.Message = backupv1.ReasonRunning, "the volume and the Job are being made"
		}
		s.Phase, s.Reason, s.Message = v.Phase, v.Reason, v.Message
		stalled = v.Phase == backupv1.PhaseFailed || v.Phase == backupv1.PhasePending && v.Reason != backupv1.ReasonRunning && v.Reason != backupv1.ReasonSourceNotFound
		fillRestore(r, *seen.Observed)
	}
	if isFinalRestore(s.Phase) && s.CompletedAt == nil {
		s.CompletedAt = &now
	}
	conditions(&s.Conditions, s.ObservedGeneration, s.Phase == backupv1.PhasePrepared, stalled, s.Reason, s.Message, now)
}

// fillRestore copies the states of the claim and the Job, and the report of the Job, to the status.
func fillRestore(r *backupv1.DataRestore, obs DataRestoreObservation) {
	s := &r.Status
	if obs.Owned && s.ClaimUID == "" {
		s.Claim, s.ClaimUID = obs.Claim.Name, string(obs.Claim.UID)
	}
	j := obs.Job
	if j == nil {
		return
	}
	s.Job, s.StartedAt = j.UID, &j.Created
	if v := j.Validated; v != nil && v.OK {
		s.ID, s.Bytes, s.ServerVersion, s.Warnings = v.ID, v.Bytes, v.Server, v.Warnings
	}
	if j.Done {
		s.CompletedAt = j.Ended
	}
	result := j.Result
	if !j.HasSucceeded() {
		return
	}
	s.ID, s.Bytes, s.Tables, s.Rows, s.Transactions = result.ID, result.Bytes, tablesOf(result), result.Rows, result.Transactions
	s.ServerVersion, s.Warnings, s.Duration, s.Loses = result.Server, result.Warnings, durationOf(result), lossOf(result)
	if to := restoredTo(result); to != nil {
		at := metav1.NewTime(to.Truncate(time.Second))
		s.RestoredTo = &at
	}
	if p := positionOf(result); p != nil {
		s.Position = p
	}
}

// Summary returns the summary of a DataRestore's status.
func (*DataRestores) Summary(r *backupv1.DataRestore) reconcile.Summary {
	s := &r.Status
	ready := s.Phase == backupv1.PhasePrepared
	summary := reconcile.Summary{
		Phase: string(s.Phase), Generation: s.ObservedGeneration, Ready: ready, New: !ready,
		ReadyText: s.Message, Urgent: true, Conditions: s.Conditions,
		Parts: []metrics.Part{{Name: "job", Ready: ready}},
	}
	if meta.IsStatusConditionTrue(s.Conditions, backupv1.ConditionStalled) {
		summary.Problem, summary.ProblemReason, summary.ProblemField = s.Message, s.Reason, "status.conditions"
	}
	return summary
}
