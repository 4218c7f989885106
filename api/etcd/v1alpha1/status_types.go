// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
)

// Phase is one word for the state of an EtcdCluster.
type Phase string

// The phases of an EtcdCluster.
const (
	// PhasePending: nothing runs yet.
	PhasePending Phase = "Pending"
	// PhaseCreating: the first members are being started.
	PhaseCreating Phase = "Creating"
	// PhaseRunning: all wanted voters are healthy, at the wanted version.
	PhaseRunning Phase = "Running"
	// PhaseScaling: members are added or removed because another number is wanted.
	PhaseScaling Phase = "Scaling"
	// PhaseUpgrading: pods of the current revision replace older pods.
	PhaseUpgrading Phase = "Upgrading"
	// PhaseRecovering: a member is replaced, or the cluster is formed again from one surviving member.
	PhaseRecovering Phase = "Recovering"
	// PhaseDegraded: a quorum answers, but a member is unhealthy.
	PhaseDegraded Phase = "Degraded"
	// PhaseQuorumLost: no quorum answers; reads and writes fail.
	PhaseQuorumLost Phase = "QuorumLost"
	// PhaseFailed: the operator cannot continue; the message has the reason and what a person can do.
	PhaseFailed Phase = "Failed"
	// PhaseParked: replicas is 0; the data is kept.
	PhaseParked Phase = "Parked"
	// PhasePaused: spec.paused stopped the operator before the first object was created.
	PhasePaused Phase = "Paused"
)

// The conditions of an EtcdCluster. Reconciling and Stalled follow kstatus
// (https://github.com/kubernetes-sigs/cli-utils/tree/master/pkg/kstatus): present only while true.
const (
	// ConditionReady is True when all wanted voters are healthy, at the wanted version, and no step is left.
	ConditionReady = "Ready"
	// ConditionAvailable is True when a quorum answered the last read.
	ConditionAvailable = "Available"
	// ConditionCertificatesValid is True while no certificate has expired or is overdue for renewal. Present only with TLS.
	ConditionCertificatesValid = "CertificatesValid"
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
)

// The reasons of conditions, in addition to those of every kind (InvalidSpec, ApplyFailed ...) and the verdicts.
const (
	ReasonAllVoting       = "AllVoting"
	ReasonQuorumAnswers   = "QuorumAnswers"
	ReasonNoQuorumAnswers = "NoQuorumAnswers"
	ReasonHealthy         = "Healthy"
	ReasonSettled         = "Settled"
	ReasonParked          = "Parked"
	ReasonPaused          = "Paused"
	ReasonDeleting        = "Deleting"
	ReasonPodsNotReady    = "PodsNotReady"
	ReasonForming         = "Forming"
	ReasonMembersNotWell  = "MembersNotWell"
	ReasonWorking         = "Working"
	// ReasonSpaceUsedUp: a member has raised the alarm NOSPACE, so writes fail.
	ReasonSpaceUsedUp = "SpaceUsedUp"
	// ReasonMembersLost: so many members have lost their data that the other members cannot form a quorum.
	ReasonMembersLost = "MembersLost"
	// ReasonCertificatesValid: no certificate expires soon.
	ReasonCertificatesValid = "Valid"
	// ReasonCertificateExpires: the renewal of a certificate is overdue; the certificate is still valid.
	ReasonCertificateExpires = "CertificateExpires"
	// ReasonCertificateExpired: a certificate has expired.
	ReasonCertificateExpired = "CertificateExpired"
	// ReasonCertificateUnreadable: a Secret, or the certificate in it, is missing or damaged.
	ReasonCertificateUnreadable = "CertificateUnreadable"
	// ReasonUnsupportedVersion: spec.version is older than the oldest supported version or the running version.
	ReasonUnsupportedVersion = "UnsupportedVersion"
	// ReasonProgressDeadlineExceeded: the work in progress has not ended within spec.progressDeadlineSeconds.
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"
	// ReasonAgentMissing: the operator does not know the image of its agent, and no member starts without the agent.
	ReasonAgentMissing = "AgentMissing"
)

// EtcdClusterStatus is the last observed state of the cluster.
type EtcdClusterStatus struct {
	// observedGeneration is the generation of the spec that this status describes. -1 while the operator
	// has not seen the resource.
	// +kubebuilder:default=-1
	// +kubebuilder:example=`3`
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase sums up the cluster: Pending, Creating, Running, Scaling, Upgrading, Recovering, Degraded, QuorumLost,
	// Failed, Parked or Paused.
	// +kubebuilder:example=`Running`
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// reason is one word for the cause of the phase.
	// +kubebuilder:example=`AllVoting`
	// +optional
	Reason string `json:"reason,omitempty"`

	// message describes the operator's current work, or the problem and what a person can do.
	// +kubebuilder:example=`3 of 3 members vote, my-etcd-cluster-0 leads`
	// +optional
	Message string `json:"message,omitempty"`

	// replicas is the number of pods that exist.
	// +kubebuilder:example=`3`
	// +optional
	Replicas int32 `json:"replicas"`

	// readyReplicas is the number of members that vote and answer.
	// +kubebuilder:example=`3`
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// ready is readyReplicas and the number of wanted voters: 3/3.
	// +kubebuilder:example=`3/3`
	// +optional
	Ready string `json:"ready,omitempty"`

	// selector selects the pods, for the scale subresource.
	// +kubebuilder:example=`app.kubernetes.io/instance=my-etcd-cluster`
	// +optional
	Selector string `json:"selector,omitempty"`

	// clusterID is the id of the cluster, in hexadecimal. It never changes.
	// +kubebuilder:example=`cdf818194e3a8c32`
	// +optional
	ClusterID string `json:"clusterID,omitempty"`

	// leader is the pod of the leader. Empty without a leader.
	// +kubebuilder:example=`my-etcd-cluster-0`
	// +optional
	Leader string `json:"leader,omitempty"`

	// version is the lowest version of etcd that a member runs.
	// +kubebuilder:example=`3.6.16`
	// +optional
	Version string `json:"version,omitempty"`

	// targetVersion is the version to which the members are being upgraded. It may be a step on the way to the
	// version of the spec.
	// +kubebuilder:example=`3.6.16`
	// +optional
	TargetVersion string `json:"targetVersion,omitempty"`

	// endpoints are the addresses for clients, separated by commas.
	// +kubebuilder:example=`http://my-etcd-cluster.default.svc:2379`
	// +optional
	Endpoints string `json:"endpoints,omitempty"`

	// step is the current step on the cluster, such as AddLearner. Empty without a step.
	// +kubebuilder:example=`AddLearner`
	// +optional
	Step string `json:"step,omitempty"`

	// verdict sums up the answers of all members: Parked, Fresh, Complete, Degraded, QuorumLost or
	// SplitBrain.
	// +kubebuilder:example=`Complete`
	// +optional
	Verdict string `json:"verdict,omitempty"`

	// notes are further facts for the user, such as that the spec has an even number of members.
	// +kubebuilder:example=`["spec.replicas is 2, and 3 members run"]`
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

	// conditions are Ready, Available, Progressing and Degraded. BackupHealthy is present with spec.backup. BeganEmpty,
	// Reconciling and Stalled are present only while true.
	// +kubebuilder:example=`[{type: Ready, status: "True", reason: AllVoting}]`
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// members are the members in etcd's own list, and pods that will become members.
	// +kubebuilder:example=`[{name: my-etcd-cluster-0, id: 8e9e05c52164694d, ordinal: 0, state: Voter, version: 3.6.16}]`
	// +listType=atomic
	// +optional
	Members []MemberStatus `json:"members,omitempty"`
}

// MemberStatus is the last observed state of one member.
type MemberStatus struct {
	// name of the member's pod; without a pod, the name in etcd.
	// +kubebuilder:example=`my-etcd-cluster-0`
	Name string `json:"name"`

	// id of the member, in hexadecimal. Empty while the pod is not a member yet.
	// +kubebuilder:example=`8e9e05c52164694d`
	// +optional
	ID string `json:"id,omitempty"`

	// ordinal of the member's pod; -1 without a pod.
	// +kubebuilder:example=`0`
	// +optional
	Ordinal int32 `json:"ordinal"`

	// state is Voter (the member votes and answers), Learner (the member copies the data), Starting, Down (the
	// member votes, but does not answer), Lost (the member has lost its data) or Unknown (no pod belongs to this
	// member).
	// +kubebuilder:example=`Voter`
	// +optional
	State string `json:"state,omitempty"`

	// version of etcd that the member runs.
	// +kubebuilder:example=`3.6.16`
	// +optional
	Version string `json:"version,omitempty"`

	// dbSize is the size of the member's database file, rounded to MiB.
	// +kubebuilder:example=`20Mi`
	// +optional
	DBSize string `json:"dbSize,omitempty"`

	// message is the reason why the member is unhealthy.
	// +kubebuilder:example=`no answer within 2s`
	// +optional
	Message string `json:"message,omitempty"`
}
