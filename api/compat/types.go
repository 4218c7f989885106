// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package compat has the types that the kinds AppService, ModelBox and CronTab share. The package imports no package of internal/.
//
// +kubebuilder:object:generate=true
package compat

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The conditions of the three kinds. Reconciling and Stalled follow kstatus
// (https://github.com/kubernetes-sigs/cli-utils/tree/master/pkg/kstatus): present only while true.
const (
	// ConditionReady is True when the objects match the spec and all pods are ready.
	ConditionReady = "Ready"
	// ConditionProgressing is True while the operator changes the objects to match the spec.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is True while an object does not work as the spec requires.
	ConditionDegraded = "Degraded"
	// ConditionReconciling is kstatus's name for work in progress.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is kstatus's name for work that only a change by a user or another program can continue.
	ConditionStalled = "Stalled"
)

// The reasons of the conditions, in addition to those of every kind (InvalidSpec, ApplyFailed ...).
const (
	ReasonSettled      = "Settled"
	ReasonPodsNotReady = "PodsNotReady"
	// ReasonRunFailed: the last run of a schedule with seconds failed. The agent in the pod prints this reason.
	ReasonRunFailed = "RunFailed"
)

// Container has the fields of the container.
type Container struct {
	// image is the container image. The container runs as the image's own user.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._/:@-]*$`
	// +kubebuilder:example=`nginx:1.7.9`
	Image string `json:"image"`

	// resources are the requests and limits of the container. Default: none.
	// +kubebuilder:example=`{requests: {memory: 64Mi}}`
	// +optional
	// +nullable
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// envs are variables of the container. Of several variables with the same name, the last has effect.
	// +kubebuilder:validation:MaxItems=500
	// +kubebuilder:example=`[{name: LOG_LEVEL, value: info}]`
	// +listType=atomic
	// +optional
	// +nullable
	Envs []corev1.EnvVar `json:"envs,omitempty"`
}

// Port is a port of the Service and of the container.
type Port struct {
	// name of the port. Default: port- and the number of port, such as port-80.
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:example=`http`
	// +optional
	// +nullable
	Name string `json:"name,omitempty"`

	// protocol is TCP, UDP or SCTP.
	// +kubebuilder:validation:Enum=TCP;UDP;SCTP
	// +kubebuilder:default=TCP
	// +kubebuilder:example=`UDP`
	// +optional
	Protocol corev1.Protocol `json:"protocol,omitempty"`

	// port is the port of the Service.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:example=`80`
	Port int32 `json:"port"`

	// targetPort is the number of the container's port. Default: the value of port.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:example=`8080`
	// +optional
	// +nullable
	TargetPort int32 `json:"targetPort,omitempty"`

	// nodePort opens this port on every node. Default: Kubernetes chooses one.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:example=`30002`
	// +optional
	// +nullable
	NodePort int32 `json:"nodePort,omitempty"`
}

// Status has the fields that the statuses of the three kinds share. Its numbers are those of the Deployment.
type Status struct {
	// observedGeneration is the generation of the spec that this status describes. -1 while the operator has not seen the resource.
	// +kubebuilder:default=-1
	// +kubebuilder:example=`3`
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase is Creating (the pods have not been ready yet), Running, Updating (the pods were ready, but are not ready now), Degraded (an
	// object does not work) or Failed (the operator cannot continue).
	// +kubebuilder:example=`Running`
	// +optional
	Phase string `json:"phase,omitempty"`

	// reason is one word for the cause of the phase.
	// +kubebuilder:example=`Settled`
	// +optional
	Reason string `json:"reason,omitempty"`

	// message describes the state, or the problem and what a person can do.
	// +kubebuilder:example=`2 of 2 pods are ready`
	// +optional
	Message string `json:"message,omitempty"`

	// ready is the number of ready pods and the number of wanted pods: 2/2. Empty without a Deployment.
	// +kubebuilder:example=`2/2`
	// +optional
	Ready string `json:"ready,omitempty"`

	// replicas is the number of pods that exist. For a CronTab without seconds, replicas is the number of pods of a run.
	// +kubebuilder:example=`2`
	// +optional
	Replicas int32 `json:"replicas"`

	// updatedReplicas is the number of pods of the latest spec.
	// +kubebuilder:example=`2`
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas,omitempty"`

	// readyReplicas is the number of ready pods.
	// +kubebuilder:example=`2`
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`

	// availableReplicas is the number of pods that have been ready for minReadySeconds.
	// +kubebuilder:example=`2`
	// +optional
	AvailableReplicas int32 `json:"availableReplicas,omitempty"`

	// unavailableReplicas is the number of pods that are missing or not available.
	// +kubebuilder:example=`1`
	// +optional
	UnavailableReplicas int32 `json:"unavailableReplicas,omitempty"`

	// labelSelector selects the pods, for the scale subresource.
	// +kubebuilder:example=`app.kubernetes.io/instance=nginx-app`
	// +optional
	LabelSelector string `json:"labelSelector,omitempty"`

	// conditions are Ready, Progressing and Degraded; Reconciling and Stalled are present only while true.
	// +kubebuilder:example=`[{type: Ready, status: "True", reason: Settled}]`
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
