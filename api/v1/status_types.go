// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Phase is one word for where a DataService or a component stands.
type Phase string

// The phases of a DataService. A component has Pending, Creating, Running, Updating,
// Scaling, Degraded, Failed, Hibernating and Hibernated.
const (
	// PhasePending: nothing was created yet; a component waits for others.
	PhasePending Phase = "Pending"
	// PhaseCreating: components are coming up for the first time.
	PhaseCreating Phase = "Creating"
	// PhaseRunning: everything declared is ready.
	PhaseRunning Phase = "Running"
	// PhaseUpdating: a change of the spec is being rolled out.
	PhaseUpdating Phase = "Updating"
	// PhaseScaling: only numbers of pods are changing.
	PhaseScaling Phase = "Scaling"
	// PhaseDegraded: something that should be ready is not, or does not come up.
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
	// ConditionReady is True when every declared component is ready as declared.
	ConditionReady = "Ready"
	// ConditionProgressing is True while components are being created, updated or removed.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is True when a component does not come up or stopped being well.
	ConditionDegraded = "Degraded"
	// ConditionPaused is True while spec.paused is set.
	ConditionPaused = "Paused"
	// ConditionOperatorChange is present while a new version of the operator changes running components of an unchanged spec. It is False
	// while the change waits for its turn (--max-rollouts), and then True until every component is ready.
	ConditionOperatorChange = "OperatorChange"
	// ConditionBackupHealthy is True when the last backup succeeded and, where mysql.backup.verify is declared, the last check
	// of one found it good. Only present where mysql.backup is declared.
	ConditionBackupHealthy = "BackupHealthy"
	// ConditionRecoverable is True while the latest moments can be restored. Only present where mysql.backup.pointInTime is
	// declared.
	ConditionRecoverable = "Recoverable"
	// ConditionReconciling is kstatus's name for work in progress.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is kstatus's name for work that cannot go on without a change from outside.
	ConditionStalled = "Stalled"
)

// ConditionRestored is True while spec.mysql.restoreFrom is set and the restore had warnings. Its message has them.
const ConditionRestored = "Restored"

// ConditionImported is True when the database is a copy of the server in spec.mysql.importFrom. Its message has the progress of the copy.
const ConditionImported = "Imported"

// ConditionDatabaseSwitch reports a switch to the database in spec.mysql.name while another one is in use: True
// during the switch, False while a person has to act. Absent otherwise.
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
	// ReasonObjectConflict: an object of that name exists and is not this DataService's.
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
	// ReasonVolumeNotResized: a volume does not have the size in the spec. Everything else goes on.
	ReasonVolumeNotResized = "VolumeNotResized"
	// ReasonDataLost: the volume of a database has lost its recorded data. The server does not start.
	ReasonDataLost = "DataLost"
	// ReasonVolumeBeingDeleted: the claim of a running database was deleted; its volume goes with its pod.
	ReasonVolumeBeingDeleted = "VolumeBeingDeleted"
	// ReasonServerVersionRefused: the image of a database has a server of another release series than its data,
	// or than the spec declares. The server does not start.
	ReasonServerVersionRefused = "ServerVersionRefused"
	// ReasonVolumeReplaced: another volume replaced the volume that was planned for a database.
	ReasonVolumeReplaced = "VolumeReplaced"
	// ReasonVolumeUnreadable: the volume of a database, or the mark on it, cannot be read.
	ReasonVolumeUnreadable = "VolumeUnreadable"
	// ReasonNewerOperator: a newer version of the operator wrote some of the objects.
	ReasonNewerOperator = "NewerOperator"
	// ReasonWaitsForOthers: the operator changes as many other DataServices as it may (--max-rollouts).
	ReasonWaitsForOthers = "WaitsForOthers"
	// ReasonStopped: a DataService has been Degraded since the operator changed it, so the operator changes no further one.
	ReasonStopped = "Stopped"
	// ReasonBackupSucceeded: the last backup succeeded.
	ReasonBackupSucceeded = "BackupSucceeded"
	// ReasonVerified: the last backup succeeded, and the last check of one found it good.
	ReasonVerified = "Verified"
	// ReasonNoBackup: there is no backup yet, or the archive continues none.
	ReasonNoBackup = "NoBackup"
	// ReasonNotVerified: no backup was checked yet.
	ReasonNotVerified = "NotVerified"
	// ReasonBackupFailed: the last backup failed, and its pod reported no reason.
	ReasonBackupFailed = "BackupFailed"
	// ReasonVerificationFailed: the last check of a backup failed, and its pod reported no reason.
	ReasonVerificationFailed = "VerificationFailed"
	// ReasonBackupOverdue: the last backup is older than the schedule allows.
	ReasonBackupOverdue = "BackupOverdue"
	// ReasonCheckOverdue: the same of checks.
	ReasonCheckOverdue = "CheckOverdue"
	// ReasonArchiveUnusable: the last check found a backup good, but could not replay the archive after it.
	ReasonArchiveUnusable = "ArchiveUnusable"
	// ReasonArchived: the archive follows the server, and continues a backup.
	ReasonArchived = "Archived"
	// ReasonBackupWarned: the last backup, or the restore that the database began with, has warnings.
	ReasonBackupWarned = "BackupWarned"
	// ReasonImported: the database is a copy of the server in spec.mysql.importFrom.
	ReasonImported = "Imported"
	// ReasonImporting: the server is being copied.
	ReasonImporting = "Importing"
	// ReasonImportFollowing: the copy follows the server, until spec.mysql.importFrom.cutOver.
	ReasonImportFollowing = "ImportFollowing"
	// ReasonImportWaiting: the server's log cannot be followed, so its copy waits for spec.mysql.importFrom.cutOver.
	ReasonImportWaiting = "ImportWaiting"
	// ReasonImportNotRunning: the server is not copied yet, and no pod copies it.
	ReasonImportNotRunning = "ImportNotRunning"
	// ReasonArchiveStopped: the database is stopped, and the archive with it.
	ReasonArchiveStopped = "ArchiveStopped"
	// ReasonNotPrepared: no DataRestore has prepared the database that the spec names. The former database runs on.
	ReasonNotPrepared = "NotPrepared"
	// ReasonNotRetained: a switch to another database needs volumes that outlive the DataService.
	ReasonNotRetained = "NotRetained"
	// ReasonLossNotAccepted: spec.mysql.acceptLoss does not repeat what a switch to another database loses.
	ReasonLossNotAccepted = "LossNotAccepted"
	// ReasonStopping: the users of the database are being stopped, to switch to another database.
	ReasonStopping = "Stopping"
	// ReasonSwitching: the former database stops, and the other one replaces it.
	ReasonSwitching = "Switching"
	// ReasonStarting: the new database starts, and then its users.
	ReasonStarting = "Starting"
	// ReasonArchiveNotReady: the archive is starting, or does not follow the server.
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

// DataServiceStatus is the platform as the operator last saw it.
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

	// conditions are Ready, Progressing, Degraded and Paused, and while true Reconciling and Stalled; BackupHealthy and
	// Recoverable where mysql.backup and its pointInTime are declared; DatabaseSwitch while mysql.name is not the database in use.
	// +kubebuilder:example=`[{type: Ready, status: "True", reason: AllReady}]`
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// history lists the generations of the spec that the operator has kept and seen ready. Missing until the
	// spec is changed under an operator of version 0.3.0 or newer.
	// +kubebuilder:example=`{generation: 7, readyGeneration: 6}`
	// +optional
	History *History `json:"history,omitempty"`

	// backup describes the backups of mysql. Absent where none are declared.
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

// BackupStatus describes the backups of a database as seen last. The store is the truth.
type BackupStatus struct {
	// lastSuccessful is the time when the newest backup was complete in the store.
	// +kubebuilder:example=`"2026-01-02T02:31:10Z"`
	// +optional
	LastSuccessful *metav1.Time `json:"lastSuccessful,omitempty"`

	// lastID is the name of that backup in the store.
	// +kubebuilder:example=`20260102T023001Z-0a1b2c3d`
	// +optional
	LastID string `json:"lastID,omitempty"`

	// warnings are those of that backup, at most five: what a restore of it will lack.
	// +kubebuilder:example=`["table a.b is MyISAM"]`
	// +listType=atomic
	// +optional
	Warnings []string `json:"warnings,omitempty"`

	// lastVerified is the time of the last successful check of a backup.
	// +kubebuilder:example=`"2026-01-02T05:04:00Z"`
	// +optional
	LastVerified *metav1.Time `json:"lastVerified,omitempty"`

	// verifiedID is the name of that backup in the store.
	// +kubebuilder:example=`20260102T023001Z-0a1b2c3d`
	// +optional
	VerifiedID string `json:"verifiedID,omitempty"`
}

// History is about the ControllerRevisions that hold earlier specs.
type History struct {
	// generation is the latest generation whose spec was accepted and kept.
	// +kubebuilder:example=`7`
	// +optional
	Generation int64 `json:"generation,omitempty"`

	// readyGeneration is the latest generation in which every declared component was ready.
	// +kubebuilder:example=`6`
	// +optional
	ReadyGeneration int64 `json:"readyGeneration,omitempty"`
}
