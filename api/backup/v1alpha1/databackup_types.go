// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DataBackup makes one backup now, by a Job. The store is in spec.mysql.backup of the DataService, or in spec.backup of the EtcdCluster, MySQLCluster
// or RedisCluster. The store holds the backup and its list of contents; this resource is the record of the run. Deleting the resource deletes no
// data: only the retention in the spec deletes backups.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=dbk,categories=all
// +kubebuilder:printcolumn:name="Of",type=string,JSONPath=`.spec.of.name`,description="The resource that was backed up"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="ID",type=string,JSONPath=`.status.id`,description="The backup in the store"
// +kubebuilder:printcolumn:name="Size",type=string,JSONPath=`.status.size`,description="The size of the backup in the store"
// +kubebuilder:printcolumn:name="Tables",type=integer,JSONPath=`.status.tables`
// +kubebuilder:printcolumn:name="Took",type=string,JSONPath=`.status.duration`
// +kubebuilder:printcolumn:name="Completed",type=date,JSONPath=`.status.completedAt`,description="The age of the backup"
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,priority=1
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be letters, digits and '-', 63 characters at most: the Job has the same name"
type DataBackup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec selects the resource to back up.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="may not be changed: a DataBackup is one backup. Create another one"
	// +kubebuilder:example=`{of: {name: platform}}`
	Spec DataBackupSpec `json:"spec"`

	// status is the last observed state of the backup.
	// +kubebuilder:default={}
	// +kubebuilder:example=`{phase: Succeeded, id: 20260102T150405Z-0a1b2c3d, size: 12.4 MiB}`
	// +optional
	Status DataBackupStatus `json:"status,omitempty"`
}

// DataBackupList is a list of DataBackups.
//
// +kubebuilder:object:root=true
type DataBackupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DataBackup `json:"items"`
}

// DataBackupSpec selects the resource to back up.
type DataBackupSpec struct {
	// of names the data.
	// +kubebuilder:example=`{kind: DataService, name: platform, component: mysql}`
	Of BackupSource `json:"of"`
}

// BackupSource names the data of a resource of this namespace.
//
// +kubebuilder:validation:XValidation:rule="!has(self.component) || self.component == {'DataService': 'mysql', 'EtcdCluster': 'etcd', 'MySQLCluster': 'mysql', 'RedisCluster': 'redis'}[self.kind]",fieldPath=".component",message="must be mysql for a DataService and a MySQLCluster, etcd for an EtcdCluster, redis for a RedisCluster. etcd and redis of a DataService are an EtcdCluster and a RedisCluster: name those"
type BackupSource struct {
	// kind of the resource: DataService, EtcdCluster, MySQLCluster or RedisCluster. Default: DataService.
	// +kubebuilder:default=DataService
	// +kubebuilder:validation:Enum=DataService;EtcdCluster;MySQLCluster;RedisCluster
	// +kubebuilder:example=`EtcdCluster`
	// +optional
	Kind string `json:"kind,omitempty"`

	// name of the resource.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:example=`platform`
	Name string `json:"name"`

	// component of the resource that holds the data: mysql of a DataService or a MySQLCluster, etcd of an EtcdCluster, redis of a RedisCluster.
	// Default: the component of the kind.
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^(mysql|etcd|redis)$`
	// +kubebuilder:example=`mysql`
	// +optional
	// +nullable
	Component string `json:"component,omitempty"`
}

// Source names the data of a resource of this namespace.
type Source struct {
	// kind of the resource. Default: DataService.
	// +kubebuilder:default=DataService
	// +kubebuilder:validation:Enum=DataService
	// +kubebuilder:example=`DataService`
	// +optional
	Kind string `json:"kind,omitempty"`

	// name of the resource.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:example=`platform`
	Name string `json:"name"`

	// component of the resource that holds the data. Default: mysql.
	// +kubebuilder:default=mysql
	// +kubebuilder:validation:Enum=mysql
	// +kubebuilder:example=`mysql`
	// +optional
	Component string `json:"component,omitempty"`
}

// Phase is one word for the state of a backup or a restore.
type Phase string

// The phases of a DataBackup.
const (
	// PhasePending: the Job cannot be created yet; the message has the reason.
	PhasePending Phase = "Pending"
	// PhaseRunning: the Job is running.
	PhaseRunning Phase = "Running"
	// PhaseSucceeded: the store holds the backup, including its manifest.
	PhaseSucceeded Phase = "Succeeded"
	// PhaseFailed: there is no backup, or no restored database; the message has the reason. Create another resource to try again.
	PhaseFailed Phase = "Failed"
)

// The conditions of a DataBackup and of a DataRestore. Reconciling and Stalled follow kstatus: present only while true.
const (
	// ConditionReady is True when the store holds the backup, or the volume holds the restored database.
	ConditionReady = "Ready"
	// ConditionReconciling is kstatus's name for work in progress.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is kstatus's name for work that only a change by a user or another program can continue.
	ConditionStalled = "Stalled"
)

// The reasons of conditions, in addition to those of every kind (ApplyFailed ...) and those of the program that makes
// backups (AccessDenied, StoreFull ...), which docs/backup.md lists.
const (
	// ReasonSucceeded: the store holds the backup.
	ReasonSucceeded = "Succeeded"
	// ReasonRunning: the Job is running.
	ReasonRunning = "Running"
	// ReasonSourceNotFound: the resource does not exist, or declares no backup.
	ReasonSourceNotFound = "SourceNotFound"
	// ReasonJobConflict: a Job with the name of the resource's Job exists, but has another owner.
	ReasonJobConflict = "JobConflict"
	// ReasonJobDeleted: the Job was deleted before it ended.
	ReasonJobDeleted = "JobDeleted"
	// ReasonCopied: the resource is a copy of a resource whose run was started before. A restore of the cluster's objects creates such copies.
	ReasonCopied = "Copied"
	// ReasonJobFailed: the Job failed, and its pod reported no reason.
	ReasonJobFailed = "JobFailed"
	// ReasonResultLost: the Job succeeded, but its pod was deleted before the operator read the result.
	ReasonResultLost = "ResultLost"
	// ReasonPodNotStarting: the pod of the Job does not start.
	ReasonPodNotStarting = "PodNotStarting"
	// ReasonJobSuspended: the Job is suspended.
	ReasonJobSuspended = "JobSuspended"
	// ReasonDeleting: the resource is being deleted.
	ReasonDeleting = "Deleting"
)

// DataBackupStatus is the last observed state of a backup.
type DataBackupStatus struct {
	// observedGeneration is the generation of the spec that this status describes. -1 while the operator
	// has not seen the resource.
	// +kubebuilder:default=-1
	// +kubebuilder:example=`1`
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase is Pending, Running, Succeeded or Failed. The last two are final.
	// +kubebuilder:example=`Succeeded`
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// reason is one word for the cause of the phase.
	// +kubebuilder:example=`Succeeded`
	// +optional
	Reason string `json:"reason,omitempty"`

	// message describes the current work, or the problem and what a person can do.
	// +kubebuilder:example=`the store holds backup 20260102T150405Z-0a1b2c3d`
	// +optional
	Message string `json:"message,omitempty"`

	// job is the UID of the Job that makes the backup.
	// +kubebuilder:example=`5f1c2a3b-0000-4000-8000-000000000000`
	// +optional
	Job string `json:"job,omitempty"`

	// id is the name of the backup in the store.
	// +kubebuilder:example=`20260102T150405Z-0a1b2c3d`
	// +optional
	ID string `json:"id,omitempty"`

	// startedAt is the time when the Job was created.
	// +kubebuilder:example=`"2026-01-02T15:04:00Z"`
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`

	// completedAt is the time when the backup was complete in the store, or when it failed.
	// +kubebuilder:example=`"2026-01-02T15:04:05Z"`
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`

	// duration of the backup. A restore takes several times as long.
	// +kubebuilder:example=`5s`
	// +optional
	Duration string `json:"duration,omitempty"`

	// size is storedBytes in a readable form.
	// +kubebuilder:example=`12.4 MiB`
	// +optional
	Size string `json:"size,omitempty"`

	// bytes is the size of the dump, or of the snapshots, in bytes before compression.
	// +kubebuilder:example=`73400320`
	// +optional
	Bytes int64 `json:"bytes,omitempty"`

	// storedBytes is the size of the backup in the store, in bytes.
	// +kubebuilder:example=`13002342`
	// +optional
	StoredBytes int64 `json:"storedBytes,omitempty"`

	// tables is the number of tables in the backup; for a RedisCluster, the number of shards. Absent for an EtcdCluster.
	// +kubebuilder:example=`42`
	// +optional
	Tables int32 `json:"tables,omitempty"`

	// rows is the number of rows of all tables in the backup; for an EtcdCluster or a RedisCluster, the number of keys.
	// +kubebuilder:example=`120000`
	// +optional
	Rows int64 `json:"rows,omitempty"`

	// revision is a revision of etcd. The backup has at least all writes up to this revision, which include every
	// write that was acknowledged before the backup began.
	// +kubebuilder:example=`120034`
	// +optional
	Revision int64 `json:"revision,omitempty"`

	// serverVersion is the version of the server when the backup was made.
	// +kubebuilder:example=`5.7.44`
	// +optional
	ServerVersion string `json:"serverVersion,omitempty"`

	// position is the place in the server's binary log at which the backup was made. Absent for a server without a binary log.
	// +kubebuilder:example=`{file: binlog.000042, offset: 1547}`
	// +optional
	Position *Position `json:"position,omitempty"`

	// warnings are limits of a backup that succeeded, such as tables that no snapshot covers.
	// +kubebuilder:example=`[table app.log has the engine MyISAM: it is not of the same point in time as the other tables]`
	// +listType=atomic
	// +optional
	Warnings []string `json:"warnings,omitempty"`

	// conditions are Ready, Reconciling and Stalled. Reconciling and Stalled are present only while true.
	// +kubebuilder:example=`[{type: Ready, status: "True", reason: Succeeded}]`
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Position is a place in the binary log of a server.
type Position struct {
	// file of the binary log.
	// +kubebuilder:example=`binlog.000042`
	File string `json:"file"`

	// offset within the file.
	// +kubebuilder:example=`1547`
	Offset int64 `json:"offset"`

	// gtid is the set of transactions that the server had executed, in the server's own form. Empty for a server without GTIDs.
	// +kubebuilder:example=`0-1-42`
	// +optional
	GTID string `json:"gtid,omitempty"`
}
