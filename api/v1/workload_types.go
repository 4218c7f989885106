// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	corev1 "k8s.io/api/core/v1"
)

// CRD enums reject null, so optional fields without a default use a pattern that lists their values.

// Workload are the fields of every component, middleware or service.
type Workload struct {
	// image of the container. Default: the component's built-in image; an additional service must set one.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._/:@-]*$`
	// +kubebuilder:example=`registry.example.com/team/auth:v2`
	// +optional
	// +nullable
	Image string `json:"image,omitempty"`

	// port of the container and its Service. Default: the component's built-in port; an additional service has none.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:example=`8080`
	// +optional
	// +nullable
	Port *int32 `json:"port,omitempty"`

	// nodePort opens this port on every node. Default: 0, none.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:example=`30180`
	// +optional
	// +nullable
	NodePort *int32 `json:"nodePort,omitempty"`

	// replica is the number of pods. Default: 1, or the number that an autoscaler sets.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:example=`2`
	// +optional
	// +nullable
	Replica *int32 `json:"replica,omitempty"`

	// dependsOn names components that must be ready before this component is created or changed, in
	// addition to the built-in order.
	// +kubebuilder:example=`[auth]`
	// +listType=set
	// +optional
	// +nullable
	DependsOn []ComponentName `json:"dependsOn,omitempty"`

	// serviceType is ClusterIP (inside the cluster), NodePort (a port on every node), LoadBalancer, or
	// Headless (without an address). Default: ClusterIP, or NodePort with a nodePort.
	// +kubebuilder:validation:Pattern=`^(ClusterIP|NodePort|LoadBalancer|Headless)$`
	// +kubebuilder:example=`LoadBalancer`
	// +optional
	// +nullable
	ServiceType string `json:"serviceType,omitempty"`

	// serviceAnnotations are annotations of the Service.
	// +kubebuilder:example=`{example.com/pool: internal}`
	// +optional
	// +nullable
	ServiceAnnotations map[string]string `json:"serviceAnnotations,omitempty"`

	// serviceLabels are labels of the Service.
	// +kubebuilder:example=`{monitored: "yes"}`
	// +optional
	// +nullable
	ServiceLabels map[string]string `json:"serviceLabels,omitempty"`

	ContainerFields  `json:",inline"`
	PodFields        `json:",inline"`
	SchedulingFields `json:",inline"`
}

// ComponentName is the key of a component in the spec, or its name in additionalServices or cronJobs.
type ComponentName string

// Size selects the CPU and memory of a component's container. The charts' values define the
// amounts; docs/services.md has the table.
//
// +kubebuilder:validation:Pattern=`^(small|medium|large|custom)$`
type Size string

// SizeCustom takes its amounts from the field resources.
const SizeCustom Size = "custom"

// ContainerFields configure a component's main container.
type ContainerFields struct {
	// size is small, medium, large, or custom (the amounts in resources). Default: the size in spec.defaults for a
	// service, else the built-in amounts.
	// +kubebuilder:example=`medium`
	// +optional
	// +nullable
	Size Size `json:"size,omitempty"`

	// resources (ResourceRequirements) are the requests and limits for size custom.
	// +kubebuilder:example=`{requests: {cpu: 100m}}`
	// +optional
	// +nullable
	Resources *Object `json:"resources,omitempty"`

	// command replaces the image's entrypoint.
	// +kubebuilder:example=`[/bin/server]`
	// +optional
	// +nullable
	Command []string `json:"command,omitempty"`

	// args replace the image's arguments.
	// +kubebuilder:example=`["--verbose"]`
	// +optional
	// +nullable
	Args []string `json:"args,omitempty"`

	// env sets variables of the container. They override the built-in variables.
	// +kubebuilder:validation:MaxProperties=500
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.matches('^[A-Za-z_.-][A-Za-z0-9_.-]*$'))",message="the name of an environment variable must consist of letters, digits, '_', '-' or '.' and not start with a digit"
	// +kubebuilder:example=`{JAVA_OPTS: "-Xmx512m"}`
	// +optional
	// +nullable
	Env map[string]string `json:"env,omitempty"`

	// envs (EnvVar) sets variables with all fields of Kubernetes, such as valueFrom. A variable in envs overrides the variable of the same name in env.
	// +kubebuilder:example=`[{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]`
	// +optional
	// +nullable
	Envs []Object `json:"envs,omitempty"`

	// envFrom (EnvFromSource) sets a variable for each key of a ConfigMap or Secret. env and envs
	// override them.
	// +kubebuilder:example=`[{configMapRef: {name: settings}}]`
	// +optional
	// +nullable
	EnvFrom []Object `json:"envFrom,omitempty"`

	// volumeMounts (VolumeMount) are additional mounts of the container.
	// +kubebuilder:example=`[{name: cache, mountPath: /cache}]`
	// +optional
	// +nullable
	VolumeMounts []Object `json:"volumeMounts,omitempty"`

	// imagePullPolicy is Always (ask the registry at each start), IfNotPresent (pull a missing image), or Never (the node
	// must have the image).
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	// +kubebuilder:default=IfNotPresent
	// +kubebuilder:example=`Always`
	// +optional
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// securityContext of the container. Each field replaces the same field of the default.
	// +kubebuilder:example=`{readOnlyRootFilesystem: true}`
	// +optional
	// +nullable
	SecurityContext *Object `json:"securityContext,omitempty"`
}

// PodFields configure a component's pods.
type PodFields struct {
	// probes (Probes) configures the health checks. Default: TCP connections to port.
	// +kubebuilder:example=`{path: /actuator/health, liveness: {disabled: true}}`
	// +optional
	// +nullable
	Probes *Object `json:"probes,omitempty"`

	// config holds settings by name. They override or extend the built-in settings file.
	// +kubebuilder:example=`{spring.rabbitmq.host: rabbitmq.example.com}`
	// +optional
	// +nullable
	Config map[string]string `json:"config,omitempty"`

	// configFiles (ConfigFile) are mounted at their paths; they replace built-in files.
	// +kubebuilder:example=`[{path: /config/logback.xml, content: "<configuration/>"}]`
	// +optional
	// +nullable
	ConfigFiles []Object `json:"configFiles,omitempty"`

	// initContainers (Container) run before the component's container.
	// +kubebuilder:example=`[{name: wait, image: busybox:1.37, command: ["true"]}]`
	// +optional
	// +nullable
	InitContainers []Object `json:"initContainers,omitempty"`

	// sidecars (Container) run next to the component's container.
	// +kubebuilder:example=`[{name: logs, image: fluent/fluent-bit:4.1.0}]`
	// +optional
	// +nullable
	Sidecars []Object `json:"sidecars,omitempty"`

	// volumes (Volume) are additional volumes of the pods.
	// +kubebuilder:example=`[{name: cache, emptyDir: {}}]`
	// +optional
	// +nullable
	Volumes []Object `json:"volumes,omitempty"`

	// serviceAccountName is the service account of the pods. No token is mounted. Default: the namespace's default
	// account.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:example=`runner`
	// +optional
	// +nullable
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// annotations are additional annotations of the pods.
	// +kubebuilder:example=`{example.com/team: data}`
	// +optional
	// +nullable
	Annotations map[string]string `json:"annotations,omitempty"`

	// podSecurityContext is the security context of the pods. Each field replaces the same field of the default.
	// +kubebuilder:example=`{fsGroup: 2000}`
	// +optional
	// +nullable
	PodSecurityContext *Object `json:"podSecurityContext,omitempty"`

	// podTemplate (PodTemplateSpec) is merged into the pod template last, for everything that has no field here.
	// +kubebuilder:example=`{spec: {hostAliases: [{ip: "192.0.2.1", hostnames: [db]}]}}`
	// +optional
	// +nullable
	PodTemplate *Object `json:"podTemplate,omitempty"`
}
