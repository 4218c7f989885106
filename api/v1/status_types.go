// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Phase is one word for the state of a DataService or a component.
type Phase string

// The phases of a DataService. A component has Pending, Creating, Running, Updating,
// Scaling, Degraded, Failed, Hibernating and Hibernated.
const (
	// PhasePending: nothing was created yet; a component may be waiting for other components.
	PhasePending Phase = "Pending"
	// PhaseCreating: components start for the first time.
	PhaseCreating Phase = "Creating"
	// PhaseRunning: every declared component is ready.
	PhaseRunning Phase = "Running"
	// PhaseUpdating: a change of the spec is being rolled out.
	PhaseUpdating Phase = "Updating"
	// PhaseScaling: only numbers of pods are changing.
	PhaseScaling Phase = "Scaling"
	// PhaseDegraded: a component that should be ready is not ready, or does not start.
	PhaseDegraded Phase = "Degraded"
	// PhaseFailed: the operator cannot apply the spec; the message has the reason.
	PhaseFailed Phase = "Failed"
	// PhasePaused: spec.paused is set.
	PhasePaused Phase = "Paused"
	// PhaseHibernating: spec.hibernate is set, and pods are being stopped.
	PhaseHibernating Phase = "Hibernating"
	// PhaseHibernated: spec.hibernate is set, and no pod runs; the data is kept.
	PhaseHibernated Phase = "Hibernated"
	// PhaseTerminating: the resource is being deleted.
	PhaseTerminating Phase = "Terminating"
)

// The conditions of a DataService. Reconciling and Stalled follow kstatus
// (https://github.com/kubernetes-sigs/cli-utils/tree/master/pkg/kstatus): present only while true.
const (
	// ConditionReady is True while every declared component is ready, and the DataService is not failed, being deleted, hibernated or switching
	// its database.
	ConditionReady = "Ready"
	// ConditionProgressing is True while components are being created, updated or removed.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is True when a component does not start, or is no longer ready.
	ConditionDegraded = "Degraded"
	// ConditionPaused is True while spec.paused is set.
	ConditionPaused = "Paused"
	// ConditionOperatorChange is present while a new version of the operator changes running components of an unchanged spec. It is False
	// while the change waits for its turn (--max-rollouts), and then True until every component is ready.
	ConditionOperatorChange = "OperatorChange"
	// ConditionBackupHealthy is True when the last backup succeeded and, where mysql.backup.verify is declared, the last check
	// of a backup found no defect. Only present where mysql.backup is declared.
	ConditionBackupHealthy = "BackupHealthy"
	// ConditionRecoverable is True while the archive is current, so that the latest transactions can be restored. Only
	// present where mysql.backup.pointInTime is declared.
	ConditionRecoverable = "Recoverable"
	// ConditionReconciling is kstatus's name for work in progress.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is kstatus's name for work that only a change by a user or another program can continue.
	ConditionStalled = "Stalled"
)

// ConditionRestored is True while spec.mysql.restoreFrom is set and the restore had warnings. Its message has the first warning.
const ConditionRestored = "Restored"

// ConditionImported is True when the database is a copy of the server in spec.mysql.importFrom. Its message has the progress of the copy.
const ConditionImported = "Imported"

// ConditionDatabaseSwitch reports a switch to the database in spec.mysql.name while another database is in use:
// True during the switch, False while a person has to act. Absent otherwise.
const ConditionDatabaseSwitch = "DatabaseSwitch"

// The reasons that conditions carry.
const (
	ReasonAllReady           = "AllReady"
	ReasonComponentsNotReady = "ComponentsNotReady"
	ReasonComponentFailing   = "ComponentFailing"
	ReasonRollingOut         = "RollingOut"
	ReasonSettled            = "Settled"
	ReasonHealthy            = "Healthy"
	ReasonPaused             = "Paused"
	ReasonNotPaused          = "NotPaused"
	ReasonDeleting           = "Deleting"
	// ReasonHibernating: pods are being stopped because of spec.hibernate.
	ReasonHibernating = "Hibernating"
	// ReasonHibernated: no pod runs because of spec.hibernate.
	ReasonHibernated = "Hibernated"
	// ReasonInvalidSpec: the spec contradicts itself; the message names the field.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonRenderFailed: a chart did not render.
	ReasonRenderFailed = "RenderFailed"
	// ReasonObjectConflict: an object with the name of a planned object exists, and this DataService does not own it.
	ReasonObjectConflict = "ObjectConflict"
	// ReasonApplyFailed: the API server refused an object.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonCredentialsFailed: credentials could not be read or written.
	ReasonCredentialsFailed = "CredentialsFailed"
	// ReasonPruneFailed: an object that is no longer declared could not be removed.
	ReasonPruneFailed = "PruneFailed"
	// ReasonContested: another writer keeps changing a field that the spec owns.
	ReasonContested = "Contested"
	// ReasonNotAdopted: this DataService owns an object that an earlier operator or a person wrote. Nothing is written until the object is
	// deleted or released.
	ReasonNotAdopted = "NotAdopted"
	// ReasonVolumeNotResized: a volume does not have the size in the spec. The operator continues all other work.
	ReasonVolumeNotResized = "VolumeNotResized"
	// ReasonDataLost: the volume of a database has lost its recorded data. The server does not start.
	ReasonDataLost = "DataLost"
	// ReasonVolumeBeingDeleted: the claim of a running database was deleted. Kubernetes removes the claim when the pod ends.
	ReasonVolumeBeingDeleted = "VolumeBeingDeleted"
	// ReasonServerVersionRefused: the image of a database has a server of another release series than the data
	// or the spec. The server does not start.
	ReasonServerVersionRefused = "ServerVersionRefused"
	// ReasonVolumeReplaced: a database has another volume than the planned one.
	ReasonVolumeReplaced = "VolumeReplaced"
	// ReasonVolumeUnreadable: the volume of a database, or the mark on it, cannot be read.
	ReasonVolumeUnreadable = "VolumeUnreadable"
	// ReasonNewerOperator: a newer version of the operator wrote some of the objects.
	ReasonNewerOperator = "NewerOperator"
	// ReasonWaitsForOthers: the operator is already changing the maximum number of DataServices (--max-rollouts).
	ReasonWaitsForOthers = "WaitsForOthers"
	// ReasonStopped: a DataService has been Degraded since the operator changed it, so the operator changes no further one.
	ReasonStopped = "Stopped"
	// ReasonBackupSucceeded: the last backup succeeded.
	ReasonBackupSucceeded = "BackupSucceeded"
	// ReasonVerified: the last backup succeeded, and the last check of a backup found no defect.
	ReasonVerified = "Verified"
	// ReasonNoBackup: no backup exists yet, or the archive applies to no backup.
	ReasonNoBackup = "NoBackup"
	// ReasonNotVerified: no backup was checked yet.
	ReasonNotVerified = "NotVerified"
	// ReasonBackupFailed: the last backup failed, and its pod reported no reason.
	ReasonBackupFailed = "BackupFailed"
	// ReasonVerificationFailed: the last check of a backup failed, and its pod reported no reason.
	ReasonVerificationFailed = "VerificationFailed"
	// ReasonBackupOverdue: the last backup is older than the schedule allows.
	ReasonBackupOverdue = "BackupOverdue"
	// ReasonCheckOverdue: the last check of a backup is older than the schedule of checks allows.
	ReasonCheckOverdue = "CheckOverdue"
	// ReasonArchiveUnusable: the last check found no defect in a backup, but could not replay the archive after the backup.
	ReasonArchiveUnusable = "ArchiveUnusable"
	// ReasonArchived: the archive is current, and applies to a backup.
	ReasonArchived = "Archived"
	// ReasonBackupWarned: the last backup, or the restore that created the database, has warnings.
	ReasonBackupWarned = "BackupWarned"
	// ReasonImported: the database is a copy of the server in spec.mysql.importFrom.
	ReasonImported = "Imported"
	// ReasonImporting: the server is being copied.
	ReasonImporting = "Importing"
	// ReasonImportFollowing: the copy receives the server's changes until importFrom.cutOver.
	ReasonImportFollowing = "ImportFollowing"
	// ReasonImportWaiting: the server has no usable log, so the copy waits for spec.mysql.importFrom.cutOver.
	ReasonImportWaiting = "ImportWaiting"
	// ReasonImportNotRunning: the copy of the server is incomplete, and no pod works on it.
	ReasonImportNotRunning = "ImportNotRunning"
	// ReasonArchiveStopped: the database and its archive are stopped.
	ReasonArchiveStopped = "ArchiveStopped"
	// ReasonNotPrepared: no DataRestore has prepared the database in the spec. The former database stays in use.
	ReasonNotPrepared = "NotPrepared"
	// ReasonNotRetained: a switch to another database needs volumes that outlive the DataService.
	ReasonNotRetained = "NotRetained"
	// ReasonLossNotAccepted: spec.mysql.acceptLoss does not repeat the text of the loss that a switch to another database causes.
	ReasonLossNotAccepted = "LossNotAccepted"
	// ReasonStopping: the pods that use the database are being stopped, to switch to another database.
	ReasonStopping = "Stopping"
	// ReasonSwitching: the former database stops, and the new database replaces it.
	ReasonSwitching = "Switching"
	// ReasonStarting: the new database starts first, and then the pods that use it.
	ReasonStarting = "Starting"
	// ReasonArchiveNotReady: the archive is starting, or is not current.
	ReasonArchiveNotReady = "ArchiveNotReady"
)

// The reasons of events of type Normal. A Warning has the reason of the condition Degraded.
const (
	// EventReady: all components are ready.
	EventReady = "Ready"
	// EventComponentCreated: the workload of a component was created.
	EventComponentCreated = "ComponentCreated"
	// EventComponentUpdated: an object was updated because the spec or the operator changed.
	EventComponentUpdated = "ComponentUpdated"
	// EventComponentReplaced: an object was deleted to be created again.
	EventComponentReplaced = "ComponentReplaced"
	// EventDriftCorrected: an object that had been changed or deleted was restored.
	EventDriftCorrected = "DriftCorrected"
	// EventPruned: an object that is no longer declared was deleted.
	EventPruned = "Pruned"
)

// DataServiceStatus is the last observed state of the platform.
type DataServiceStatus struct {
	// observedGeneration is the generation of the spec that this status describes.
	// +kubebuilder:example=`3`
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase sums up the DataService: Pending, Creating, Running, Updating, Scaling, Degraded, Failed,
	// Paused, Hibernating, Hibernated or Terminating.
	// +kubebuilder:example=`Running`
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// ready counts the components that are ready, of those declared: 7/12.
	// +kubebuilder:example=`7/12`
	// +optional
	Ready string `json:"ready,omitempty"`

	// message lists the components in their order, those in progress in brackets
	// (mysql->uuc->[eureka]->auth), or names the problem: component, pod and reason.
	// +kubebuilder:example=`mysql->uuc->[eureka]->auth`
	// +optional
	Message string `json:"message,omitempty"`

	// conditions are Ready, Progressing, Degraded and Paused. Reconciling and Stalled are present only while true. BackupHealthy
	// is present with mysql.backup, Recoverable with mysql.backup.pointInTime, and DatabaseSwitch while mysql.name is not the
	// database in use.
	// +kubebuilder:example=`[{type: Ready, status: "True", reason: AllReady}]`
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// history has the latest generation whose spec was stored, and the latest that was ready. Absent until the spec
	// changes under an operator of version 0.3.0 or newer.
	// +kubebuilder:example=`{generation: 7, readyGeneration: 6}`
	// +optional
	History *History `json:"history,omitempty"`

	// backup describes the backups of mysql. Absent if no backups are declared.
	// +kubebuilder:example=`{lastSuccessful: "2026-01-02T02:31:10Z", lastID: 20260102T023001Z-0a1b2c3d}`
	// +optional
	Backup *BackupStatus `json:"backup,omitempty"`

	// components are the declared components in their order.
	// +kubebuilder:example=`[{name: mysql, kind: StatefulSet, phase: Running, ready: 1, desired: 1}]`
	// +listType=map
	// +listMapKey=name
	// +optional
	Components []ComponentStatus `json:"components,omitempty"`
}

// BackupStatus is the last observed state of a database's backups. The store is authoritative.
type BackupStatus struct {
	// lastSuccessful is the time when the newest backup was complete in the store.
	// +kubebuilder:example=`"2026-01-02T02:31:10Z"`
	// +optional
	LastSuccessful *metav1.Time `json:"lastSuccessful,omitempty"`

	// lastID is the name of the newest backup in the store.
	// +kubebuilder:example=`20260102T023001Z-0a1b2c3d`
	// +optional
	LastID string `json:"lastID,omitempty"`

	// warnings of the newest backup. Each names data that a restore will lack. They have at most 4 KiB: long
	// warnings are shortened, and the last one counts the omitted ones.
	// +kubebuilder:example=`["table a.b is MyISAM"]`
	// +listType=atomic
	// +optional
	Warnings []string `json:"warnings,omitempty"`

	// lastVerified is the time of the last successful check of a backup.
	// +kubebuilder:example=`"2026-01-02T05:04:00Z"`
	// +optional
	LastVerified *metav1.Time `json:"lastVerified,omitempty"`

	// verifiedID is the name of the last successfully checked backup in the store.
	// +kubebuilder:example=`20260102T023001Z-0a1b2c3d`
	// +optional
	VerifiedID string `json:"verifiedID,omitempty"`
}

// History has the generations of the specs that ControllerRevisions hold.
type History struct {
	// generation is the latest generation whose spec was accepted and stored.
	// +kubebuilder:example=`7`
	// +optional
	Generation int64 `json:"generation,omitempty"`

	// readyGeneration is the latest generation in which every declared component was ready.
	// +kubebuilder:example=`6`
	// +optional
	ReadyGeneration int64 `json:"readyGeneration,omitempty"`
}
