// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	corev1 "k8s.io/api/core/v1"
)

// An enumeration refuses null. So where a field has no default, which would take null's place, a
// pattern lists its values.

// Workload is what every component has, whether middleware or service.
type Workload struct {
	// Image of the container. Default: the product's.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._/:@-]*$`
	// +kubebuilder:example=`registry.example.com/team/auth:v2`
	// +optional
	// +nullable
	Image string `json:"image,omitempty"`

	// Port of the container. Default: the product's.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:example=`8080`
	// +optional
	// +nullable
	Port *int32 `json:"port,omitempty"`

	// NodePort publishes it on every node. Default: 0, no.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:example=`30180`
	// +optional
	// +nullable
	NodePort *int32 `json:"nodePort,omitempty"`

	// Replica is the number of pods; autoscaling replaces it.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=1
	// +kubebuilder:example=`2`
	// +optional
	Replica *int32 `json:"replica,omitempty"`

	// DependsOn names further components to wait for.
	// +kubebuilder:example=`[auth]`
	// +listType=set
	// +optional
	// +nullable
	DependsOn []ComponentName `json:"dependsOn,omitempty"`

	// ServiceType is ClusterIP, NodePort, LoadBalancer or Headless. Default: ClusterIP, or NodePort
	// with a nodePort.
	// +kubebuilder:validation:Pattern=`^(ClusterIP|NodePort|LoadBalancer|Headless)$`
	// +kubebuilder:example=`LoadBalancer`
	// +optional
	// +nullable
	ServiceType string `json:"serviceType,omitempty"`

	// ServiceAnnotations are annotations of the Service.
	// +kubebuilder:example=`{example.com/pool: internal}`
	// +optional
	// +nullable
	ServiceAnnotations map[string]string `json:"serviceAnnotations,omitempty"`

	// ServiceLabels are further labels of the Service.
	// +kubebuilder:example=`{monitored: "yes"}`
	// +optional
	// +nullable
	ServiceLabels map[string]string `json:"serviceLabels,omitempty"`

	ContainerFields  `json:",inline"`
	PodFields        `json:",inline"`
	SchedulingFields `json:",inline"`
}

// ComponentName is the name of a component: its key in the spec, or its name in
// additionalServices or cronJobs.
type ComponentName string

// Size is how much a component's container gets, by meaning. The charts' values say how much
// that is; docs/operations.md has the table.
//
// +kubebuilder:validation:Pattern=`^(small|medium|large|custom)$`
type Size string

// SizeCustom is the size whose amounts the field resources gives.
const SizeCustom Size = "custom"

// ContainerFields are what the spec says of a component's own container.
type ContainerFields struct {
	// Size is small, medium, large or custom. Default: the product's.
	// +kubebuilder:example=`medium`
	// +optional
	// +nullable
	Size Size `json:"size,omitempty"`

	// Resources (ResourceRequirements) are the amounts of size custom.
	// +kubebuilder:example=`{requests: {cpu: 100m}}`
	// +optional
	// +nullable
	Resources *Object `json:"resources,omitempty"`

	// Command replaces the image's entrypoint.
	// +kubebuilder:example=`[/bin/server]`
	// +optional
	// +nullable
	Command []string `json:"command,omitempty"`

	// Args replace the image's arguments.
	// +kubebuilder:example=`["--verbose"]`
	// +optional
	// +nullable
	Args []string `json:"args,omitempty"`

	// Env are variables of the container; they win over its own.
	// +kubebuilder:validation:MaxProperties=500
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.matches('^[A-Za-z_.-][A-Za-z0-9_.-]*$'))",message="the name of an environment variable must consist of letters, digits, '_', '-' or '.' and not start with a digit"
	// +kubebuilder:example=`{JAVA_OPTS: "-Xmx512m"}`
	// +optional
	// +nullable
	Env map[string]string `json:"env,omitempty"`

	// Envs (EnvVar) are variables, with valueFrom and all; they win over env.
	// +kubebuilder:example=`[{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]`
	// +optional
	// +nullable
	Envs []Object `json:"envs,omitempty"`

	// EnvFrom (EnvFromSource) makes variables of ConfigMaps and Secrets.
	// +kubebuilder:example=`[{configMapRef: {name: settings}}]`
	// +optional
	// +nullable
	EnvFrom []Object `json:"envFrom,omitempty"`

	// VolumeMounts (VolumeMount) of the container.
	// +kubebuilder:example=`[{name: cache, mountPath: /cache}]`
	// +optional
	// +nullable
	VolumeMounts []Object `json:"volumeMounts,omitempty"`

	// ImagePullPolicy is Always, IfNotPresent or Never.
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	// +kubebuilder:default=IfNotPresent
	// +kubebuilder:example=`Always`
	// +optional
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// SecurityContext of the container, field by field over the default.
	// +kubebuilder:example=`{readOnlyRootFilesystem: true}`
	// +optional
	// +nullable
	SecurityContext *Object `json:"securityContext,omitempty"`
}

// PodFields are what the spec says of a component's pods.
type PodFields struct {
	// Probes (Probes) of health. Default: TCP, to the port.
	// +kubebuilder:example=`{path: /actuator/health, liveness: {disabled: true}}`
	// +optional
	// +nullable
	Probes *Object `json:"probes,omitempty"`

	// Config holds settings by name, over the product's own file.
	// +kubebuilder:example=`{spring.rabbitmq.host: rabbitmq.example.com}`
	// +optional
	// +nullable
	Config map[string]string `json:"config,omitempty"`

	// ConfigFiles (ConfigFile) are mounted at their paths, over the product's.
	// +kubebuilder:example=`[{path: /config/logback.xml, content: "<configuration/>"}]`
	// +optional
	// +nullable
	ConfigFiles []Object `json:"configFiles,omitempty"`

	// InitContainers (Container) run before the component's container.
	// +kubebuilder:example=`[{name: wait, image: busybox:1.37, command: ["true"]}]`
	// +optional
	// +nullable
	InitContainers []Object `json:"initContainers,omitempty"`

	// Sidecars (Container) run beside the component's container.
	// +kubebuilder:example=`[{name: logs, image: fluent/fluent-bit:4.1.0}]`
	// +optional
	// +nullable
	Sidecars []Object `json:"sidecars,omitempty"`

	// Volumes (Volume) of the pods, beside the component's own.
	// +kubebuilder:example=`[{name: cache, emptyDir: {}}]`
	// +optional
	// +nullable
	Volumes []Object `json:"volumes,omitempty"`

	// ServiceAccountName of the pods. No token is mounted.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:example=`runner`
	// +optional
	// +nullable
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// Annotations of the pods.
	// +kubebuilder:example=`{example.com/team: data}`
	// +optional
	// +nullable
	Annotations map[string]string `json:"annotations,omitempty"`

	// PodSecurityContext of the pods, field by field over the default.
	// +kubebuilder:example=`{fsGroup: 2000}`
	// +optional
	// +nullable
	PodSecurityContext *Object `json:"podSecurityContext,omitempty"`

	// PodTemplate (PodTemplateSpec) is merged over the pods, for all else.
	// +kubebuilder:example=`{spec: {hostAliases: [{ip: "192.0.2.1", hostnames: [db]}]}}`
	// +optional
	// +nullable
	PodTemplate *Object `json:"podTemplate,omitempty"`
}

// SchedulingFields say where pods run and what they are labelled with, for one component or, in
// defaults, for all.
type SchedulingFields struct {
	// ImagePullSecrets (LocalObjectReference) to use.
	// +kubebuilder:example=`[{name: registry}]`
	// +optional
	// +nullable
	ImagePullSecrets []Object `json:"imagePullSecrets,omitempty"`

	// Labels of the objects and pods.
	// +kubebuilder:example=`{team: data}`
	// +optional
	// +nullable
	Labels map[string]string `json:"labels,omitempty"`

	// NodeSelector of the pods.
	// +kubebuilder:example=`{disk: ssd}`
	// +optional
	// +nullable
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// Affinity (Affinity) of the pods.
	// +kubebuilder:example=`{podAntiAffinity: {}}`
	// +optional
	// +nullable
	Affinity *Object `json:"affinity,omitempty"`

	// Tolerations (Toleration) of the pods.
	// +kubebuilder:example=`[{key: dedicated, operator: Exists}]`
	// +optional
	// +nullable
	Tolerations []Object `json:"tolerations,omitempty"`

	// TopologySpreadConstraints of the pods.
	// +kubebuilder:example=`[{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]`
	// +optional
	// +nullable
	TopologySpreadConstraints []Object `json:"topologySpreadConstraints,omitempty"`

	// PriorityClassName of the pods.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:example=`high`
	// +optional
	// +nullable
	PriorityClassName string `json:"priorityClassName,omitempty"`
}

// Probes are the health checks of a component's container. Each is a Probe as Kubernetes knows
// it, field by field over the default, or {disabled: true}.
type Probes struct {
	// Path makes the checks HTTP requests to it. Default: none, they connect only.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/`
	// +kubebuilder:example=`/actuator/health`
	// +optional
	// +nullable
	Path string `json:"path,omitempty"`

	// Startup holds the others back until it succeeds once. Default: up to five minutes.
	// +kubebuilder:example=`{failureThreshold: 120}`
	// +optional
	// +nullable
	Startup *Object `json:"startup,omitempty"`

	// Readiness decides whether the Service sends requests. Default: every 5 s.
	// +kubebuilder:example=`{periodSeconds: 2}`
	// +optional
	// +nullable
	Readiness *Object `json:"readiness,omitempty"`

	// Liveness restarts the container when it fails. Default: every 10 s, after 6 failures.
	// +kubebuilder:example=`{disabled: true}`
	// +optional
	// +nullable
	Liveness *Object `json:"liveness,omitempty"`
}

// ConfigFile is a file in a component's container: its content, or where it comes from.
//
// +kubebuilder:validation:XValidation:rule="[has(self.content), has(self.configMap), has(self.secret)].filter(x, x).size() == 1",message="a file has one of content, configMap and secret"
type ConfigFile struct {
	// Path of the file in the container.
	// +kubebuilder:validation:MaxLength=250
	// +kubebuilder:validation:Pattern=`^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$`
	// +kubebuilder:example=`/config/logback.xml`
	Path string `json:"path"`

	// Content of the file.
	// +kubebuilder:example=`<configuration/>`
	// +optional
	// +nullable
	Content *string `json:"content,omitempty"`

	// ConfigMap that holds the file.
	// +kubebuilder:example=`logging`
	// +optional
	// +nullable
	ConfigMap string `json:"configMap,omitempty"`

	// Secret that holds the file.
	// +kubebuilder:example=`certificates`
	// +optional
	// +nullable
	Secret string `json:"secret,omitempty"`

	// Key of the ConfigMap or Secret. Default: the file's name.
	// +kubebuilder:example=`logback.xml`
	// +optional
	// +nullable
	Key string `json:"key,omitempty"`
}
