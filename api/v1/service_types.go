// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Service is one of the platform's services or its web front end.
type Service struct {
	ObjectName    `json:",inline"`
	Workload      `json:",inline"`
	ServiceFields `json:",inline"`
}

// ObjectName is what a component's objects are called.
type ObjectName struct {
	// Name of the objects. Default: the component's own.
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:example=`auth-blue`
	// +optional
	// +nullable
	Name string `json:"name,omitempty"`
}

// AdditionalService is a service of the user's own. One that depends on mysql, eureka or uuc
// finds their addresses and the database account in its environment.
//
// +kubebuilder:validation:XValidation:rule="!(self.name in ['mysql', 'uuc', 'eureka', 'api-manager', 'auth', 'ds-adapter', 'es-adapter', 'trd-adapter', 'gateway-master', 'gateway-web', 'proxy', 'web', 'platform'])",fieldPath=".name",message="that is a name of the platform's own; choose another"
// +kubebuilder:validation:XValidation:rule="has(self.image)",fieldPath=".image",reason=FieldValueRequired,message="an additional service needs an image"
type AdditionalService struct {
	// Name of the service and of its objects.
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:example=`reports`
	Name string `json:"name"`

	// Kind is Deployment, StatefulSet or DaemonSet.
	// +kubebuilder:validation:Enum=Deployment;StatefulSet;DaemonSet
	// +kubebuilder:default=Deployment
	// +kubebuilder:example=`StatefulSet`
	// +optional
	Kind string `json:"kind,omitempty"`

	Workload      `json:",inline"`
	ServiceFields `json:",inline"`

	// Ingress publishes the service under a host name.
	// +kubebuilder:example=`{host: data.example.com}`
	// +optional
	// +nullable
	Ingress *Ingress `json:"ingress,omitempty"`
}

// ServiceFields are what a service has beyond other workloads.
type ServiceFields struct {
	// Ports (Port) beside the main one, of container and Service.
	// +kubebuilder:example=`[{name: metrics, port: 9090}]`
	// +optional
	// +nullable
	Ports []Object `json:"ports,omitempty"`

	// SessionAffinity ClientIP keeps a client at one pod.
	// +kubebuilder:validation:Enum=None;ClientIP
	// +kubebuilder:default=None
	// +kubebuilder:example=`ClientIP`
	// +optional
	SessionAffinity corev1.ServiceAffinity `json:"sessionAffinity,omitempty"`

	// Strategy Recreate stops all pods before new ones start.
	// +kubebuilder:validation:Enum=RollingUpdate;Recreate
	// +kubebuilder:default=RollingUpdate
	// +kubebuilder:example=`Recreate`
	// +optional
	Strategy string `json:"strategy,omitempty"`

	// RollingUpdate is the pace of updates. Default: one pod more, none less.
	// +kubebuilder:example=`{maxSurge: 25%, maxUnavailable: 1}`
	// +optional
	// +nullable
	RollingUpdate *Object `json:"rollingUpdate,omitempty"`

	// MinReadySeconds until a new pod counts as ready. Default: 0.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	// +kubebuilder:example=`10`
	// +optional
	// +nullable
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`

	// ProgressDeadlineSeconds until a stuck update fails. Default: 600 + minReadySeconds.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	// +kubebuilder:example=`300`
	// +optional
	// +nullable
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`

	// Autoscaling leaves the number of pods to an autoscaler.
	// +kubebuilder:example=`{min: 2, max: 5, cpu: 70}`
	// +optional
	// +nullable
	Autoscaling *Autoscaling `json:"autoscaling,omitempty"`

	// DisruptionBudget. Default: one pod, of several.
	// +kubebuilder:example=`{minAvailable: 50%}`
	// +optional
	// +nullable
	DisruptionBudget *Object `json:"disruptionBudget,omitempty"`
}

// Published is a service that clients outside the cluster call.
type Published struct {
	Service `json:",inline"`

	// Ingress publishes the service under a host name.
	// +kubebuilder:example=`{host: data.example.com}`
	// +optional
	// +nullable
	Ingress *Ingress `json:"ingress,omitempty"`
}

// Port is a port of a container and of its Service.
type Port struct {
	// Name of the port.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:example=`metrics`
	Name string `json:"name"`

	// Port of the Service.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:example=`9090`
	Port int32 `json:"port"`

	// TargetPort is the container's port, or its name. Default: port.
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:example=`8080`
	// +optional
	// +nullable
	TargetPort *intstr.IntOrString `json:"targetPort,omitempty"`

	// Protocol is TCP, UDP or SCTP.
	// +kubebuilder:validation:Enum=TCP;UDP;SCTP
	// +kubebuilder:default=TCP
	// +kubebuilder:example=`UDP`
	// +optional
	Protocol corev1.Protocol `json:"protocol,omitempty"`

	// NodePort on every node. Default: chosen where there is one.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:example=`30190`
	// +optional
	// +nullable
	NodePort *int32 `json:"nodePort,omitempty"`
}

// RollingUpdate is the pace of an update, each a number of pods or a percentage.
type RollingUpdate struct {
	// MaxSurge is how many pods there may be beyond replica. Default: 1.
	// +kubebuilder:example=`25%`
	// +optional
	// +nullable
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`

	// MaxUnavailable is how many pods may be missing. Default: 0.
	// +kubebuilder:example=`1`
	// +optional
	// +nullable
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// Autoscaling is a HorizontalPodAutoscaler.
//
// +kubebuilder:validation:XValidation:rule="self.max >= self.min",fieldPath=".max",message="max must not be less than min"
type Autoscaling struct {
	// Min is the least number of pods.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=1
	// +kubebuilder:example=`2`
	// +optional
	Min int32 `json:"min,omitempty"`

	// Max is the greatest number of pods.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:example=`5`
	Max int32 `json:"max"`

	// CPU use to aim at, in percent of the request. Default: 80, without memory.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:example=`70`
	// +optional
	// +nullable
	CPU *int32 `json:"cpu,omitempty"`

	// Memory use to aim at, in percent of the request.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:example=`80`
	// +optional
	// +nullable
	Memory *int32 `json:"memory,omitempty"`
}

// DisruptionBudget is a PodDisruptionBudget: either minAvailable or maxUnavailable.
type DisruptionBudget struct {
	// Disabled leaves it out.
	// +kubebuilder:default=false
	// +kubebuilder:example=`true`
	// +optional
	Disabled bool `json:"disabled,omitempty"`

	// MinAvailable is how many pods must stay.
	// +kubebuilder:example=`50%`
	// +optional
	// +nullable
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`

	// MaxUnavailable is how many pods may go. Default: 1.
	// +kubebuilder:example=`1`
	// +optional
	// +nullable
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// Ingress publishes a service under a host name.
type Ingress struct {
	// Host name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([*][.])?[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +kubebuilder:example=`data.example.com`
	Host string `json:"host"`

	// Path below which requests go to the service.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/`
	// +kubebuilder:default=/
	// +kubebuilder:example=`/console`
	// +optional
	Path string `json:"path,omitempty"`

	// TLSSecret holds the host's certificate and key. Default: none, plain HTTP.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:example=`data-example-com`
	// +optional
	// +nullable
	TLSSecret string `json:"tlsSecret,omitempty"`

	// ClassName of the ingress. Default: the cluster's default.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:example=`nginx`
	// +optional
	// +nullable
	ClassName string `json:"className,omitempty"`

	// Annotations of the Ingress.
	// +kubebuilder:example=`{nginx.ingress.kubernetes.io/proxy-body-size: "0"}`
	// +optional
	// +nullable
	Annotations map[string]string `json:"annotations,omitempty"`
}
