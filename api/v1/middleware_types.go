// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Middleware is a database, registry or login centre that services need.
//
// +kubebuilder:validation:XValidation:rule="!has(self.kind) || self.kind == 0 || self.kind == 1 || self.kind == 2 || self.kind == 3 || self.kind == 'Deployment' || self.kind == 'StatefulSet' || self.kind == 'DaemonSet' || self.kind == 'ThirdParty'",fieldPath=".kind",message="kind must be Deployment (or 0), StatefulSet (1), DaemonSet (2) or ThirdParty (3)"
// +kubebuilder:validation:XValidation:rule="!has(self.kind) || !(self.kind == 3 || self.kind == 'ThirdParty') || has(self.thirdParty)",fieldPath=".thirdParty",reason=FieldValueRequired,message="kind ThirdParty needs the thirdParty block with the url of the middleware"
// +kubebuilder:validation:XValidation:rule="!has(self.version) || !has(self.image)",fieldPath=".version",message="give either image or version"
type Middleware struct {
	ObjectName `json:",inline"`
	Workload   `json:",inline"`

	// Kind is Deployment (or 0), StatefulSet (1), DaemonSet (2), or ThirdParty (3) for what runs
	// elsewhere. Default: mysql StatefulSet, eureka Deployment (several: StatefulSet), uuc ThirdParty.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:example=`StatefulSet`
	// +optional
	// +nullable
	Kind *intstr.IntOrString `json:"kind,omitempty"`

	// Version is the tag of the image that the operator ships with. Default: its own.
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`
	// +kubebuilder:example=`v20240101`
	// +optional
	// +nullable
	Version string `json:"version,omitempty"`

	// ThirdParty says where middleware of kind ThirdParty runs. Other kinds ignore it.
	// +kubebuilder:example=`{url: https://login.example.com}`
	// +optional
	// +nullable
	ThirdParty *ThirdParty `json:"thirdParty,omitempty"`
}

// ThirdParty is middleware that runs outside the platform. The operator gives it the
// component's name in the cluster and a probe pod whose readiness is its health.
//
// +kubebuilder:validation:XValidation:rule="!has(self.secretRef) || !(has(self.username) || has(self.password))",message="give either secretRef or username and password, not both"
type ThirdParty struct {
	// URL is where it is: mysql://host:port, or http:// or https:// for the others.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^(mysql|https?)://([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?$`
	// +kubebuilder:example=`mysql://db.example.com:3306`
	URL string `json:"url"`

	// CheckCMD is a shell command that succeeds while it is well. Default: a request to the url.
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:example=`mysqladmin ping -h db.example.com`
	// +optional
	// +nullable
	CheckCMD string `json:"checkCMD,omitempty"`

	// Username of the services at mysql; prefer secretRef.
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:example=`dataservice`
	// +optional
	// +nullable
	Username string `json:"username,omitempty"`

	// Password of username, plain to all readers; prefer secretRef.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:example=`secret`
	// +optional
	// +nullable
	Password string `json:"password,omitempty"`

	// SecretRef names a Secret with the keys username and password, for mysql.
	// +kubebuilder:example=`{name: database}`
	// +optional
	// +nullable
	SecretRef *ObjectReference `json:"secretRef,omitempty"`

	// Custom is kept for compatibility; nothing reads it.
	// +kubebuilder:example=`{note: old}`
	// +optional
	// +nullable
	Custom map[string]string `json:"custom,omitempty"`
}

// MySQL is the relational database.
//
// +kubebuilder:validation:XValidation:rule="!has(self.replica) || self.replica <= 1",fieldPath=".replica",message="mysql runs as one pod: several would be separate databases behind one address"
// +kubebuilder:validation:XValidation:rule="!has(self.thirdParty) || self.thirdParty.url.matches('^mysql://[^/]+/?$')",fieldPath=".thirdParty.url",message="the url of mysql must be mysql://host:port, without the name of a schema"
type MySQL struct {
	Middleware `json:",inline"`

	// Storage is the volume that holds the data of a StatefulSet or Deployment.
	// +kubebuilder:default={}
	// +kubebuilder:example=`{size: 50Gi}`
	// +optional
	Storage Storage `json:"storage,omitempty"`

	// InitScripts name ConfigMaps with .sql or .sh files, which run in the order of their file
	// names, after the product's schemas, once, on an empty volume.
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:example=`[{name: more-tables}]`
	// +listType=map
	// +listMapKey=name
	// +optional
	// +nullable
	InitScripts []ObjectReference `json:"initScripts,omitempty"`

	// CredentialsSecret names a Secret of this namespace with the keys root-password, username and
	// password, which the data is created with. Default: one that the operator generates and keeps.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +kubebuilder:example=`database-account`
	// +optional
	// +nullable
	CredentialsSecret string `json:"credentialsSecret,omitempty"`

	// Databases are created beside the product's; they stay when they are taken out. The services'
	// account has all rights on them.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:example=`[reports]`
	// +listType=set
	// +optional
	// +nullable
	Databases []DatabaseName `json:"databases,omitempty"`

	// Users are created beside the services' account. Each finds its password in the Secret
	// <name>-users, under its name. They stay when they are taken out.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:example=`[{name: reporter, databases: [reports]}]`
	// +listType=map
	// +listMapKey=name
	// +optional
	// +nullable
	Users []DatabaseUser `json:"users,omitempty"`
}

// DatabaseName is the name of a database.
//
// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_]+$`
// +kubebuilder:validation:MaxLength=64
type DatabaseName string

// DatabaseUser is an account of the database.
//
// +kubebuilder:validation:XValidation:rule="!(self.name in ['root', 'dataservice'])",fieldPath=".name",message="that account exists already; choose another name"
type DatabaseUser struct {
	// Name of the account.
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_]+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:example=`reporter`
	Name string `json:"name"`

	// Databases that it has all rights on.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:example=`[reports]`
	// +listType=set
	// +optional
	// +nullable
	Databases []DatabaseName `json:"databases,omitempty"`
}

// ObjectReference names an object of this namespace.
type ObjectReference struct {
	// Name of the object.
	// +kubebuilder:default=""
	// +kubebuilder:example=`more-tables`
	// +optional
	Name string `json:"name"`
}

// RetentionPolicy says what becomes of data when its DataService or component goes.
//
// +kubebuilder:validation:Enum=Retain;Delete
type RetentionPolicy string

const (
	// RetentionRetain keeps the volume and the credentials that open it.
	RetentionRetain RetentionPolicy = "Retain"
	// RetentionDelete removes them with the DataService.
	RetentionDelete RetentionPolicy = "Delete"
)

// Storage is a persistent volume.
//
// +kubebuilder:validation:XValidation:rule="!has(self.size) || !has(oldSelf.size) || quantity(string(self.size)).compareTo(quantity(string(oldSelf.size))) >= 0",fieldPath=".size",message="a volume cannot shrink: size must not be smaller than before"
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",fieldPath=".storageClassName",message="storageClassName cannot be changed: a volume stays in its class"
type Storage struct {
	// Size of the volume. It may grow, where the storage class can expand volumes.
	// +kubebuilder:default="10Gi"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).isGreaterThan(quantity('0'))",message="size must be a quantity above zero, such as 10Gi"
	// +kubebuilder:example=`50Gi`
	// +optional
	Size resource.Quantity `json:"size,omitempty"`

	// StorageClassName of the volume. Default: the cluster's default class.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +kubebuilder:example=`fast`
	// +optional
	// +nullable
	StorageClassName string `json:"storageClassName,omitempty"`

	// Retention is Retain (data and credentials outlive the DataService; re-creating it takes
	// them up again) or Delete.
	// +kubebuilder:default=Retain
	// +kubebuilder:example=`Delete`
	// +optional
	Retention RetentionPolicy `json:"retention,omitempty"`
}
