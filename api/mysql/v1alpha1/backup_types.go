// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
)

// Backup configures the backups of a database, their checks, and the archive of its transactions.
//
// +kubebuilder:validation:XValidation:rule="!has(self.verify) || !has(self.encryption) || has(self.verify.identitySecret)",fieldPath=".verify.identitySecret",message="must be set where encryption is: a check has to open the backup"
type Backup struct {
	backupv1.ClusterBackup `json:",inline"`

	// pointInTime archives all transactions, so that each moment from a backup on can be restored. Default: there is no archive.
	// +kubebuilder:example=`{interval: 30s}`
	// +optional
	// +nullable
	PointInTime *PointInTime `json:"pointInTime,omitempty"`

	// verify restores the newest backup, and what was archived since, to a volume that is thrown away, and checks it. Default: backups are not
	// checked.
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

// RestoreFrom selects the backup that a new database is made of, and the moment up to which the archive is replayed behind it.
type RestoreFrom struct {
	backupv1.ClusterRestore `json:",inline"`

	// toTime is the moment up to which the archive is replayed, or latest. Without an ID in backup, it begins with the newest backup before that.
	// Default: the moment of the backup.
	// +kubebuilder:validation:MaxLength=35
	// +kubebuilder:validation:Pattern=`^(latest|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2}))$`
	// +kubebuilder:example=`"2026-01-02T15:30:00Z"`
	// +optional
	// +nullable
	ToTime string `json:"toTime,omitempty"`
}

// BackupStatus describes the backups of a database. Times change with a backup or a check, and never go back.
type BackupStatus struct {
	backupv1.ClusterBackupStatus `json:",inline"`

	// lastVerified is the time when the last check ended that found a backup good.
	// +kubebuilder:example=`"2026-01-02T15:04:05Z"`
	// +optional
	LastVerified *metav1.Time `json:"lastVerified,omitempty"`

	// verifiedID is the ID of that backup.
	// +kubebuilder:example=`20260102T150405Z-0a1b2c3d`
	// +optional
	VerifiedID string `json:"verifiedID,omitempty"`

	// since is the time when the first backup of members that were one server of a DataService ended. Moments before it are in the backups of
	// that server only.
	// +kubebuilder:example=`"2026-01-02T15:04:05Z"`
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}
