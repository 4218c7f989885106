// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"d3os.com/d3os-operator/api/compat"
)

// AppService is a Deployment and, with ports, a Service of type NodePort. Both have the name of the resource.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.size,statuspath=.status.replicas,selectorpath=.status.labelSelector
// +kubebuilder:resource:categories=all
// +kubebuilder:printcolumn:name="Size",type=integer,JSONPath=`.spec.size`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 50 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be a letter followed by letters, digits and '-', 50 characters at most: it is the name of the Service"
type AppService struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +kubebuilder:example=`{size: 2, image: "nginx:1.7.9"}`
	Spec AppServiceSpec `json:"spec"`

	// status is the observed state.
	// +kubebuilder:default={}
	// +kubebuilder:example=`{phase: Running, ready: 2/2}`
	// +optional
	Status AppServiceStatus `json:"status,omitempty"`
}

// AppServiceList is a list of AppServices.
//
// +kubebuilder:object:root=true
type AppServiceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AppService `json:"items"`
}

// AppServiceSpec is the desired state of an AppService.
type AppServiceSpec struct {
	// size is the number of pods: 0 to 1000.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:example=`2`
	// +optional
	Size *int32 `json:"size,omitempty"`

	compat.Container `json:",inline"`

	// ports are the ports of the Service. Each port has port, and may have targetPort, nodePort, name and protocol. Default: no ports, and no
	// Service.
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="self.all(p, self.exists_one(q, q.port == p.port && q.protocol == p.protocol))",message="must not have a port twice for one protocol"
	// +kubebuilder:validation:XValidation:rule="self.all(p, !has(p.name) || self.exists_one(q, has(q.name) && q.name == p.name))",message="must have different names"
	// +kubebuilder:example=`[{port: 80, targetPort: 80, nodePort: 30002}]`
	// +listType=atomic
	// +optional
	// +nullable
	Ports []compat.Port `json:"ports,omitempty"`
}

// AppServiceStatus is the observed state of an AppService.
type AppServiceStatus struct {
	compat.Status `json:",inline"`
}
