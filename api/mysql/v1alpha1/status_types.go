// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Phase is one word for the state of a MySQLCluster.
type Phase string

// The phases of a MySQLCluster.
const (
	// PhasePending: nothing runs yet.
	PhasePending Phase = "Pending"
	// PhaseCreating: the first members are being started.
	PhaseCreating Phase = "Creating"
	// PhaseRunning: all wanted members are healthy, and their pods match the spec.
	PhaseRunning Phase = "Running"
	// PhaseScaling: members are added or removed because another number is wanted.
	PhaseScaling Phase = "Scaling"
	// PhaseUpgrading: pods of the current revision replace older pods.
	PhaseUpgrading Phase = "Upgrading"
	// PhaseSwitching: another member becomes the primary because the user wants it.
	PhaseSwitching Phase = "Switching"
	// PhaseRecovering: a lost primary is replaced, or the data of a member is copied again.
	PhaseRecovering Phase = "Recovering"
	// PhaseDegraded: the primary accepts writes, but a member is unhealthy.
	PhaseDegraded Phase = "Degraded"
	// PhaseUnavailable: no primary accepts writes.
	PhaseUnavailable Phase = "Unavailable"
	// PhaseLost: no copy with every acknowledged transaction is left, and a user must decide.
	PhaseLost Phase = "Lost"
	// PhaseFailed: the operator cannot continue; the message has the reason and what a person can do.
	PhaseFailed Phase = "Failed"
	// PhaseParked: replicas is 0; the data is kept.
	PhaseParked Phase = "Parked"
	// PhasePaused: spec.paused stopped the operator before the first object was created.
	PhasePaused Phase = "Paused"
)

// The conditions of a MySQLCluster. Reconciling and Stalled follow kstatus
// (https://github.com/kubernetes-sigs/cli-utils/tree/master/pkg/kstatus): present only while true.
const (
	// ConditionReady is True when all wanted members are healthy, their pods match the spec, and no step is left.
	ConditionReady = "Ready"
	// ConditionAvailable is True while the primary accepts writes.
	ConditionAvailable = "Available"
	// ConditionRedundant is True while another member has each acknowledged transaction and can become the primary.
	ConditionRedundant = "Redundant"
	// ConditionQuarantined is True while a volume holds data that differs from the primary's, or data of another
	// database. The operator keeps such data. Present only while True.
	ConditionQuarantined = "Quarantined"
	// ConditionRecoverable is True while the archive is current, so that the latest transactions can be restored. Only present where
	// spec.backup.pointInTime is declared.
	ConditionRecoverable = "Recoverable"
	// ConditionProgressing is True while the operator changes the database to match the spec.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is True while a part of the database does not work.
	ConditionDegraded = "Degraded"
	// ConditionBeganEmpty is present, and True, after the database was formed again on empty volumes although it was ready before.
	// A user accepts the loss by removing status.firstReady.
	ConditionBeganEmpty = "BeganEmpty"
	// ConditionReconciling is kstatus's name for work in progress.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is kstatus's name for work that only a change by a user or another program can continue.
	ConditionStalled = "Stalled"
)

// The reasons of conditions, in addition to those of every kind (InvalidSpec, ApplyFailed ...) and the states.
const (
	ReasonAllFollow         = "AllFollow"
	ReasonWritable          = "Writable"
	ReasonNotWritable       = "NotWritable"
	ReasonCopied            = "Copied"
	ReasonAlone             = "Alone"
	ReasonHealthy           = "Healthy"
	ReasonSettled           = "Settled"
	ReasonParked            = "Parked"
	ReasonPaused            = "Paused"
	ReasonDeleting          = "Deleting"
	ReasonPodsNotReady      = "PodsNotReady"
	ReasonForming           = "Forming"
	ReasonMembersNotWell    = "MembersNotWell"
	ReasonWorking           = "Working"
	ReasonWaitingForConsent = "WaitingForConsent"
	// ReasonForeignVolume: a volume has data of another member, or data without a mark.
	ReasonForeignVolume = "ForeignVolume"
	// ReasonSetAside: a member's former data is kept on its volume, because the primary lacks a part of that data.
	ReasonSetAside = "SetAside"
	// ReasonUnsupportedVersion: the server in the image is older than the operator can run.
	ReasonUnsupportedVersion = "UnsupportedVersion"
	// ReasonAgentMissing: the operator does not know the image of its agent, and no member starts without the agent.
	ReasonAgentMissing = "AgentMissing"
)

// MySQLClusterStatus is the last observed state of the database.
type MySQLClusterStatus struct {
	// observedGeneration is the generation of the spec that this status describes. -1 while the operator
	// has not seen the resource.
	// +kubebuilder:default=-1
	// +kubebuilder:example=`3`
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase sums up the database: Pending, Creating, Running, Scaling, Upgrading, Switching, Recovering, Degraded,
	// Unavailable, Lost, Failed, Parked or Paused.
	// +kubebuilder:example=`Running`
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// reason is one word for the cause of the phase.
	// +kubebuilder:example=`AllFollow`
	// +optional
	Reason string `json:"reason,omitempty"`

	// message describes the operator's current work, or the problem and what a person can do.
	// +kubebuilder:example=`my-database-0 is the primary of 3 members`
	// +optional
	Message string `json:"message,omitempty"`

	// replicas is the number of pods that exist.
	// +kubebuilder:example=`3`
	// +optional
	Replicas int32 `json:"replicas"`

	// readyReplicas is the number of wanted members in state Well: the writable primary, and replicas that lag at most maxLag.
	// +kubebuilder:example=`3`
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// ready is readyReplicas and the number of wanted members: 3/3.
	// +kubebuilder:example=`3/3`
	// +optional
	Ready string `json:"ready,omitempty"`

	// selector selects the pods, for the scale subresource.
	// +kubebuilder:example=`app.kubernetes.io/instance=my-database`
	// +optional
	Selector string `json:"selector,omitempty"`

	// primary is the pod of the primary. Empty before the first primary.
	// +kubebuilder:example=`my-database-0`
	// +optional
	Primary string `json:"primary,omitempty"`

	// epoch grows with each change of the primary.
	// +kubebuilder:example=`4`
	// +optional
	Epoch int64 `json:"epoch,omitempty"`

	// voters are the pods whose copies acknowledge transactions. Each acknowledged transaction is on at least one of these
	// pods, and only these pods can become the primary. Empty: the primary has no such copy.
	// +kubebuilder:example=`[my-database-1, my-database-2]`
	// +listType=atomic
	// +optional
	Voters []string `json:"voters,omitempty"`

	// version is the lowest version of MySQL that a member runs.
	// +kubebuilder:example=`8.4.9`
	// +optional
	Version string `json:"version,omitempty"`

	// endpoint is the address at which clients read and write.
	// +kubebuilder:example=`my-database.default.svc:3306`
	// +optional
	Endpoint string `json:"endpoint,omitempty"`

	// readEndpoint is the address for reads of data that is up to spec.replication.maxLag old.
	// +kubebuilder:example=`my-database-read.default.svc:3306`
	// +optional
	ReadEndpoint string `json:"readEndpoint,omitempty"`

	// step is the current step on the database, such as Promise. Empty without a step.
	// +kubebuilder:example=`Follow`
	// +optional
	Step string `json:"step,omitempty"`

	// state sums up the answers of all members: Fresh, Healthy, Joining, Growing, VoterBad, PrimaryLost, Switching, QuorumLost,
	// Lost and others that docs/mysqlcluster.md lists.
	// +kubebuilder:example=`Healthy`
	// +optional
	State string `json:"state,omitempty"`

	// lossToken is the value of spec.replication.acceptLoss that consents to continue with the best remaining copy. Empty while
	// no loss is known, and while notes have a token for each of several copies.
	// +kubebuilder:example=`4-17-3e11fa47`
	// +optional
	LossToken string `json:"lossToken,omitempty"`

	// lastFailover describes the last change of the primary that was not planned.
	// +kubebuilder:example=`{from: my-database-0, to: my-database-1, took: 4s, reason: PrimaryLost}`
	// +optional
	LastFailover *FailoverStatus `json:"lastFailover,omitempty"`

	// notes are further facts for the user, such as that a volume has data of another member.
	// +kubebuilder:example=`["member 2 copies the data of member 0"]`
	// +listType=atomic
	// +optional
	Notes []string `json:"notes,omitempty"`

	// firstReady is the first known time at which the database was ready. Absent until the database stops being ready.
	// +kubebuilder:example=`"2026-01-02T15:04:05Z"`
	// +optional
	FirstReady *metav1.Time `json:"firstReady,omitempty"`

	// backup describes the backups. Only present where spec.backup is declared.
	// +kubebuilder:example=`{lastSuccessful: "2026-01-02T15:04:05Z", lastID: 20260102T150405Z-0a1b2c3d}`
	// +optional
	Backup *BackupStatus `json:"backup,omitempty"`

	// conditions are Ready, Available, Redundant, Progressing and Degraded. BackupHealthy is present with spec.backup, and
	// Recoverable with spec.backup.pointInTime. Quarantined, BeganEmpty, Reconciling and Stalled are present only
	// while true.
	// +kubebuilder:example=`[{type: Ready, status: "True", reason: AllFollow}]`
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// members are the pods, by ordinal.
	// +kubebuilder:example=`[{name: my-database-0, ordinal: 0, role: Primary, state: Well, version: 8.4.9}]`
	// +listType=atomic
	// +optional
	Members []MemberStatus `json:"members,omitempty"`
}

// FailoverStatus describes a change of the primary that was not planned.
type FailoverStatus struct {
	// from is the pod of the lost primary.
	// +kubebuilder:example=`my-database-0`
	From string `json:"from"`

	// to is the pod of the new primary.
	// +kubebuilder:example=`my-database-1`
	To string `json:"to"`

	// time at which the new primary accepted writes.
	// +kubebuilder:example=`"2026-01-02T15:04:05Z"`
	// +optional
	Time *metav1.Time `json:"time,omitempty"`

	// took is the time from the first failed check of the old primary until the new primary accepted writes.
	// +kubebuilder:example=`4s`
	// +optional
	Took string `json:"took,omitempty"`

	// reason is the state in which the failover began, such as PrimaryLost.
	// +kubebuilder:example=`PrimaryLost`
	// +optional
	Reason string `json:"reason,omitempty"`
}

// MemberStatus is the last observed state of one member.
type MemberStatus struct {
	// name of the member's pod.
	// +kubebuilder:example=`my-database-0`
	Name string `json:"name"`

	// ordinal of the member's pod.
	// +kubebuilder:example=`0`
	// +optional
	Ordinal int32 `json:"ordinal"`

	// role is Primary, Voter (a replica whose acknowledgements count), Reader (a replica whose acknowledgements do not count) or empty.
	// +kubebuilder:example=`Primary`
	// +optional
	Role string `json:"role,omitempty"`

	// state is Well, Starting, Empty (no data yet), Joining (the member copies the data), Lagging, Down (no answer), Lost (the
	// member has lost its data), Foreign (the volume has data of another member), Errant (the member has transactions that the
	// primary lacks) or Leaving.
	// +kubebuilder:example=`Well`
	// +optional
	State string `json:"state,omitempty"`

	// position is the set of GTIDs that the member had when this status was written, cut at 256 characters.
	// +kubebuilder:example=`3e11fa47-71ca-11e1-9e33-c80aa9429562:1-77`
	// +optional
	Position string `json:"position,omitempty"`

	// lag behind the primary, rounded down to 10 s. Only present in state Lagging.
	// +kubebuilder:example=`12s`
	// +optional
	Lag string `json:"lag,omitempty"`

	// version of MySQL that the member runs.
	// +kubebuilder:example=`8.4.9`
	// +optional
	Version string `json:"version,omitempty"`

	// message is the reason why the member is unhealthy.
	// +kubebuilder:example=`no answer within 2s`
	// +optional
	Message string `json:"message,omitempty"`
}
