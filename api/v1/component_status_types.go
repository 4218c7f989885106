// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ComponentStatus is the last observed state of one component.
type ComponentStatus struct {
	// name is the component's key in the spec.
	// +kubebuilder:example=`auth`
	Name string `json:"name"`

	// kind is Deployment, StatefulSet, DaemonSet or ThirdParty.
	// +kubebuilder:example=`Deployment`
	// +optional
	Kind string `json:"kind,omitempty"`

	// phase is Pending, Creating, Running, Updating, Scaling, Degraded, Failed, Hibernating or Hibernated.
	// +kubebuilder:example=`Running`
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// ready is the number of pods that are ready.
	// +kubebuilder:example=`2`
	// +optional
	Ready int32 `json:"ready"`

	// desired is the number of pods that should be ready.
	// +kubebuilder:example=`2`
	// +optional
	Desired int32 `json:"desired"`

	// revision is the digest of the objects that were last applied for this component, without the number of pods.
	// +kubebuilder:example=`5f1d7a84`
	// +optional
	Revision string `json:"revision,omitempty"`

	// message lists the objects that the component waits for, or names the unhealthy pod and the reason.
	// +kubebuilder:example=`waits for mysql`
	// +optional
	Message string `json:"message,omitempty"`

	// waitsFor lists the components that must be ready before this component is created or updated.
	// Empty if it waits for no component.
	// +kubebuilder:example=`[mysql]`
	// +listType=set
	// +optional
	WaitsFor []string `json:"waitsFor,omitempty"`

	// culprit is the object to look at while phase is Degraded or Failed, or if a running component requires an action.
	// +kubebuilder:example=`{kind: Pod, name: auth-6b7c9f-x2x4p, reason: ImagePullBackOff}`
	// +optional
	Culprit *Culprit `json:"culprit,omitempty"`

	// failedFrom is the phase that the component had before Failed. The component returns to this
	// phase when the error no longer occurs.
	// +kubebuilder:example=`Updating`
	// +optional
	FailedFrom Phase `json:"failedFrom,omitempty"`

	// lastTransitionTime is the time of the last change of phase. Empty if an operator older than 0.3.0 wrote the
	// phase.
	// +kubebuilder:example=`"2026-01-02T15:04:05Z"`
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`

	// firstReady is the first known time at which mysql or redis was ready. Absent for other components, and until the component
	// leaves the phase Running for the first time.
	// +kubebuilder:example=`"2026-01-02T15:04:05Z"`
	// +optional
	FirstReady *metav1.Time `json:"firstReady,omitempty"`
}

// Culprit is the object that keeps a component from being ready, or that requires an action of the user.
type Culprit struct {
	// kind of the object, such as Pod, Deployment or PersistentVolumeClaim.
	// +kubebuilder:example=`Pod`
	Kind string `json:"kind"`

	// name of the object, in the namespace of the DataService.
	// +kubebuilder:example=`auth-6b7c9f-x2x4p`
	Name string `json:"name"`

	// reason is one word. Most reasons come from Kubernetes: ImagePullBackOff, CrashLoopBackOff,
	// Unschedulable, ProgressDeadlineExceeded, FailedCreate. The reason Missing means that the object
	// does not exist.
	// +kubebuilder:example=`ImagePullBackOff`
	// +optional
	Reason string `json:"reason,omitempty"`
}
