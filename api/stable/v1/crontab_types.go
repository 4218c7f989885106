// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"d3os.com/d3os-operator/api/compat"
)

// CronTab runs an image on a schedule, by a CronJob, or by a Deployment if the schedule has seconds.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.labelSelector
// +kubebuilder:resource:shortName=ct,categories=all
// +kubebuilder:printcolumn:name="Spec",type=string,JSONPath=`.spec.cronSpec`,description="The schedule"
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.spec.replicas`,description="The number of parallel runs"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 50 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be a letter followed by letters, digits and '-', 50 characters at most: it becomes a part of the names of Jobs"
type CronTab struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +kubebuilder:example=`{cronSpec: "*/5 * * * *", image: busybox}`
	Spec CronTabSpec `json:"spec"`

	// status is the observed state.
	// +kubebuilder:default={}
	// +kubebuilder:example=`{phase: Running}`
	// +optional
	Status CronTabStatus `json:"status,omitempty"`
}

// CronTabList is a list of CronTabs.
//
// +kubebuilder:object:root=true
type CronTabList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CronTab `json:"items"`
}

// CronTabSpec is the desired state of a CronTab.
//
// +kubebuilder:validation:XValidation:rule="self.cronSpec.matches('^(00? |([^ ]+ *){1,5}$)') || !has(self.successfulJobsHistoryLimit)",fieldPath=".successfulJobsHistoryLimit",message="may not be set with a schedule of seconds: its runs leave no Jobs. Remove it"
// +kubebuilder:validation:XValidation:rule="self.cronSpec.matches('^(00? |([^ ]+ *){1,5}$)') || !has(self.failedJobsHistoryLimit)",fieldPath=".failedJobsHistoryLimit",message="may not be set with a schedule of seconds: its runs leave no Jobs. Remove it"
type CronTabSpec struct {
	// cronSpec is the schedule in cron syntax: minute, hour, day, month, day of the week. An additional first field is the second. If the
	// second is not 0, pods run all the time, and start the program in the field command at each tick.
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|[0-9A-Za-z*/,?-]+( +[0-9A-Za-z*/,?-]+){4,5})$')",message="must have five fields, or six with the second first, or be a name such as @daily; a time zone belongs to timeZone"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^((.*[ ,-])?[0-9]{3,}.*|([^ ]+ +)?([^ ]*[,-])?([6-9][0-9])([,/-][^ ]*)?( +[^ ]+){4,5}|[^ ]+ +([^ ]+ +)?([^ ]*[,-])?(2[4-9]|[3-9][0-9])([,/-][^ ]*)?( +[^ ]+){3}|([^ ]+ +){2,3}([^ ]*[,-])?(00?|3[2-9]|[4-9][0-9])([,/-][^ ]*)?( +[^ ]+){2}|([^ ]+ +){3,4}([^ ]*[,-])?(00?|1[3-9]|[2-9][0-9])([,/-][^ ]*)? +[^ ]+|([^ ]+ +){4,5}([^ ]*[,-])?(0?[7-9]|[1-9][0-9])([,/-][^ ]*)?)$')",message="must have numbers in bounds: second and minute 0-59, hour 0-23, day 1-31, month 1-12, day of the week 0-6"
	// +kubebuilder:example=`*/5 * * * *`
	CronSpec string `json:"cronSpec"`

	compat.Container `json:",inline"`

	// replicas is the number of parallel runs at each tick: 0 to 100. 0 suspends the CronTab.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:example=`2`
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// command replaces the image's entrypoint. It is required if the schedule has seconds, because such runs do not use the image's entrypoint.
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:example=`[sh, -c, date]`
	// +listType=atomic
	// +optional
	// +nullable
	Command []string `json:"command,omitempty"`

	// args are the arguments of command or of the image's entrypoint.
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:example=`[--once]`
	// +listType=atomic
	// +optional
	// +nullable
	Args []string `json:"args,omitempty"`

	// timeZone is the time zone of the schedule, a name such as Europe/Berlin. Default: the cluster's, or UTC if the schedule has seconds.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:example=`Europe/Berlin`
	// +optional
	// +nullable
	TimeZone string `json:"timeZone,omitempty"`

	// suspend stops future runs. If the schedule has seconds, an active run gets SIGTERM.
	// +kubebuilder:default=false
	// +kubebuilder:example=`true`
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// concurrencyPolicy applies when a run is due while the previous run is active: Allow runs both, Forbid skips the new run, Replace
	// ends the previous run.
	// +kubebuilder:validation:Enum=Allow;Forbid;Replace
	// +kubebuilder:default=Forbid
	// +kubebuilder:example=`Replace`
	// +optional
	ConcurrencyPolicy string `json:"concurrencyPolicy,omitempty"`

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

	// successfulJobsHistoryLimit is the number of successful Jobs that are kept. It may not be set with a schedule of seconds. Default: 3.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:example=`1`
	// +optional
	// +nullable
	SuccessfulJobsHistoryLimit *int32 `json:"successfulJobsHistoryLimit,omitempty"`

	// failedJobsHistoryLimit is the number of failed Jobs that are kept. It may not be set with a schedule of seconds. Default: 1.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:example=`3`
	// +optional
	// +nullable
	FailedJobsHistoryLimit *int32 `json:"failedJobsHistoryLimit,omitempty"`
}

// CronTabStatus is the observed state of a CronTab.
type CronTabStatus struct {
	compat.Status `json:",inline"`

	// lastScheduleTime is the time of the last run. It is empty if the schedule has seconds.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`

	// lastSuccessfulTime is the time at which the last successful run ended. It is empty if the schedule has seconds.
	// +optional
	LastSuccessfulTime *metav1.Time `json:"lastSuccessfulTime,omitempty"`
}
