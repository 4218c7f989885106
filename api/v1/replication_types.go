// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// MySQLReplication configures which member of a MySQL database may be the primary, and when.
type MySQLReplication struct {
	// whenAlone is Write (the operator records that no copy exists, and then the primary accepts writes) or Block (commits wait for a copy).
	// +kubebuilder:default=Write
	// +kubebuilder:validation:Enum=Write;Block
	// +kubebuilder:example=`Block`
	// +optional
	WhenAlone string `json:"whenAlone,omitempty"`

	// failover is Automatic (the operator replaces a lost primary when the replacement provably loses nothing) or Manual (the
	// operator replaces a lost primary when primary names another member).
	// +kubebuilder:default=Automatic
	// +kubebuilder:validation:Enum=Automatic;Manual
	// +kubebuilder:example=`Manual`
	// +optional
	Failover string `json:"failover,omitempty"`

	// primary is the ordinal of the member that should be the primary. The operator switches to this member when the switch is safe. Default: any
	// member.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4
	// +kubebuilder:example=`0`
	// +optional
	// +nullable
	Primary *int32 `json:"primary,omitempty"`

	// maxLag is the maximum delay of a replica. A replica with a longer delay does not acknowledge transactions, and the Service for reads excludes
	// it.
	// +kubebuilder:default="10s"
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[1-9][0-9]*(s|m|h)$`
	// +kubebuilder:example=`30s`
	// +optional
	MaxLag string `json:"maxLag,omitempty"`

	// acceptLoss repeats the token in the message of the status. It consents to continue with the best remaining copy when no
	// copy has all acknowledged transactions.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9._-]+$`
	// +kubebuilder:example=`4-17-3e11fa47`
	// +optional
	// +nullable
	AcceptLoss string `json:"acceptLoss,omitempty"`
}

// IsReplicated reports whether mysql is a MySQLCluster. The CRD allows that only for kind StatefulSet.
func (m *MySQL) IsReplicated() bool {
	return m.Replication != nil || m.Replica != nil && *m.Replica > 1
}
