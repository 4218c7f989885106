// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DataRestore restores a backup to a new volume, next to the running database, and checks the restored database. A
// DataRestore never changes or switches the running database. Without databaseName it is a rehearsal, and its volume
// is deleted with the resource. With databaseName the volume is kept, and a person can switch the DataService to the
// restored database, and back in the same way.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=drs,categories=all
// +kubebuilder:printcolumn:name="Of",type=string,JSONPath=`.spec.of.name`,description="The resource that was backed up"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Backup",type=string,JSONPath=`.status.id`,description="The backup in the store"
// +kubebuilder:printcolumn:name="Restored-To",type=string,JSONPath=`.status.restoredTo`,description="The restored database has all transactions that were committed before this time"
// +kubebuilder:printcolumn:name="Would-Lose",type=string,JSONPath=`.status.loses.summary`,description="The data of the running database that the restored database lacks"
// +kubebuilder:printcolumn:name="Claim",type=string,JSONPath=`.status.claim`,description="The volume with the restored database"
// +kubebuilder:printcolumn:name="Took",type=string,JSONPath=`.status.duration`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 55 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be letters, digits and '-', 55 characters at most: the Job has the same name with '-restore' at its end"
type DataRestore struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec selects the backup to restore.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="may not be changed: a DataRestore is one restore. Create another one"
	// +kubebuilder:example=`{of: {name: platform}, toTime: "2026-01-02T15:30:00Z", databaseName: mysql-restored}`
	Spec DataRestoreSpec `json:"spec"`

	// status is the last observed state of the restore.
	// +kubebuilder:default={}
	// +kubebuilder:example=`{phase: Prepared, id: 20260102T150405Z-0a1b2c3d, claim: data-mysql-restored-0}`
	// +optional
	Status DataRestoreStatus `json:"status,omitempty"`
}

// DataRestoreList is a list of DataRestores.
//
// +kubebuilder:object:root=true
type DataRestoreList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DataRestore `json:"items"`
}

// DataRestoreSpec selects the backup to restore.
//
// +kubebuilder:validation:XValidation:rule="!has(self.toPosition) || !has(self.toTime)",fieldPath=".toPosition",message="may not be set together with toTime: give one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.toPosition) || self.backup != 'latest'",fieldPath=".backup",message="must be the ID of a backup when toPosition is set: a position is valid in one log only"
type DataRestoreSpec struct {
	// of names the data. The store of its backups is in spec.mysql.backup of the DataService.
	// +kubebuilder:example=`{kind: DataService, name: platform, component: mysql}`
	Of Source `json:"of"`

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

	// toPosition is the place in the binary log up to which the archive is replayed, FILE:OFFSET, instead of toTime. If toTime is ambiguous,
	// the message of the restore names the possible positions. backup must be an ID, because a position is valid in one log only.
	// +kubebuilder:validation:MaxLength=280
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][-A-Za-z0-9._]*:[0-9]{1,19}$`
	// +kubebuilder:example=`binlog.000002:1234`
	// +optional
	// +nullable
	ToPosition string `json:"toPosition,omitempty"`

	// databaseName is the value of spec.mysql.name with which a DataService uses the restored database. The volume is the claim
	// data-<databaseName>-0, and is kept when the DataRestore is deleted. No claim of that name may exist. Default: none, a
	// rehearsal; the volume is deleted with the DataRestore.
	// +kubebuilder:validation:MaxLength=44
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:example=`mysql-restored`
	// +optional
	// +nullable
	DatabaseName string `json:"databaseName,omitempty"`

	// image is the image of the server that loads the backup, such as a newer version for a rehearsal of an upgrade.
	// Default: the image of the database.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[^\s]+$`
	// +kubebuilder:example=`registry.example.com/mysql:8.0`
	// +optional
	// +nullable
	Image string `json:"image,omitempty"`

	// storage is the volume to restore to. Default: like the volume of the database.
	// +kubebuilder:example=`{size: 20Gi, storageClassName: fast}`
	// +optional
	// +nullable
	Storage *RestoreStorage `json:"storage,omitempty"`

	// identitySecret names a Secret of this namespace whose key identities has a private key that opens the backup.
	// Default: <name of the database>-identity.
	// +kubebuilder:example=`{name: age-key}`
	// +optional
	// +nullable
	IdentitySecret *SecretName `json:"identitySecret,omitempty"`
}

// RestoreStorage is the volume of a restore.
type RestoreStorage struct {
	// size of the volume. It may be less than the size of the database's volume. Default: the size of the database's volume.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).isGreaterThan(quantity('0'))",message="size must be a quantity above zero, such as 10Gi"
	// +kubebuilder:example=`20Gi`
	// +optional
	// +nullable
	Size *resource.Quantity `json:"size,omitempty"`

	// storageClassName is the class of the volume. Default: the class of the database's volume.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +kubebuilder:example=`fast`
	// +optional
	// +nullable
	StorageClassName string `json:"storageClassName,omitempty"`

	// accessMode is ReadWriteOnce (one node may use the volume) or ReadWriteOncePod (one pod may use the volume; the CSI
	// driver of the class must support this mode). Default: the mode of the database's volume.
	// +kubebuilder:validation:Pattern=`^ReadWriteOnce(Pod)?$`
	// +kubebuilder:example=`ReadWriteOncePod`
	// +optional
	// +nullable
	AccessMode string `json:"accessMode,omitempty"`
}

// SecretName names a Secret of this namespace.
type SecretName struct {
	// name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +kubebuilder:example=`age-key`
	Name string `json:"name"`
}

// The phases of a DataRestore, in addition to Pending and Failed. Prepared and Failed are final.
const (
	// PhaseValidating: the agent checks whether the restore can succeed. Nothing was written.
	PhaseValidating Phase = "Validating"
	// PhaseBuilding: a server loads the backup into the new volume.
	PhaseBuilding Phase = "Building"
	// PhaseReplaying: the server applies the archived transactions that were committed after the backup.
	PhaseReplaying Phase = "Replaying"
	// PhaseChecking: tables, rows and accounts are checked.
	PhaseChecking Phase = "Checking"
	// PhasePrepared: the restored database is on its volume, and no server uses the volume. The status describes the loss that a switch to the
	// restored database causes.
	PhasePrepared Phase = "Prepared"
)

// The reasons of a DataRestore, in addition to those of a DataBackup.
const (
	// ReasonPrepared: the restored database is on its volume.
	ReasonPrepared = "Prepared"
	// ReasonNameInUse: an object with the name spec.databaseName exists already.
	ReasonNameInUse = "NameInUse"
	// ReasonVolumeConflict: a claim with the name of the restore's volume exists, and this restore did not create it.
	ReasonVolumeConflict = "VolumeConflict"
	// ReasonVolumeDeleted: the claim was deleted before the restore ended.
	ReasonVolumeDeleted = "VolumeDeleted"
	// ReasonSizeUnknown: the size is not set, and the database has no volume whose size could be used.
	ReasonSizeUnknown = "SizeUnknown"
)
