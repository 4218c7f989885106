// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
)

// Pod configures the pods of the cluster.
type Pod struct {
	// labels are additional labels of the pods.
	// +kubebuilder:validation:XValidation:rule="self.all(name, !name.startsWith('app.kubernetes.io/') && !name.contains('d3os-product.com.d3os/') && !name.contains('redis.middleware.hc.cn/'))",message="labels of app.kubernetes.io, d3os-product.com.d3os and redis.middleware.hc.cn are the operator's own"
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:example=`{team: data}`
	// +optional
	// +nullable
	Labels map[string]string `json:"labels,omitempty"`

	// annotations are additional annotations of the pods.
	// +kubebuilder:example=`{example.com/team: data}`
	// +optional
	// +nullable
	Annotations map[string]string `json:"annotations,omitempty"`

	// env sets variables of the Redis container. MAXMEMORY is the maximum memory for data (such as 2gb).
	// Default: three quarters of the memory limit, unless config has maxmemory.
	// +kubebuilder:validation:MaxItems=200
	// +kubebuilder:example=`[{name: MAXMEMORY, value: 2gb}]`
	// +listType=atomic
	// +optional
	// +nullable
	Env []corev1.EnvVar `json:"env,omitempty"`

	// affinity has the rules for the nodes that the pods prefer or need. The operator adds the rule of antiAffinity.
	// +kubebuilder:example=`{podAntiAffinity: {}}`
	// +optional
	// +nullable
	Affinity *Affinity `json:"affinity,omitempty"`

	// nodeSelector lists the labels that a node must have to run the pods.
	// +kubebuilder:example=`{disk: ssd}`
	// +optional
	// +nullable
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// tolerations list the node taints that the pods tolerate.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:example=`[{key: dedicated, operator: Exists}]`
	// +listType=atomic
	// +optional
	// +nullable
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// priorityClassName is the priority class of the pods.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:example=`high`
	// +optional
	// +nullable
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// imagePullSecrets are the credentials for pulling images.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:example=`[{name: registry}]`
	// +listType=atomic
	// +optional
	// +nullable
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// resources are the requests and limits of the Redis container. If storage.size is absent or 10Gi, an
	// amount of storage here is the size of each volume. Default: the resources of size.
	// +kubebuilder:example=`{requests: {memory: 2Gi}, limits: {memory: 4Gi}}`
	// +optional
	// +nullable
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// updateStrategy selects whether the operator or a person replaces outdated pods.
	// +kubebuilder:example=`{type: OnDelete}`
	// +optional
	// +nullable
	UpdateStrategy *PodUpdateStrategy `json:"updateStrategy,omitempty"`

	// volumes configure the storage of the data.
	// +kubebuilder:example=`{type: hostPath}`
	// +optional
	// +nullable
	Volumes *Volumes `json:"volumes,omitempty"`

	// configmap names a ConfigMap of this namespace whose key redis.conf holds settings. A server reads
	// these settings when it starts. Settings in config override them. Settings that the operator sets
	// itself are ignored.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +kubebuilder:example=`redis-settings`
	// +optional
	// +nullable
	ConfigMap string `json:"configmap,omitempty"`

	// monitorImage is the image of a sidecar of Redis that serves metrics on port 9121. The sidecar
	// gets the variables of redis_exporter. Default: no sidecar; the word "string" also means none.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._/:@-]*$`
	// +kubebuilder:example=`docker.io/oliver006/redis_exporter:v1.74.0`
	// +optional
	// +nullable
	MonitorImage string `json:"monitorImage,omitempty"`

	// initImage is the image of a container that runs before Redis and checks the volume. The image needs a
	// shell. Default: no such container; the word "string" also means none.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._/:@-]*$`
	// +kubebuilder:example=`docker.io/library/busybox:1.37`
	// +optional
	// +nullable
	InitImage string `json:"initImage,omitempty"`

	// middlewareImage is the image of Redis. Default: repository with version as its tag; the word
	// "string" also means the default.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._/:@-]*$`
	// +kubebuilder:example=`registry.example.com/team/redis:7.0.15-1`
	// +optional
	// +nullable
	MiddlewareImage string `json:"middlewareImage,omitempty"`
}

// Affinity is the affinity of Kubernetes.
//
// +kubebuilder:validation:XValidation:rule="!has(self.requiredDuringSchedulingIgnoredDuringExecution) || !has(self.nodeAffinity) || !has(self.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution)",fieldPath=".requiredDuringSchedulingIgnoredDuringExecution",message="may not be set when nodeAffinity has requiredDuringSchedulingIgnoredDuringExecution: keep the one of nodeAffinity"
type Affinity struct {
	// nodeAffinity selects nodes that pods prefer or need.
	// +kubebuilder:example=`{requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: In, values: [ssd]}]}]}}`
	// +optional
	// +nullable
	NodeAffinity *corev1.NodeAffinity `json:"nodeAffinity,omitempty"`

	// podAffinity selects other pods that the pods prefer or need on the same node or in the same zone.
	// +kubebuilder:example=`{preferredDuringSchedulingIgnoredDuringExecution: []}`
	// +optional
	// +nullable
	PodAffinity *corev1.PodAffinity `json:"podAffinity,omitempty"`

	// podAntiAffinity selects other pods that the pods avoid on the same node or in the same zone.
	// +kubebuilder:example=`{preferredDuringSchedulingIgnoredDuringExecution: []}`
	// +optional
	// +nullable
	PodAntiAffinity *corev1.PodAntiAffinity `json:"podAntiAffinity,omitempty"`

	// requiredDuringSchedulingIgnoredDuringExecution has the effect of the same field in nodeAffinity. Resources of
	// an earlier operator have the field here. Only one of the two fields may be set.
	// +kubebuilder:example=`{nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: In, values: [ssd]}]}]}`
	// +optional
	// +nullable
	RequiredDuringSchedulingIgnoredDuringExecution *corev1.NodeSelector `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`
}

// PodUpdateStrategy selects whether the operator or a person replaces outdated pods.
type PodUpdateStrategy struct {
	// type is RollingUpdate (the operator replaces pods, one shard at a time, replicas first) or OnDelete
	// (pods change when a person deletes them). Default: RollingUpdate.
	// +kubebuilder:validation:Pattern=`^(RollingUpdate|OnDelete)$`
	// +kubebuilder:example=`OnDelete`
	// +optional
	// +nullable
	Type string `json:"type,omitempty"`
}

// Volumes configure the storage of the data.
//
// +kubebuilder:validation:XValidation:rule="!has(self.persistentVolumeClaimName) || (has(self.type) && self.type == 'nfs')",fieldPath=".persistentVolumeClaimName",message="may only be set when type is 'nfs'"
type Volumes struct {
	// type is hostPath (each pod has a claim, as spec.storage defines; no path of a node is mounted) or nfs (the pods
	// share the claim persistentVolumeClaimName, and each pod has a folder). Default: hostPath.
	// +kubebuilder:validation:Pattern=`^(hostPath|nfs)$`
	// +kubebuilder:example=`nfs`
	// +optional
	// +nullable
	Type string `json:"type,omitempty"`

	// persistentVolumeClaimName is the claim that all pods share. It must exist and be ReadWriteMany.
	// If the name is invalid for a claim, such as pvcName, the operator reports this and gives each pod
	// its own claim.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:example=`shared-data`
	// +optional
	// +nullable
	PersistentVolumeClaimName string `json:"persistentVolumeClaimName,omitempty"`
}

// Storage is the volume of each pod.
//
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",fieldPath=".storageClassName",message="may not be changed: a volume stays in its class"
// +kubebuilder:validation:XValidation:rule="!has(self.autoGrow) || !has(self.size) || !isQuantity(string(self.size)) || !isQuantity(string(self.autoGrow.limit)) || !quantity(string(self.autoGrow.limit)).isLessThan(quantity(string(self.size)))",fieldPath=".autoGrow",message="limit must not be below size: a volume never shrinks"
type Storage struct {
	// size of each volume. It can grow if the storage class can expand volumes. A size below the size of a
	// volume is ignored and reported: volumes never shrink.
	// +kubebuilder:default="10Gi"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).isGreaterThan(quantity('0'))",message="size must be a quantity above zero, such as 10Gi"
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
