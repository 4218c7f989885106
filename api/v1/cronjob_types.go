// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import corev1 "k8s.io/api/core/v1"

// CronJob is your own job that runs on a schedule. If the job depends on mysql, redis, etcd, mongodb, eureka or
// uuc, its environment has their addresses, and the accounts of mysql and redis.
//
// +kubebuilder:validation:XValidation:rule="!(self.name in ['mysql', 'uuc', 'eureka', 'api-manager', 'auth', 'ds-adapter', 'es-adapter', 'trd-adapter', 'gateway-master', 'gateway-web', 'proxy', 'web', 'platform'])",fieldPath=".name",message="must not be the name of a built-in component, nor 'platform': choose another name"
// +kubebuilder:validation:XValidation:rule="self.schedule.matches('^(00? |([^ ]+ *){1,5}$)') || (has(self.command) && self.command.size() > 0)",fieldPath=".command",message="is required with a schedule of seconds: it is started at each tick, and the image's own entrypoint is not known"
// +kubebuilder:validation:XValidation:rule="self.schedule.matches('^(00? |([^ ]+ *){1,5}$)') || !has(self.successfulJobsHistoryLimit) || self.successfulJobsHistoryLimit == 3",fieldPath=".successfulJobsHistoryLimit",message="may not be set with a schedule of seconds: its runs leave no Jobs. Remove it"
// +kubebuilder:validation:XValidation:rule="self.schedule.matches('^(00? |([^ ]+ *){1,5}$)') || !has(self.failedJobsHistoryLimit) || self.failedJobsHistoryLimit == 1",fieldPath=".failedJobsHistoryLimit",message="may not be set with a schedule of seconds: its runs leave no Jobs. Remove it"
// +kubebuilder:validation:XValidation:rule="self.schedule.matches('^(00? |([^ ]+ *){1,5}$)') || !has(self.backoffLimit) || self.backoffLimit == 6",fieldPath=".backoffLimit",message="may not be set with a schedule of seconds: a failed run is not tried again before the next tick. Remove it"
// +kubebuilder:validation:XValidation:rule="self.schedule.matches('^(00? |([^ ]+ *){1,5}$)') || !has(self.restartPolicy) || self.restartPolicy == 'OnFailure'",fieldPath=".restartPolicy",message="may not be 'Never' with a schedule of seconds: a failed run is not tried again before the next tick. Remove it"
// +kubebuilder:validation:XValidation:rule="self.schedule.matches('^(00? |([^ ]+ *){1,5}$)') || !has(self.probes)",fieldPath=".probes",message="may not be set with a schedule of seconds: the pod is ready while the last run succeeded. Remove it"
// +kubebuilder:validation:XValidation:rule="!has(self.size) || (self.size == 'custom') == has(self.resources)",fieldPath=".size",message="resources is required with size 'custom' and may not be set with the other sizes"
type CronJob struct {
	// name of the cron job, of its component, and of its CronJob (of its Deployment if the schedule has seconds).
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:example=`report`
	Name string `json:"name"`

	// schedule of the runs, in cron syntax: minute, hour, day, month, day of the week. An additional first field is the second. If the
	// second is not 0, one pod runs all the time and starts the command at each tick.
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|[0-9A-Za-z*/,?-]+( +[0-9A-Za-z*/,?-]+){4,5})$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('^((.*[ ,-])?[0-9]{3,}.*|([^ ]+ +)?([^ ]*[,-])?([6-9][0-9])([,/-][^ ]*)?( +[^ ]+){4,5}|[^ ]+ +([^ ]+ +)?([^ ]*[,-])?(2[4-9]|[3-9][0-9])([,/-][^ ]*)?( +[^ ]+){3}|([^ ]+ +){2,3}([^ ]*[,-])?(00?|3[2-9]|[4-9][0-9])([,/-][^ ]*)?( +[^ ]+){2}|([^ ]+ +){3,4}([^ ]*[,-])?(00?|1[3-9]|[2-9][0-9])([,/-][^ ]*)? +[^ ]+|([^ ]+ +){4,5}([^ ]*[,-])?(0?[7-9]|[1-9][0-9])([,/-][^ ]*)?)$')",message="must have numbers in bounds: second and minute 0-59, hour 0-23, day 1-31, month 1-12, day of the week 0-6"
	// +kubebuilder:example=`30 4 * * *`
	Schedule string `json:"schedule"`

	// image is the container image.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._/:@-]*$`
	// +kubebuilder:example=`registry.example.com/team/report:v1`
	Image string `json:"image"`

	// timeZone is the time zone of the schedule, a name such as Europe/Berlin. Default: the cluster's, or UTC if the schedule has seconds.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:example=`Asia/Shanghai`
	// +optional
	// +nullable
	TimeZone string `json:"timeZone,omitempty"`

	// suspend stops future runs. An active run continues. But if the schedule has seconds, an active run gets SIGTERM, because its pod is stopped.
	// +kubebuilder:default=false
	// +kubebuilder:example=`true`
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// concurrencyPolicy applies when a run is due while the previous run is active: Allow runs both,
	// Forbid skips the new run, Replace ends the previous run.
	// +kubebuilder:validation:Enum=Allow;Forbid;Replace
	// +kubebuilder:default=Forbid
	// +kubebuilder:example=`Replace`
	// +optional
	ConcurrencyPolicy string `json:"concurrencyPolicy,omitempty"`

	// successfulJobsHistoryLimit is the number of successful runs that are kept.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=3
	// +kubebuilder:example=`1`
	// +optional
	SuccessfulJobsHistoryLimit *int32 `json:"successfulJobsHistoryLimit,omitempty"`

	// failedJobsHistoryLimit is the number of failed runs that are kept.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=1
	// +kubebuilder:example=`3`
	// +optional
	FailedJobsHistoryLimit *int32 `json:"failedJobsHistoryLimit,omitempty"`

	// startingDeadlineSeconds is the maximum delay of a run in seconds. A run with a longer delay is skipped. Default: any delay.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:example=`300`
	// +optional
	// +nullable
	StartingDeadlineSeconds *int64 `json:"startingDeadlineSeconds,omitempty"`

	// activeDeadlineSeconds is the maximum duration of a run in seconds. Default: any duration.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:example=`3600`
	// +optional
	// +nullable
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`

	// backoffLimit is the number of retries of a run.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=6
	// +kubebuilder:example=`0`
	// +optional
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`

	// restartPolicy is OnFailure (a failed container is started again in its pod) or Never (each try is a new pod).
	// +kubebuilder:validation:Enum=OnFailure;Never
	// +kubebuilder:default=OnFailure
	// +kubebuilder:example=`Never`
	// +optional
	RestartPolicy corev1.RestartPolicy `json:"restartPolicy,omitempty"`

	// dependsOn names the components that must be ready before this cron job is created or changed.
	// +kubebuilder:example=`[mysql]`
	// +listType=set
	// +optional
	// +nullable
	DependsOn []ComponentName `json:"dependsOn,omitempty"`

	ContainerFields  `json:",inline"`
	PodFields        `json:",inline"`
	SchedulingFields `json:",inline"`
}
