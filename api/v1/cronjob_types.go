// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import corev1 "k8s.io/api/core/v1"

// CronJob is work that is done again and again. One that depends on mysql, eureka or uuc finds
// their addresses and the database account in its environment.
//
// +kubebuilder:validation:XValidation:rule="!(self.name in ['mysql', 'uuc', 'eureka', 'api-manager', 'auth', 'ds-adapter', 'es-adapter', 'trd-adapter', 'gateway-master', 'gateway-web', 'proxy', 'web', 'platform'])",fieldPath=".name",message="that is a name of the platform's own; choose another"
// +kubebuilder:validation:XValidation:rule="!has(self.size) || (self.size == 'custom') == has(self.resources)",fieldPath=".size",message="size custom takes resources, and the other sizes do not"
type CronJob struct {
	// Name of the work and of its CronJob.
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:example=`report`
	Name string `json:"name"`

	// Schedule in cron syntax: minute, hour, day, month, day of the week.
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|[0-9A-Za-z*/,?-]+( +[0-9A-Za-z*/,?-]+){4})$`
	// +kubebuilder:example=`30 2 * * *`
	Schedule string `json:"schedule"`

	// Image is the container image.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._/:@-]*$`
	// +kubebuilder:example=`registry.example.com/team/report:v1`
	Image string `json:"image"`

	// TimeZone of the schedule, a name such as Europe/Berlin. Default: the cluster's.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:example=`Asia/Shanghai`
	// +optional
	// +nullable
	TimeZone string `json:"timeZone,omitempty"`

	// Suspend stops further runs.
	// +kubebuilder:default=false
	// +kubebuilder:example=`true`
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// ConcurrencyPolicy is what becomes of a run while the last one is not done: Allow, Forbid or
	// Replace.
	// +kubebuilder:validation:Enum=Allow;Forbid;Replace
	// +kubebuilder:default=Forbid
	// +kubebuilder:example=`Replace`
	// +optional
	ConcurrencyPolicy string `json:"concurrencyPolicy,omitempty"`

	// SuccessfulJobsHistoryLimit is how many finished runs are kept.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=3
	// +kubebuilder:example=`1`
	// +optional
	SuccessfulJobsHistoryLimit *int32 `json:"successfulJobsHistoryLimit,omitempty"`

	// FailedJobsHistoryLimit is how many failed runs are kept.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=1
	// +kubebuilder:example=`3`
	// +optional
	FailedJobsHistoryLimit *int32 `json:"failedJobsHistoryLimit,omitempty"`

	// StartingDeadlineSeconds is how late a run may start before it is left out.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:example=`300`
	// +optional
	// +nullable
	StartingDeadlineSeconds *int64 `json:"startingDeadlineSeconds,omitempty"`

	// ActiveDeadlineSeconds is how long a run may take. Default: any time.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:example=`3600`
	// +optional
	// +nullable
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`

	// BackoffLimit is how often a run is tried again.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=6
	// +kubebuilder:example=`0`
	// +optional
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`

	// RestartPolicy is OnFailure or Never.
	// +kubebuilder:validation:Enum=OnFailure;Never
	// +kubebuilder:default=OnFailure
	// +kubebuilder:example=`Never`
	// +optional
	RestartPolicy corev1.RestartPolicy `json:"restartPolicy,omitempty"`

	// DependsOn names components that must be ready before it is created or changed.
	// +kubebuilder:example=`[mysql]`
	// +listType=set
	// +optional
	// +nullable
	DependsOn []ComponentName `json:"dependsOn,omitempty"`

	ContainerFields  `json:",inline"`
	PodFields        `json:",inline"`
	SchedulingFields `json:",inline"`
}
