// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Workload is what every component has, whether middleware or service.
type Workload struct {
	// Name is the name of the component's objects. Default: the component's own, such as auth
	// (mysql: mysql-dataservice). Changing it replaces the objects.
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=50
	// +optional
	// +nullable
	Name string `json:"name,omitempty"`

	// Image is the container image. Default: the one that this version of the operator ships with.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._/:@-]*$`
	// +optional
	// +nullable
	Image string `json:"image,omitempty"`

	// Port is the port of the container and of its Service. Default: the product's.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	// +nullable
	Port *int32 `json:"port,omitempty"`

	// NodePort makes the Service a NodePort one, at this port of every node. 0, the default: ClusterIP.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	// +optional
	// +nullable
	NodePort *int32 `json:"nodePort,omitempty"`

	// Replica is the number of pods.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=1
	// +optional
	Replica *int32 `json:"replica,omitempty"`

	// Env are environment variables of the container; they win over the component's own.
	// +kubebuilder:validation:MaxProperties=500
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.matches('^[A-Za-z_.-][A-Za-z0-9_.-]*$'))",message="the name of an environment variable must consist of letters, digits, '_', '-' or '.' and not start with a digit"
	// +optional
	// +nullable
	Env map[string]string `json:"env,omitempty"`

	// Resources are the container's requests and limits. Given, they replace the component's
	// default as a whole.
	// +optional
	// +nullable
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// DependsOn names further components that must be ready before a new revision of this one
	// starts, beside those of the platform's own order.
	// +kubebuilder:validation:MaxItems=16
	// +listType=set
	// +optional
	// +nullable
	DependsOn []ComponentName `json:"dependsOn,omitempty"`
}

// ComponentName is the key of a component in the spec.
//
// +kubebuilder:validation:Enum=mysql;uuc;eureka;api-manager;auth;ds-adapter;es-adapter;trd-adapter;gateway-master;gateway-web;proxy;web
type ComponentName string

// Service is one of the platform's services or its web front end.
type Service struct {
	Workload `json:",inline"`
}

// Middleware is a database, registry or login centre that services need.
//
// +kubebuilder:validation:XValidation:rule="!has(self.kind) || self.kind == 0 || self.kind == 1 || self.kind == 2 || self.kind == 3 || self.kind == 'Deployment' || self.kind == 'StatefulSet' || self.kind == 'DaemonSet' || self.kind == 'ThirdParty'",fieldPath=".kind",message="kind must be Deployment (or 0), StatefulSet (1), DaemonSet (2) or ThirdParty (3)"
// +kubebuilder:validation:XValidation:rule="!has(self.kind) || !(self.kind == 3 || self.kind == 'ThirdParty') || has(self.thirdParty)",fieldPath=".thirdParty",reason=FieldValueRequired,message="kind ThirdParty needs the thirdParty block with the url of the middleware"
type Middleware struct {
	Workload `json:",inline"`

	// Kind is the kind of the workload: Deployment (or 0), StatefulSet (1), DaemonSet (2), or
	// ThirdParty (3) for middleware that runs elsewhere. Default: mysql StatefulSet, eureka
	// Deployment, uuc ThirdParty.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +optional
	// +nullable
	Kind *intstr.IntOrString `json:"kind,omitempty"`

	// ThirdParty says where middleware of kind ThirdParty runs. Other kinds ignore it.
	// +optional
	// +nullable
	ThirdParty *ThirdParty `json:"thirdParty,omitempty"`
}

// ThirdParty is middleware that runs outside the platform. The operator gives it the
// component's name in the cluster and a probe pod whose readiness is its health.
//
// +kubebuilder:validation:XValidation:rule="!has(self.secretRef) || !(has(self.username) || has(self.password))",message="give either secretRef or username and password, not both"
type ThirdParty struct {
	// URL is where it is reached: mysql://host:port for mysql, http:// or https:// for the
	// others; without credentials, query or schema. A trailing slash is ignored.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^(mysql|https?)://([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?$`
	URL string `json:"url"`

	// CheckCMD is a shell command that succeeds while the middleware is well. It runs in the
	// probe pod, in this namespace, never in the operator. Default: a request to the url.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	// +nullable
	CheckCMD string `json:"checkCMD,omitempty"`

	// Username that services log in to mysql with; the others have no login. Prefer secretRef.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	// +nullable
	Username string `json:"username,omitempty"`

	// Password of username, in plain text for all who may read this resource. Prefer secretRef.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	// +nullable
	Password string `json:"password,omitempty"`

	// SecretRef names a Secret of this namespace with the keys username and password, for mysql.
	// +optional
	// +nullable
	SecretRef *corev1.LocalObjectReference `json:"secretRef,omitempty"`

	// Custom is kept for compatibility; nothing reads it.
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
	// +optional
	Storage Storage `json:"storage,omitempty"`

	// InitScripts name ConfigMaps of this namespace with .sql or .sh files. They run after the
	// schemas were created, in the order of their file names, once, on an empty volume.
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=name
	// +optional
	// +nullable
	InitScripts []corev1.LocalObjectReference `json:"initScripts,omitempty"`
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
	// +optional
	Size resource.Quantity `json:"size,omitempty"`

	// StorageClassName of the volume. Default: the cluster's default class.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +optional
	// +nullable
	StorageClassName string `json:"storageClassName,omitempty"`

	// Retention is Retain (data and credentials outlive the DataService; re-creating it takes
	// them up again) or Delete.
	// +kubebuilder:default=Retain
	// +optional
	Retention RetentionPolicy `json:"retention,omitempty"`
}
