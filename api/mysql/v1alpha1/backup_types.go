// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
)

// Backup configures the backups of a database, their checks, and the archive of its transactions.
//
// +kubebuilder:validation:XValidation:rule="!has(self.verify) || !has(self.encryption) || has(self.verify.identitySecret)",fieldPath=".verify.identitySecret",message="must be set if encryption is set: a check has to open the backup"
type Backup struct {
	backupv1.ClusterBackup `json:",inline"`

	// pointInTime archives all transactions, so that any point in time after a backup can be restored. Default: no archive.
	// +kubebuilder:example=`{interval: 30s}`
	// +optional
	// +nullable
	PointInTime *PointInTime `json:"pointInTime,omitempty"`

	// verify restores the newest backup and the archive after it to a temporary volume, and checks the restored database. Default: backups are
	// not checked.
	// +kubebuilder:example=`{schedule: "0 5 * * 0"}`
	// +optional
	// +nullable
	Verify *BackupVerify `json:"verify,omitempty"`
}

// Template returns podTemplate as JSON; nil without one.
func (b *Backup) Template() []byte {
	if b == nil {
		return nil
	}
	return b.ClusterBackup.Template()
}

// PointInTime configures the archive of a database's transactions.
type PointInTime struct {
	// interval is the maximum age of changes that are not in the archive.
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^([5-9]|[1-9][0-9]{1,2})s$`
	// +kubebuilder:example=`30s`
	// +optional
	Interval string `json:"interval,omitempty"`
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
}

// RestoreFrom selects the backup from which a new database is made, and the point in time up to which the archive is replayed.
type RestoreFrom struct {
	backupv1.ClusterRestore `json:",inline"`

	// toTime is the point in time up to which the archive is replayed, or latest. If backup is latest, the newest backup before toTime is used.
	// Default: the time of the backup.
	// +kubebuilder:validation:MaxLength=35
	// +kubebuilder:validation:Pattern=`^(latest|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2}))$`
	// +kubebuilder:example=`"2026-01-02T15:30:00Z"`
	// +optional
	// +nullable
	ToTime string `json:"toTime,omitempty"`
}

// BackupStatus describes the backups of a database. Its times change with a backup or a check, and never decrease.
type BackupStatus struct {
	backupv1.ClusterBackupStatus `json:",inline"`

	// lastVerified is the time when the last successful check of a backup ended.
	// +kubebuilder:example=`"2026-01-02T15:04:05Z"`
	// +optional
	LastVerified *metav1.Time `json:"lastVerified,omitempty"`

	// verifiedID is the ID of the last successfully checked backup.
	// +kubebuilder:example=`20260102T150405Z-0a1b2c3d`
	// +optional
	VerifiedID string `json:"verifiedID,omitempty"`

	// since is the time when the first backup of the members ended. It is set only if the database was a single server of a DataService
	// before. Earlier points in time can be restored only from the backups of the single server.
	// +kubebuilder:example=`"2026-01-02T15:04:05Z"`
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}
