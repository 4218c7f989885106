// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
)

// Option is the value of an option of mysqld, as in my.cnf: one line.
//
// +kubebuilder:validation:MaxLength=1024
// +kubebuilder:validation:Pattern=`^[^\r\n]*$`
type Option string

// DatabaseName is the name of a database.
//
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_]+$`
// +kubebuilder:validation:XValidation:rule="!(self in ['mysql', 'sys', 'information_schema', 'performance_schema', 'd3os_member'])",message="must not be a database of MySQL's or the operator's own"
type DatabaseName string

// User is an account of a database.
type User struct {
	// name of the account.
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_]+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self != 'root' && !self.startsWith('d3os_')",message="must not be an account of MySQL's or the operator's own"
	// +kubebuilder:example=`reporter`
	Name string `json:"name"`

	// databases on which the account has all rights.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:example=`[shop]`
	// +listType=set
	// +optional
	// +nullable
	Databases []DatabaseName `json:"databases,omitempty"`
}

// Replication configures which member may be the primary, and when.
type Replication struct {
	// whenAlone is Write (the operator records that no copy exists, and then the primary accepts writes; no other member can be
	// promoted until a copy has caught up) or Block (commits wait until a copy acknowledges).
	// +kubebuilder:default=Write
	// +kubebuilder:validation:Enum=Write;Block
	// +kubebuilder:example=`Block`
	// +optional
	WhenAlone WhenAlone `json:"whenAlone,omitempty"`

	// failover is Automatic (the operator replaces a lost primary when the replacement provably loses nothing) or Manual (the
	// operator replaces a lost primary when primary names another member).
	// +kubebuilder:default=Automatic
	// +kubebuilder:validation:Enum=Automatic;Manual
	// +kubebuilder:example=`Manual`
	// +optional
	Failover Failover `json:"failover,omitempty"`

	// primary is the ordinal of the member that should be the primary. The operator switches to this member when the switch is
	// safe, also after a failover. Default: any member.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4
	// +kubebuilder:example=`1`
	// +optional
	// +nullable
	Primary *int32 `json:"primary,omitempty"`

	// maxLag is the maximum delay of a replica, in whole seconds. A replica with a longer delay does not acknowledge
	// transactions, and the Service for reads excludes it.
	// +kubebuilder:default="10s"
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[1-9][0-9]*(s|m|h)$`
	// +kubebuilder:example=`30s`
	// +optional
	MaxLag string `json:"maxLag,omitempty"`

	// acceptLoss consents to continue with a remaining copy when no copy has all acknowledged transactions. It repeats
	// status.lossToken, or a token in status.notes if no copy has all transactions of the others. Each loss has a new token.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9._-]+$`
	// +kubebuilder:example=`4-17-3e11fa47`
	// +optional
	// +nullable
	AcceptLoss string `json:"acceptLoss,omitempty"`
}

// WhenAlone is the behaviour of a primary without a copy.
type WhenAlone string

// The behaviours of a primary without a copy.
const (
	WhenAloneWrite WhenAlone = "Write"
	WhenAloneBlock WhenAlone = "Block"
)

// Failover selects whether the operator or a person decides that a lost primary is replaced.
type Failover string

// The kinds of failover.
const (
	FailoverAutomatic Failover = "Automatic"
	FailoverManual    Failover = "Manual"
)

// Storage is the volume of each member. The volume is kept when the member or the database is removed.
//
// +kubebuilder:validation:XValidation:rule="(has(self.storageClassName) ? self.storageClassName : \"\") == (has(oldSelf.storageClassName) ? oldSelf.storageClassName : \"\")",fieldPath=".storageClassName",message="may not be changed: a volume stays in its class"
// +kubebuilder:validation:XValidation:rule="!has(self.autoGrow) || !has(self.size) || !isQuantity(string(self.size)) || !isQuantity(string(self.autoGrow.limit)) || !quantity(string(self.autoGrow.limit)).isLessThan(quantity(string(self.size)))",fieldPath=".autoGrow",message="limit must not be below size: a volume never shrinks"
type Storage struct {
	// size of each volume. It can grow if the storage class can expand volumes; it may not shrink. A member whose
	// data is copied again needs room for two copies of the data.
	// +kubebuilder:default="10Gi"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).isGreaterThan(quantity('0'))",message="size must be a quantity above zero, such as 10Gi"
	// +kubebuilder:validation:XValidation:rule="!isQuantity(string(self)) || !isQuantity(string(oldSelf)) || !quantity(string(self)).isLessThan(quantity(string(oldSelf)))",message="size may not shrink: volumes cannot"
	// +kubebuilder:example=`50Gi`
	// +optional
	Size *resource.Quantity `json:"size,omitempty"`

	// storageClassName is the storage class of the volumes. Default: the cluster's default class.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +kubebuilder:example=`fast`
	// +optional
	// +nullable
	StorageClassName string `json:"storageClassName,omitempty"`

	// autoGrow grows nearly full volumes, even while the server cannot run. The storage class must allow expansion. A
	// container in each pod reports the use of its volume. Default: volumes grow only when size grows.
	// +kubebuilder:example=`{limit: 100Gi}`
	// +optional
	// +nullable
	AutoGrow *backupv1.AutoGrow `json:"autoGrow,omitempty"`
}

// Service configures the Service of the primary.
type Service struct {
	// type of the Service.
	// +kubebuilder:default=ClusterIP
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	// +kubebuilder:example=`LoadBalancer`
	// +optional
	Type ServiceType `json:"type,omitempty"`

	// annotations are additional annotations of the Service, for example for a load balancer.
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:example=`{service.beta.kubernetes.io/aws-load-balancer-internal: "true"}`
	// +optional
	// +nullable
	Annotations map[string]string `json:"annotations,omitempty"`
}

// ServiceType is the type of a Service.
type ServiceType string

// NetworkPolicy limits the peers that may connect as clients.
type NetworkPolicy struct {
	// enabled lets only the database's own pods, the operator and the peers in allowFrom connect to the port for clients.
	// While enabled is false, every pod may connect.
	// +kubebuilder:default=false
	// +kubebuilder:example=`true`
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// allowFrom lists further peers (NetworkPolicyPeer) that may connect, such as the namespaces of clients.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:example=`[{namespaceSelector: {matchLabels: {team: data}}}]`
	// +listType=atomic
	// +optional
	// +nullable
	AllowFrom []Object `json:"allowFrom,omitempty"`

	// additionalPorts opens further TCP ports to the admitted peers, such as 15008 of Istio in ambient mode. Only used if enabled
	// is true. Through the port of a mesh, a client can reach every port of the pod, also the port of the agents: see
	// docs/services.md.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=65535
	// +kubebuilder:validation:XValidation:rule="!(3307 in self)",message="3307 is for the database's own pods and the operator alone"
	// +kubebuilder:example=`[15008]`
	// +listType=set
	// +optional
	// +nullable
	AdditionalPorts []int32 `json:"additionalPorts,omitempty"`
}
