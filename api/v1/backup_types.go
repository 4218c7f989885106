// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"

// Backup configures the backups of a database: their store and schedule.
//
// +kubebuilder:validation:XValidation:rule="!has(self.verify) || !has(self.encryption) || has(self.verify.identitySecret)",fieldPath=".verify.identitySecret",message="must be set if encryption is set: a check has to open the backup"
type Backup struct {
	// destination is the bucket or the volume that holds the backups.
	// +kubebuilder:example=`{claim: {name: backups}}`
	Destination backupv1.BackupDestination `json:"destination"`

	// encryption has the public keys with which backups are encrypted. Default: backups are not encrypted.
	// +kubebuilder:example=`{recipients: [age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p]}`
	// +optional
	// +nullable
	Encryption *backupv1.BackupEncryption `json:"encryption,omitempty"`

	// schedule of backups, in the format of cron. Default: none, and only a DataBackup makes a backup.
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:Pattern=`^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|[0-9A-Za-z*/,?-]+( +[0-9A-Za-z*/,?-]+){4})$`
	// +kubebuilder:example=`"30 4 * * *"`
	// +optional
	// +nullable
	Schedule string `json:"schedule,omitempty"`

	// timeZone of the schedule, such as Europe/Berlin. Default: the time zone of the cluster.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z][A-Za-z0-9_+-]*)*$`
	// +kubebuilder:example=`Etc/UTC`
	// +optional
	// +nullable
	TimeZone string `json:"timeZone,omitempty"`

	// retention selects the backups that are kept.
	// +kubebuilder:default={}
	// +kubebuilder:example=`{keep: 14, keepFor: 720h, atLeast: 3}`
	// +optional
	Retention backupv1.BackupRetention `json:"retention,omitempty"`

	// pointInTime archives the server's binary log, so that any point in time can be
	// restored. Declaring pointInTime restarts the server once.
	// +kubebuilder:example=`{interval: 30s, daysOnServer: 3}`
	// +optional
	// +nullable
	PointInTime *PointInTime `json:"pointInTime,omitempty"`

	// verify restores the newest backup to a temporary volume, and checks the restored database. Default: backups are not checked.
	// +kubebuilder:example=`{schedule: "0 5 * * 0"}`
	// +optional
	// +nullable
	Verify *BackupVerify `json:"verify,omitempty"`

	// maxLockWait is the maximum time for which a dump waits for the lock of all tables. Other statements wait during
	// that time.
	// +kubebuilder:default="10s"
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[1-9][0-9]{0,5}(s|m)$`
	// +kubebuilder:example=`30s`
	// +optional
	MaxLockWait string `json:"maxLockWait,omitempty"`

	// method is Dump, or Files (a copy of the data files, which needs MySQL 8.0.17
	// or newer and a temporary volume of storage.size).
	// +kubebuilder:default=Dump
	// +kubebuilder:validation:Enum=Dump;Files
	// +kubebuilder:example=`Files`
	// +optional
	Method string `json:"method,omitempty"`

	// resources (ResourceRequirements) of the pods that make backups. Default: 100m to 1 CPU, and 128Mi to 512Mi of memory (1Gi if method is Files).
	// +kubebuilder:example=`{limits: {memory: 512Mi}}`
	// +optional
	// +nullable
	Resources *Object `json:"resources,omitempty"`

	// podTemplate (PodTemplateSpec) is merged last into all pods of backups, of restores and of the archive.
	// The container that does the work is called backup. The init container called agent copies the agent's program into the pod.
	// +kubebuilder:example=`{spec: {securityContext: {runAsUser: 1000700000}, containers: [{name: backup, env: [{name: HTTPS_PROXY, value: "http://proxy.example.com:3128"}]}]}}`
	// +optional
	// +nullable
	PodTemplate *Object `json:"podTemplate,omitempty"`
}

// PointInTime configures the archive of a database's binary log.
type PointInTime struct {
	// interval is the maximum age of changes that are not in the archive.
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^([5-9]|[1-9][0-9]{1,2})s$`
	// +kubebuilder:example=`30s`
	// +optional
	Interval string `json:"interval,omitempty"`

	// daysOnServer is the time in days for which the server keeps its binary log. An archive
	// that stops for longer has a gap.
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=99
	// +kubebuilder:example=`7`
	// +optional
	DaysOnServer int32 `json:"daysOnServer,omitempty"`
}

// BackupVerify configures the checks of backups.
type BackupVerify struct {
	// schedule of the checks of the newest backup, in the format of cron.
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:Pattern=`^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|[0-9A-Za-z*/,?-]+( +[0-9A-Za-z*/,?-]+){4})$`
	// +kubebuilder:example=`"0 5 * * 0"`
	Schedule string `json:"schedule"`

	// identitySecret names a Secret of this namespace whose key identities has a private key that opens the backups.
	// +kubebuilder:example=`{name: age-key}`
	// +optional
	// +nullable
	IdentitySecret *backupv1.SecretName `json:"identitySecret,omitempty"`

	// size of the temporary volume, which must have room for the whole database. Default: the size of the database's
	// volume.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[1-9][0-9]*(\.[0-9]+)?([KMGTPE]i|[kMGTPE])?$`
	// +kubebuilder:example=`50Gi`
	// +optional
	// +nullable
	Size string `json:"size,omitempty"`

	// storageClassName is the class of the temporary volume. Default: the class of the database's volume.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +kubebuilder:example=`standard`
	// +optional
	// +nullable
	StorageClassName string `json:"storageClassName,omitempty"`
}

// RestoreFrom selects the backup from which a new database is made.
type RestoreFrom struct {
	// destination is the bucket or the volume that holds the backup, with the prefix of the database that was backed up.
	// +kubebuilder:example=`{claim: {name: backups}}`
	Destination backupv1.BackupDestination `json:"destination"`

	// backup is the ID of the backup, or latest (the newest backup; with toTime, the newest backup before toTime).
	// +kubebuilder:default=latest
	// +kubebuilder:validation:MaxLength=25
	// +kubebuilder:validation:Pattern=`^(latest|[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8})$`
	// +kubebuilder:example=`20260102T150405Z-0a1b2c3d`
	// +optional
	Backup string `json:"backup,omitempty"`

	// toTime is the point in time up to which the archive is replayed, or latest. Default: the time of the backup.
	// +kubebuilder:validation:MaxLength=35
	// +kubebuilder:validation:Pattern=`^(latest|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2}))$`
	// +kubebuilder:example=`"2026-01-02T15:30:00Z"`
	// +optional
	// +nullable
	ToTime string `json:"toTime,omitempty"`

	// identitySecret names a Secret of this namespace whose key identities has a private key that opens the backup.
	// +kubebuilder:example=`{name: age-key}`
	// +optional
	// +nullable
	IdentitySecret *backupv1.SecretName `json:"identitySecret,omitempty"`
}
