// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
)

// Slots is the number of hash slots of a Redis Cluster.
const Slots = 16384

// AnnotationConsent on a RedisCluster lets the operator assign lost slots, without their data, to
// running masters. Its value is the id of the lost node, or ranges of slots, separated by commas.
const AnnotationConsent = "redis.middleware.hc.cn/accept-data-loss"

// Phase is one word for the state of a RedisCluster.
type Phase string

// The phases of a RedisCluster.
const (
	// PhaseNone: nothing was done yet.
	PhaseNone Phase = "None"
	// PhaseCreating: pods start, and the cluster is formed.
	PhaseCreating Phase = "Creating"
	// PhaseRunning: all slots are served, each shard has its replicas, and no step is left.
	PhaseRunning Phase = "Running"
	// PhaseFailed: the operator cannot continue; the message has the reason and what a person can do.
	PhaseFailed Phase = "Failed"
	// PhaseScaling: shards are added or removed, or slots move.
	PhaseScaling Phase = "Scaling"
	// PhaseUpgrading: pods are replaced or settings change.
	PhaseUpgrading Phase = "Upgrading"
	// PhaseParked: spec.replicas is 0; the data is kept.
	PhaseParked Phase = "Parked"
)

// The conditions of a RedisCluster. Reconciling and Stalled follow kstatus
// (https://github.com/kubernetes-sigs/cli-utils/tree/master/pkg/kstatus): present only while true.
const (
	// ConditionReady is True when all slots are served, every shard has its replicas in sync, and the
	// cluster matches the spec.
	ConditionReady = "Ready"
	// ConditionProgressing is True while the operator changes the cluster to match the spec.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is True while a part of the cluster does not work.
	ConditionDegraded = "Degraded"
	// ConditionBeganEmpty is present, and True, after the cluster was formed again on empty volumes although it was ready before.
	// A user accepts the loss by removing status.firstReady.
	ConditionBeganEmpty = "BeganEmpty"
	// ConditionReconciling is kstatus's name for work in progress.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is kstatus's name for work that only a change by a user or another program can continue.
	ConditionStalled = "Stalled"
	// ConditionSpecIgnored is present, and True, while a part of the spec has no effect; the message names
	// the part and the reason.
	ConditionSpecIgnored = "SpecIgnored"
	// ConditionColocated is present, and True, while all pods of a shard are on one Kubernetes node.
	ConditionColocated = "Colocated"
)

// The reasons of conditions, in addition to those of every kind (InvalidSpec, ApplyFailed ...).
const (
	ReasonAllServed      = "AllServed"
	ReasonHealthy        = "Healthy"
	ReasonSettled        = "Settled"
	ReasonPaused         = "Paused"
	ReasonParked         = "Parked"
	ReasonDeleting       = "Deleting"
	ReasonPodsNotReady   = "PodsNotReady"
	ReasonForming        = "Forming"
	ReasonNotRedundant   = "NotRedundant"
	ReasonSlotsNotServed = "SlotsNotServed"
	ReasonWorking        = "Working"
	// ReasonRefuses: a server runs, but refuses writes or connections: its disk or memory is full, or maxclients is reached.
	ReasonRefuses = "Refuses"
	// ReasonStepFails: a step fails repeatedly, and is skipped for a while.
	ReasonStepFails = "StepFails"
	// ReasonProgressDeadlineExceeded: the work in progress has not ended within spec.progressDeadlineSeconds.
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"
	// ReasonUnsupportedVersion: spec.version is older than 6.2.
	ReasonUnsupportedVersion = "UnsupportedVersion"
	// ReasonAgentMissing: the operator does not know the image of its agent, which makes and restores backups.
	ReasonAgentMissing = "AgentMissing"
	// ReasonNotSupported: a field of the spec has no effect.
	ReasonNotSupported = "NotSupported"
	// ReasonSameNode: all pods of a shard are on one Kubernetes node.
	ReasonSameNode = "SameNode"
)

// RedisClusterStatus is the last observed state of the cluster.
type RedisClusterStatus struct {
	// observedGeneration is the generation of the spec that this status describes. -1 while the operator
	// has not seen the resource.
	// +kubebuilder:default=-1
	// +kubebuilder:example=`3`
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase sums up the cluster: None, Creating, Running, Failed, Scaling, Upgrading or Parked.
	// +kubebuilder:example=`Running`
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// reason is one word for the cause of the phase.
	// +kubebuilder:example=`AllServed`
	// +optional
	Reason string `json:"reason,omitempty"`

	// message describes the operator's current work, or the problem and what a person can do.
	// +kubebuilder:example=`all 16384 slots are served by 3 shards`
	// +optional
	Message string `json:"message,omitempty"`

	// replicas is the number of pods that exist.
	// +kubebuilder:example=`6`
	// +optional
	Replicas int32 `json:"replicas"`

	// ready is the number of pods that are ready and work in the cluster, and the number of wanted pods: 6/6.
	// +kubebuilder:example=`6/6`
	// +optional
	Ready string `json:"ready,omitempty"`

	// slots is the number of hash slots that are served, of 16384.
	// +kubebuilder:example=`16384`
	// +optional
	Slots int32 `json:"slots"`

	// shards is the number of masters that own slots.
	// +kubebuilder:example=`3`
	// +optional
	Shards int32 `json:"shards"`

	// selector selects the pods, for the scale subresource.
	// +kubebuilder:example=`app.kubernetes.io/instance=cache`
	// +optional
	Selector string `json:"selector,omitempty"`

	// step is the current step on the cluster, such as MoveSlots. Empty without a step.
	// +kubebuilder:example=`MoveSlots`
	// +optional
	Step string `json:"step,omitempty"`

	// verdict sums up the views of all nodes: Fresh, Complete, Healing, DisconnectedIntact,
	// MajorityLost, SlotsLost, Inconsistent, Unknown, Returning or Parked.
	// +kubebuilder:example=`Complete`
	// +optional
	Verdict string `json:"verdict,omitempty"`

	// notes are further facts for the user, such as that shards have no replica.
	// +kubebuilder:example=`["spec.replicas: 3 of 3 shards have no replica"]`
	// +listType=atomic
	// +optional
	Notes []string `json:"notes,omitempty"`

	// firstReady is the first known time at which the cluster was ready. Absent until the cluster stops being ready.
	// +kubebuilder:example=`"2026-01-02T15:04:05Z"`
	// +optional
	FirstReady *metav1.Time `json:"firstReady,omitempty"`

	// backup describes the backups. Only present where spec.backup is declared.
	// +kubebuilder:example=`{lastSuccessful: "2026-01-02T15:04:05Z", lastID: 20260102T150405Z-0a1b2c3d}`
	// +optional
	Backup *backupv1.ClusterBackupStatus `json:"backup,omitempty"`

	// conditions are Ready, Progressing and Degraded. BackupHealthy is present with spec.backup. BeganEmpty, Reconciling, Stalled,
	// SpecIgnored and Colocated are present only while true. An earlier operator listed pods here: such entries are accepted and removed.
	// +kubebuilder:example=`[{type: Ready, status: "True", reason: AllServed}]`
	// +kubebuilder:validation:items:XPreserveUnknownFields
	// +listType=atomic
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// instances are the pods and the roles of their servers, by name.
	// +kubebuilder:example=`[{name: cache-0-0, instance: "10.0.0.1:6379", type: master, slots: "0-5460", status: "True"}]`
	// +listType=map
	// +listMapKey=name
	// +optional
	Instances []Instance `json:"instances,omitempty"`
}

// Instance is the last observed state of one pod of the cluster.
type Instance struct {
	// name of the pod.
	// +kubebuilder:example=`cache-0-0`
	Name string `json:"name"`

	// instance is the address and port of the pod's Redis.
	// +kubebuilder:example=`10.0.0.1:6379`
	// +optional
	Instance string `json:"instance,omitempty"`

	// type is master or slave. Empty while it is not known.
	// +kubebuilder:example=`master`
	// +optional
	Type string `json:"type,omitempty"`

	// masterNodeId is the node id of the master that the pod replicates.
	// +kubebuilder:example=`07c37dfeb235213a872192d90877d0cd55635b91`
	// +optional
	MasterNodeID string `json:"masterNodeId,omitempty"`

	// nodeId is the node id of the pod's Redis.
	// +kubebuilder:example=`e7d1eecce10fd6bb5eb35b9f99a514335d9ba9ca`
	// +optional
	NodeID string `json:"nodeId,omitempty"`

	// domainName is the DNS name of the pod.
	// +kubebuilder:example=`cache-0-0.cache-headless.default.svc`
	// +optional
	DomainName string `json:"domainName,omitempty"`

	// slots that the pod owns, such as 0-5460.
	// +kubebuilder:example=`0-5460`
	// +optional
	Slots string `json:"slots,omitempty"`

	// hostname is the name of the Kubernetes node that the pod runs on.
	// +kubebuilder:example=`worker-1`
	// +optional
	HostName string `json:"hostname,omitempty"`

	// hostIP is the address of the pod's node.
	// +kubebuilder:example=`192.0.2.10`
	// +optional
	HostIP string `json:"hostIP,omitempty"`

	// status is True while the pod is ready and works in the cluster, False otherwise.
	// +kubebuilder:example=`True`
	// +optional
	Status string `json:"status,omitempty"`

	// reason is one word for why status is False.
	// +kubebuilder:example=`Unreachable`
	// +optional
	Reason string `json:"reason,omitempty"`

	// message is the reason why status is False.
	// +kubebuilder:example=`no answer within 2s`
	// +optional
	Message string `json:"message,omitempty"`

	// lastTransitionTime is the time of the last change of status.
	// +kubebuilder:example=`"2026-01-02T15:04:05Z"`
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
}
