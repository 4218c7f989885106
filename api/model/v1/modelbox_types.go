// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"d3os.com/d3os-operator/api/compat"
)

// ModelBox is a Deployment and, with ports, a Service of type NodePort. Both have the name of the resource.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.labelSelector
// +kubebuilder:resource:path=modelboxes,categories=all
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 50 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be a letter followed by letters, digits and '-', 50 characters at most: it is the name of the Service"
type ModelBox struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +kubebuilder:example=`{replicas: 4, image: "nginx:1.7.9"}`
	Spec ModelBoxSpec `json:"spec"`

	// status is the observed state.
	// +kubebuilder:default={}
	// +kubebuilder:example=`{phase: Running, ready: 4/4}`
	// +optional
	Status ModelBoxStatus `json:"status,omitempty"`
}

// ModelBoxList is a list of ModelBoxes.
//
// +kubebuilder:object:root=true
type ModelBoxList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ModelBox `json:"items"`
}

// ModelBoxSpec is the desired state of a ModelBox.
type ModelBoxSpec struct {
	// name describes the ModelBox. The field has no effect: the objects have the name of the resource.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:example=`nginx`
	// +optional
	// +nullable
	Name string `json:"name,omitempty"`

	// replicas is the number of pods: 0 to 1000.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:example=`4`
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	compat.Container `json:",inline"`

	// ports are the ports of the Service. Each port has port, and may have targetPort, nodePort, name and protocol. Default: no ports, and no
	// Service.
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="self.all(p, self.exists_one(q, q.port == p.port && q.protocol == p.protocol))",message="must not have a port twice for one protocol"
	// +kubebuilder:validation:XValidation:rule="self.all(p, !has(p.name) || self.exists_one(q, has(q.name) && q.name == p.name))",message="must have different names"
	// +kubebuilder:example=`[{port: 80, targetPort: 80, nodePort: 30010}]`
	// +listType=atomic
	// +optional
	// +nullable
	Ports []compat.Port `json:"ports,omitempty"`

	// rollingUpdate is the maximum percentage of missing pods during an update, and also the maximum percentage of additional pods: 1% to 100%.
	// Default: one additional pod, and no missing pod.
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="self.matches('^([1-9]|[1-9][0-9]|100)%$')",message="must be a percentage from 1% to 100%"
	// +kubebuilder:example=`30%`
	// +optional
	// +nullable
	RollingUpdate string `json:"rollingUpdate,omitempty"`

	// minReadySeconds is the time in seconds for which a new pod must be ready before it counts as available.
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	// +kubebuilder:example=`10`
	// +optional
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`

	// readinessProbe decides whether a pod gets connections. A probe without a handler connects to the first port. Default: a
	// connection to the first port if it is a TCP port, else no probe.
	// +kubebuilder:example=`{httpGet: {path: /, port: 80}}`
	// +optional
	// +nullable
	ReadinessProbe *corev1.Probe `json:"readinessProbe,omitempty"`

	// livenessProbe decides whether the container is restarted. A probe without a handler connects to the first port. Default: a
	// connection to the first port if it is a TCP port, else no probe.
	// +kubebuilder:example=`{httpGet: {path: /, port: 80}}`
	// +optional
	// +nullable
	LivenessProbe *corev1.Probe `json:"livenessProbe,omitempty"`
}

// ModelBoxStatus is the observed state of a ModelBox.
type ModelBoxStatus struct {
	compat.Status `json:",inline"`
}
