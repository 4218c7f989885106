// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// SchedulingFields configure the placement and the labels of pods, for one component or, in
// defaults, for all.
type SchedulingFields struct {
	// imagePullSecrets (LocalObjectReference) are the credentials for pulling images.
	// +kubebuilder:example=`[{name: registry}]`
	// +optional
	// +nullable
	ImagePullSecrets []Object `json:"imagePullSecrets,omitempty"`

	// labels are additional labels of the objects and pods.
	// +kubebuilder:example=`{team: data}`
	// +optional
	// +nullable
	Labels map[string]string `json:"labels,omitempty"`

	// nodeSelector lists the labels that a node must have to run the pods.
	// +kubebuilder:example=`{disk: ssd}`
	// +optional
	// +nullable
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// affinity (Affinity) has the rules for the nodes that the pods prefer or need.
	// +kubebuilder:example=`{podAntiAffinity: {}}`
	// +optional
	// +nullable
	Affinity *Object `json:"affinity,omitempty"`

	// tolerations (Toleration) list the node taints that the pods tolerate.
	// +kubebuilder:example=`[{key: dedicated, operator: Exists}]`
	// +optional
	// +nullable
	Tolerations []Object `json:"tolerations,omitempty"`

	// topologySpreadConstraints spread the pods over nodes or zones.
	// +kubebuilder:example=`[{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]`
	// +optional
	// +nullable
	TopologySpreadConstraints []Object `json:"topologySpreadConstraints,omitempty"`

	// priorityClassName is the priority class of the pods.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:example=`high`
	// +optional
	// +nullable
	PriorityClassName string `json:"priorityClassName,omitempty"`
}

// Probes are the health checks of a component's container. Each is {disabled: true}, or a
// Probe of Kubernetes whose fields override those of the default.
type Probes struct {
	// path is the path of the HTTP requests that check the container. Default: the checks only open a
	// TCP connection.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/`
	// +kubebuilder:example=`/actuator/health`
	// +optional
	// +nullable
	Path string `json:"path,omitempty"`

	// startup must succeed once before the other checks start. Default: it may take up to five minutes.
	// +kubebuilder:example=`{failureThreshold: 120}`
	// +optional
	// +nullable
	Startup *Object `json:"startup,omitempty"`

	// readiness decides whether the Service sends requests to a pod. Default: a check every 5 s.
	// +kubebuilder:example=`{periodSeconds: 2}`
	// +optional
	// +nullable
	Readiness *Object `json:"readiness,omitempty"`

	// liveness restarts the container when the check fails. Default: a check every 10 s, and a restart after 6 failures.
	// +kubebuilder:example=`{disabled: true}`
	// +optional
	// +nullable
	Liveness *Object `json:"liveness,omitempty"`
}

// ConfigFile is a file in a component's container: its content, or the ConfigMap or Secret that holds it.
//
// +kubebuilder:validation:XValidation:rule="[has(self.content), has(self.configMap), has(self.secret)].filter(x, x).size() == 1",message="a file has one of content, configMap and secret"
type ConfigFile struct {
	// path is the path of the file in the container.
	// +kubebuilder:validation:MaxLength=250
	// +kubebuilder:validation:Pattern=`^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$`
	// +kubebuilder:example=`/config/logback.xml`
	Path string `json:"path"`

	// content of the file.
	// +kubebuilder:example=`<configuration/>`
	// +optional
	// +nullable
	Content *string `json:"content,omitempty"`

	// configMap names the ConfigMap that holds the file.
	// +kubebuilder:example=`logging`
	// +optional
	// +nullable
	ConfigMap string `json:"configMap,omitempty"`

	// secret names the Secret that holds the file.
	// +kubebuilder:example=`certificates`
	// +optional
	// +nullable
	Secret string `json:"secret,omitempty"`

	// key of the file in the ConfigMap or Secret. Default: the last part of path.
	// +kubebuilder:example=`logback.xml`
	// +optional
	// +nullable
	Key string `json:"key,omitempty"`
}
