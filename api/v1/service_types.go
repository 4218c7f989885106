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

// ObjectName sets the name of a component's objects.
type ObjectName struct {
	// name of the objects. The name of mysql, redis, etcd or mongodb may not be changed while the component runs in the
	// cluster. Default: the name of the component; mysql-dataservice for mysql.
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:example=`auth-blue`
	// +optional
	// +nullable
	Name string `json:"name,omitempty"`
}

// AdditionalService is a service of the user's own. If the service depends on mysql, redis, etcd, mongodb, eureka
// or uuc, its environment has their addresses, and the accounts of mysql and redis.
//
// +kubebuilder:validation:XValidation:rule="!(self.name in ['mysql', 'uuc', 'eureka', 'api-manager', 'auth', 'ds-adapter', 'es-adapter', 'trd-adapter', 'gateway-master', 'gateway-web', 'proxy', 'web', 'platform'])",fieldPath=".name",message="must not be the name of a built-in component, nor 'platform': choose another name"
// +kubebuilder:validation:XValidation:rule="has(self.image)",fieldPath=".image",reason=FieldValueRequired,message="must be set: an additional service has no built-in image"
type AdditionalService struct {
	// name of the service and of its objects.
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:example=`reports`
	Name string `json:"name"`

	// kind is Deployment, StatefulSet (stable pod names) or DaemonSet (a pod on each node).
	// +kubebuilder:validation:Enum=Deployment;StatefulSet;DaemonSet
	// +kubebuilder:default=Deployment
	// +kubebuilder:example=`StatefulSet`
	// +optional
	Kind string `json:"kind,omitempty"`

	Workload      `json:",inline"`
	ServiceFields `json:",inline"`

	// ingress publishes the service under a host name.
	// +kubebuilder:example=`{host: data.example.com}`
	// +optional
	// +nullable
	Ingress *Ingress `json:"ingress,omitempty"`

	// httpRoute publishes the service through Gateways of the Gateway API.
	// +kubebuilder:example=`{gateways: [{name: public}], hosts: [data.example.com]}`
	// +optional
	// +nullable
	HTTPRoute *HTTPRoute `json:"httpRoute,omitempty"`
}

// ServiceFields are the fields of a service that other workloads lack.
type ServiceFields struct {
	// ports (Port) are further ports of the container and the Service. An entry with the main port's number replaces the
	// main port.
	// +kubebuilder:example=`[{name: metrics, port: 9090}]`
	// +optional
	// +nullable
	Ports []Object `json:"ports,omitempty"`

	// sessionAffinity is None (any pod serves a client) or ClientIP (the same pod serves all requests of a client).
	// +kubebuilder:validation:Enum=None;ClientIP
	// +kubebuilder:default=None
	// +kubebuilder:example=`ClientIP`
	// +optional
	SessionAffinity corev1.ServiceAffinity `json:"sessionAffinity,omitempty"`

	// strategy is RollingUpdate (replaces pods gradually) or Recreate (stops all pods first; kind Deployment only).
	// +kubebuilder:validation:Enum=RollingUpdate;Recreate
	// +kubebuilder:default=RollingUpdate
	// +kubebuilder:example=`Recreate`
	// +optional
	Strategy string `json:"strategy,omitempty"`

	// rollingUpdate limits the pods that an update replaces at once. Default: one additional pod, and no missing pod.
	// +kubebuilder:example=`{maxSurge: 25%, maxUnavailable: 1}`
	// +optional
	// +nullable
	RollingUpdate *Object `json:"rollingUpdate,omitempty"`

	// minReadySeconds is the time in seconds for which a new pod must be ready before it counts as available. Default: 0.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	// +kubebuilder:example=`10`
	// +optional
	// +nullable
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`

	// progressDeadlineSeconds is the time without progress of an update after which the component becomes
	// Degraded. Default: 600 + minReadySeconds.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	// +kubebuilder:example=`300`
	// +optional
	// +nullable
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`

	// autoscaling creates a HorizontalPodAutoscaler, which then sets the number of pods.
	// +kubebuilder:example=`{min: 2, max: 5, cpu: 70}`
	// +optional
	// +nullable
	Autoscaling *Autoscaling `json:"autoscaling,omitempty"`

	// disruptionBudget configures a PodDisruptionBudget. Default: maxUnavailable 1 for more than one pod, else none.
	// +kubebuilder:example=`{minAvailable: 50%}`
	// +optional
	// +nullable
	DisruptionBudget *Object `json:"disruptionBudget,omitempty"`
}

// Published is a service that clients outside the cluster call.
type Published struct {
	Service `json:",inline"`

	// ingress publishes the service under a host name.
	// +kubebuilder:example=`{host: data.example.com}`
	// +optional
	// +nullable
	Ingress *Ingress `json:"ingress,omitempty"`

	// httpRoute publishes the service through Gateways of the Gateway API.
	// +kubebuilder:example=`{gateways: [{name: public}], hosts: [data.example.com]}`
	// +optional
	// +nullable
	HTTPRoute *HTTPRoute `json:"httpRoute,omitempty"`
}

// Port is a port of a container and of its Service.
type Port struct {
	// name of the port.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:example=`metrics`
	Name string `json:"name"`

	// port is the port of the Service.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:example=`9090`
	Port int32 `json:"port"`

	// targetPort is the port of the container, or its name. Default: the value of port.
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:example=`8080`
	// +optional
	// +nullable
	TargetPort *intstr.IntOrString `json:"targetPort,omitempty"`

	// protocol is TCP, UDP or SCTP.
	// +kubebuilder:validation:Enum=TCP;UDP;SCTP
	// +kubebuilder:default=TCP
	// +kubebuilder:example=`UDP`
	// +optional
	Protocol corev1.Protocol `json:"protocol,omitempty"`

	// nodePort opens this port on every node. Default: chosen by Kubernetes if the Service type has node ports.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:example=`30190`
	// +optional
	// +nullable
	NodePort *int32 `json:"nodePort,omitempty"`
}

// RollingUpdate limits the pods that an update replaces at once.
type RollingUpdate struct {
	// maxSurge is the number or percentage of pods in addition to replica. Default: 1.
	// +kubebuilder:example=`25%`
	// +optional
	// +nullable
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`

	// maxUnavailable is the number or percentage of pods that may be missing. Default: 0.
	// +kubebuilder:example=`1`
	// +optional
	// +nullable
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// Autoscaling is a HorizontalPodAutoscaler.
//
// +kubebuilder:validation:XValidation:rule="self.max >= self.min",fieldPath=".max",message="max must not be less than min"
type Autoscaling struct {
	// min is the lowest number of pods.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=1
	// +kubebuilder:example=`2`
	// +optional
	Min int32 `json:"min,omitempty"`

	// max is the highest number of pods.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:example=`5`
	Max int32 `json:"max"`

	// cpu is the target CPU usage, in percent of the request. Default: 80 if memory is not set.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:example=`70`
	// +optional
	// +nullable
	CPU *int32 `json:"cpu,omitempty"`

	// memory is the target memory usage, in percent of the request.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:example=`80`
	// +optional
	// +nullable
	Memory *int32 `json:"memory,omitempty"`
}

// DisruptionBudget is a PodDisruptionBudget: either minAvailable or maxUnavailable.
type DisruptionBudget struct {
	// disabled means no PodDisruptionBudget.
	// +kubebuilder:default=false
	// +kubebuilder:example=`true`
	// +optional
	Disabled bool `json:"disabled,omitempty"`

	// minAvailable is the number or percentage of pods that must stay available.
	// +kubebuilder:example=`50%`
	// +optional
	// +nullable
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`

	// maxUnavailable is the number or percentage of pods that may be evicted at once. Default: 1.
	// +kubebuilder:example=`1`
	// +optional
	// +nullable
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// Ingress publishes a service under a host name.
type Ingress struct {
	// host is the host name; it may start with a wildcard label.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([*][.])?[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +kubebuilder:example=`data.example.com`
	Host string `json:"host"`

	// path is the path prefix of the requests that are routed to the service.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/`
	// +kubebuilder:default=/
	// +kubebuilder:example=`/console`
	// +optional
	Path string `json:"path,omitempty"`

	// tlsSecret names the Secret with the certificate and key of the host. Default: none, plain HTTP.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:example=`data-example-com`
	// +optional
	// +nullable
	TLSSecret string `json:"tlsSecret,omitempty"`

	// className is the ingress class. Default: the cluster's default.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:example=`nginx`
	// +optional
	// +nullable
	ClassName string `json:"className,omitempty"`

	// annotations of the Ingress.
	// +kubebuilder:example=`{nginx.ingress.kubernetes.io/proxy-body-size: "0"}`
	// +optional
	// +nullable
	Annotations map[string]string `json:"annotations,omitempty"`
}

// HTTPRoute publishes a service through Gateways of the Gateway API.
type HTTPRoute struct {
	// gateways carry the route (parentRefs).
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:example=`[{name: public, namespace: gateways}]`
	// +listType=atomic
	Gateways []Gateway `json:"gateways"`

	// hosts are host names; each may start with a wildcard label. Default: the host names of the listeners.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^([*][.])?[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +kubebuilder:example=`[data.example.com]`
	// +listType=atomic
	// +optional
	// +nullable
	Hosts []string `json:"hosts,omitempty"`

	// path is the path prefix of the requests that are routed to the service.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/`
	// +kubebuilder:default=/
	// +kubebuilder:example=`/console`
	// +optional
	Path string `json:"path,omitempty"`

	// annotations of the HTTPRoute.
	// +kubebuilder:example=`{example.com/team: data}`
	// +optional
	// +nullable
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Gateway names a Gateway, or one of its listeners.
type Gateway struct {
	// name of the Gateway.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:example=`public`
	Name string `json:"name"`

	// namespace of the Gateway. Default: the namespace of the DataService.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:example=`gateways`
	// +optional
	// +nullable
	Namespace string `json:"namespace,omitempty"`

	// sectionName is the name of a listener. Default: all listeners that accept the route.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:example=`https`
	// +optional
	// +nullable
	SectionName string `json:"sectionName,omitempty"`
}
