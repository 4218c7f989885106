// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Phase is one word for where a DataService or a component stands.
type Phase string

// The phases of a DataService. A component has Pending, Creating, Running, Updating,
// Scaling, Degraded and Failed.
const (
	// PhasePending: nothing was created yet; a component waits for others.
	PhasePending Phase = "Pending"
	// PhaseCreating: components are coming up for the first time.
	PhaseCreating Phase = "Creating"
	// PhaseRunning: everything declared is ready.
	PhaseRunning Phase = "Running"
	// PhaseUpdating: a change of the spec is being rolled out.
	PhaseUpdating Phase = "Updating"
	// PhaseScaling: only numbers of pods are changing.
	PhaseScaling Phase = "Scaling"
	// PhaseDegraded: something that should be ready is not, or does not come up.
	PhaseDegraded Phase = "Degraded"
	// PhaseFailed: the operator cannot carry out the spec; the message says why.
	PhaseFailed Phase = "Failed"
	// PhasePaused: spec.paused is set.
	PhasePaused Phase = "Paused"
	// PhaseTerminating: the resource is being deleted.
	PhaseTerminating Phase = "Terminating"
)

// The conditions of a DataService. Reconciling and Stalled follow kstatus
// (https://github.com/kubernetes-sigs/cli-utils/tree/master/pkg/kstatus): present only while true.
const (
	// ConditionReady is True when every declared component is ready as declared.
	ConditionReady = "Ready"
	// ConditionProgressing is True while components are being created, updated or removed.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is True when a component does not come up or stopped being well.
	ConditionDegraded = "Degraded"
	// ConditionPaused is True while spec.paused is set.
	ConditionPaused = "Paused"
	// ConditionReconciling is kstatus's name for work in progress.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is kstatus's name for work that cannot go on without a change from outside.
	ConditionStalled = "Stalled"
)

// The reasons that conditions carry.
const (
	ReasonAllReady         = "AllReady"
	ReasonComponentsNotUp  = "ComponentsNotReady"
	ReasonComponentFailing = "ComponentFailing"
	ReasonRollingOut       = "RollingOut"
	ReasonSettled          = "Settled"
	ReasonHealthy          = "Healthy"
	ReasonPaused           = "Paused"
	ReasonNotPaused        = "NotPaused"
	ReasonDeleting         = "Deleting"
	// ReasonInvalidSpec: the spec contradicts itself; the message names the field.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonRenderFailed: a chart did not render.
	ReasonRenderFailed = "RenderFailed"
	// ReasonConflict: an object of that name exists and is not this DataService's.
	ReasonConflict = "ObjectConflict"
	// ReasonNotAdopted: an object of that name is this DataService's, and another operator made it.
	ReasonNotAdopted = "NotAdopted"
	// ReasonApplyFailed: the API server refused an object.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonCredentialsFailed: credentials could not be read or written.
	ReasonCredentialsFailed = "CredentialsFailed"
	// ReasonPruneFailed: an object that is no longer declared could not be removed.
	ReasonPruneFailed = "PruneFailed"
	// ReasonContested: another writer keeps changing a field that the spec owns.
	ReasonContested = "Contested"
	// ReasonNewerOperator: a newer version of the operator wrote some of the objects.
	ReasonNewerOperator = "NewerOperator"
)

// DataServiceStatus is the platform as the operator last saw it.
type DataServiceStatus struct {
	// ObservedGeneration is the generation of the spec that this status describes.
	// +kubebuilder:example=`3`
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Phase is one word for the whole: Pending, Creating, Running, Updating, Scaling, Degraded,
	// Failed, Paused or Terminating.
	// +kubebuilder:example=`Running`
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// Ready counts the components that are ready, of those declared: 7/12.
	// +kubebuilder:example=`7/12`
	// +optional
	Ready string `json:"ready,omitempty"`

	// Message is the components in their order, those being worked on in brackets
	// (mysql->uuc->[eureka]->auth), or what is wrong: component, pod and reason.
	// +kubebuilder:example=`mysql->uuc->[eureka]->auth`
	// +optional
	Message string `json:"message,omitempty"`

	// Conditions are Ready, Progressing, Degraded and Paused, and while true Reconciling and Stalled.
	// +kubebuilder:example=`[{type: Ready, status: "True", reason: AllReady}]`
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Components are the declared components in their order.
	// +kubebuilder:example=`[{name: mysql, kind: StatefulSet, phase: Running, ready: 1, desired: 1}]`
	// +listType=map
	// +listMapKey=name
	// +optional
	Components []ComponentStatus `json:"components,omitempty"`
}

// ComponentStatus is one component as the operator last saw it.
type ComponentStatus struct {
	// Name is the component's key in the spec.
	// +kubebuilder:example=`auth`
	Name string `json:"name"`

	// Kind is Deployment, StatefulSet, DaemonSet or ThirdParty.
	// +kubebuilder:example=`Deployment`
	// +optional
	Kind string `json:"kind,omitempty"`

	// Phase is Pending, Creating, Running, Updating, Scaling, Degraded or Failed.
	// +kubebuilder:example=`Running`
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// Ready is the number of pods that are ready.
	// +kubebuilder:example=`2`
	// +optional
	Ready int32 `json:"ready"`

	// Desired is the number of pods that should be ready.
	// +kubebuilder:example=`2`
	// +optional
	Desired int32 `json:"desired"`

	// Revision is the digest of what was last applied for this component, without its number of pods.
	// +kubebuilder:example=`5f1d7a84`
	// +optional
	Revision string `json:"revision,omitempty"`

	// Message says what the component waits for, or which pod is not well and why.
	// +kubebuilder:example=`waits for mysql`
	// +optional
	Message string `json:"message,omitempty"`
}
