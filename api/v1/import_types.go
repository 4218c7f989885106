// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"

// The names of the original operator's database, which `kubectl dataservice adopt` copies: its Service, and the suffix of the Secret with its
// account.
const (
	OriginalMySQL       = "mysql-dataservice"
	OriginalMySQLSecret = "-original-mysql"
)

// ImportFrom selects a running server to copy.
type ImportFrom struct {
	// host is the server's name or address.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([A-Za-z0-9.:-]*[A-Za-z0-9])?$`
	// +kubebuilder:example=`old-db.example.com`
	Host string `json:"host"`

	// port of the server.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:default=3306
	// +kubebuilder:example=`3307`
	// +optional
	Port int32 `json:"port,omitempty"`

	// credentialsSecret names a Secret with the keys username and password.
	// +kubebuilder:example=`{name: old-db}`
	CredentialsSecret backupv1.SecretName `json:"credentialsSecret"`

	// databases to copy. Default: all except system databases.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z0-9_-]+$`
	// +kubebuilder:example=`[shop]`
	// +listType=set
	// +optional
	// +nullable
	Databases []string `json:"databases,omitempty"`

	// caSecret names a Secret whose key ca.crt has the authority that signed the server's certificate. Default: the certificate is not verified.
	// +kubebuilder:example=`{name: old-db-ca}`
	// +optional
	// +nullable
	CASecret *backupv1.SecretName `json:"caSecret,omitempty"`

	// cutOver ends the import: services start if the copy equals the server. Stop all writes to the server first.
	// Default: the copy keeps receiving the server's changes.
	// +kubebuilder:example=`true`
	// +optional
	// +nullable
	CutOver bool `json:"cutOver,omitempty"`
}
