// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DataRestoreStatus is the last observed state of a restore.
type DataRestoreStatus struct {
	// observedGeneration is the generation of the spec that this status describes. -1 while the operator
	// has not seen the resource.
	// +kubebuilder:default=-1
	// +kubebuilder:example=`1`
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase is Pending, Validating, Building, Replaying, Checking, Prepared or Failed. The last two are final.
	// +kubebuilder:example=`Prepared`
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// reason is one word for the cause of the phase.
	// +kubebuilder:example=`Prepared`
	// +optional
	Reason string `json:"reason,omitempty"`

	// message describes the current work, or the problem and what a person can do.
	// +kubebuilder:example=`claim data-mysql-restored-0 has the database of backup 20260102T150405Z-0a1b2c3d`
	// +optional
	Message string `json:"message,omitempty"`

	// claim is the volume of the restore.
	// +kubebuilder:example=`data-mysql-restored-0`
	// +optional
	Claim string `json:"claim,omitempty"`

	// claimUID is the UID of the claim.
	// +kubebuilder:example=`5f1c2a3b-0000-4000-8000-000000000001`
	// +optional
	ClaimUID string `json:"claimUID,omitempty"`

	// job is the UID of the Job that restores.
	// +kubebuilder:example=`5f1c2a3b-0000-4000-8000-000000000000`
	// +optional
	Job string `json:"job,omitempty"`

	// id is the backup that is restored.
	// +kubebuilder:example=`20260102T150405Z-0a1b2c3d`
	// +optional
	ID string `json:"id,omitempty"`

	// startedAt is the time when the Job was created.
	// +kubebuilder:example=`"2026-01-02T15:04:00Z"`
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`

	// completedAt is the time when the database was restored and checked, or when the restore failed.
	// +kubebuilder:example=`"2026-01-02T15:04:05Z"`
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`

	// duration of the restore.
	// +kubebuilder:example=`3m20s`
	// +optional
	Duration string `json:"duration,omitempty"`

	// bytes is the size of the backup's dump, in bytes before compression.
	// +kubebuilder:example=`73400320`
	// +optional
	Bytes int64 `json:"bytes,omitempty"`

	// tables is the number of tables that were checked.
	// +kubebuilder:example=`42`
	// +optional
	Tables int32 `json:"tables,omitempty"`

	// rows is the number of rows in all tables.
	// +kubebuilder:example=`120000`
	// +optional
	Rows int64 `json:"rows,omitempty"`

	// serverVersion is the version of the server when the backup was made.
	// +kubebuilder:example=`5.7.44`
	// +optional
	ServerVersion string `json:"serverVersion,omitempty"`

	// restoredTo is the time of the last transaction that was restored from the archive. Without an archive, restoredTo is the time when the backup
	// started.
	// +kubebuilder:example=`"2026-01-02T15:29:59Z"`
	// +optional
	RestoredTo *metav1.Time `json:"restoredTo,omitempty"`

	// transactions is the number of transactions that were applied after the backup was loaded.
	// +kubebuilder:example=`1547`
	// +optional
	Transactions int64 `json:"transactions,omitempty"`

	// position is the place in the running server's binary log up to which data was restored. Absent for a server without a binary log.
	// +kubebuilder:example=`{file: binlog.000042, offset: 1547}`
	// +optional
	Position *Position `json:"position,omitempty"`

	// loses describes the data of the running database that the restored database lacks. A switch loses that data.
	// +kubebuilder:example=`{summary: "12 transactions since 2026-01-02T15:30:01Z"}`
	// +optional
	Loses *Loss `json:"loses,omitempty"`

	// warnings are limits of the backup, such as tables that no snapshot covers.
	// +kubebuilder:example=`[table app.log has the engine MyISAM: it is not of the same point in time as the other tables]`
	// +listType=atomic
	// +optional
	Warnings []string `json:"warnings,omitempty"`

	// conditions are Ready, Reconciling and Stalled. Reconciling and Stalled are present only while true.
	// +kubebuilder:example=`[{type: Ready, status: "True", reason: Prepared}]`
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Loss describes the data that was committed in the running database after the point in time to which the backup was restored.
type Loss struct {
	// summary describes the loss in a few words. Transactions after countedTo are also lost.
	// +kubebuilder:example=`12 transactions since 2026-01-02T15:30:01Z`
	Summary string `json:"summary"`

	// accept is the text that spec.mysql.acceptLoss of the DataService has to repeat for a switch. The text has no end time, because all
	// transactions until the switch are lost.
	// +kubebuilder:example=`everything since 2026-01-02T15:29:59Z`
	// +optional
	Accept string `json:"accept,omitempty"`

	// transactions is the number of lost transactions in the archive. Absent without an archive.
	// +kubebuilder:example=`12`
	// +optional
	Transactions *int64 `json:"transactions,omitempty"`

	// since is the time when the first lost transaction was committed. Absent without a lost transaction: see countedTo.
	// +kubebuilder:example=`"2026-01-02T15:30:01Z"`
	// +optional
	Since *metav1.Time `json:"since,omitempty"`

	// countedTo is the server's time at the end of the count.
	// +kubebuilder:example=`"2026-01-02T16:00:00Z"`
	// +optional
	CountedTo *metav1.Time `json:"countedTo,omitempty"`
}
