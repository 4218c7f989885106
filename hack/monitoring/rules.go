// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"time"
)

// alert is an alert of Prometheus. Its name is an anchor in docs/runbooks.md.
type alert struct {
	name, expr           string
	wait                 time.Duration // time for which expr must hold
	severity             string        // critical: act now; warning: act today; info: act at any time
	summary, description string
}

// kind is a kind of resource. Its fields are the values in which the alerts of the kinds differ.
type kind struct {
	name  string
	short string // its name in kubectl dataservice why; empty for a DataService
	// dataReasons are the reasons of the condition Degraded that report that data is lost or in danger.
	dataReasons []string
	hasDegraded bool   // the kind has the phase Degraded; other kinds have Failed
	size        string // field with the size of the volumes
}

var kinds = []kind{
	{"DataService", "", []string{"DataLost", "VolumeBeingDeleted", "ServerVersionRefused", "VolumeReplaced", "VolumeUnreadable"}, true, "spec.mysql.storage.size"},
	{"RedisCluster", "redis", []string{"SlotsLost", "MajorityLost", "Inconsistent"}, false, "spec.storage.size"},
	{"EtcdCluster", "etcd", []string{"MembersLost", "SplitBrain"}, true, "spec.storage"},
	{"MySQLCluster", "mysql", []string{"WaitingForConsent", "RecordLost", "Diverged"}, true, "spec.storage.size"},
}

// leader is true while a replica of the operator is the leader.
const leader = `max(leader_election_master_status{name=~".*d3os.*"}) == 1`

// rules returns all alerts. scaled shortens durations in tests. Every replica of the operator exports the metrics of all resources, so each
// expression takes the maximum over the replicas. Each expression also covers the last two minutes, so an alert survives a new leader, a
// new pod and a failed scrape.
func rules(scaled func(time.Duration) time.Duration) []alert {
	var all []alert
	for _, k := range kinds {
		all = append(all, k.alerts(scaled)...)
	}
	return append(all, operator(scaled)...)
}

func (k kind) alerts(scaled func(time.Duration) time.Duration) []alert {
	label := strings.ToLower(k.name)
	by, recent := "max by (namespace, "+label+")", window(scaled, 2*time.Minute)
	named := "{{ $labels.namespace }}/{{ $labels." + label + " }}"
	phase := func(name string) string {
		return fmt.Sprintf(`%s (max_over_time(%s_phase{phase="%s"}%s)) == 1`, by, label, name, recent)
	}
	degraded := func(reasons string) string {
		return fmt.Sprintf(`%s (max_over_time(%s_condition{condition="Degraded", reason=~"%s"}%s)) == 1`, by, label, reasons, recent)
	}
	stuck := scaled(45 * time.Minute)
	look := "kubectl dataservice why prints the cause."
	if k.short != "" {
		look = "kubectl dataservice why " + k.short + "/NAME prints the cause."
	}
	found := []alert{
		{
			name: k.name + "Failed", wait: scaled(5 * time.Minute), severity: "critical",
			expr:    phase("Failed") + "\nunless on (namespace, " + label + ")\n" + degraded("Contested"),
			summary: "The operator cannot apply the spec of " + k.name + " " + named + ".", description: look,
		},
		{
			name: k.name + "DataInDanger", wait: scaled(time.Minute), severity: "critical", expr: degraded(strings.Join(k.dataReasons, "|")),
			summary:     "The data of " + k.name + " " + named + " is lost or in danger.",
			description: "Read the runbook before you delete anything. " + look,
		},
		{
			name: k.name + "Stuck", wait: scaled(time.Minute), severity: "warning",
			expr:    lasts(label, by, "Progressing", stuck),
			summary: k.name + " " + named + " has been progressing for over " + text(stuck) + ".", description: look,
		},
		{
			name: k.name + "NotObserved", wait: scaled(5 * time.Minute), severity: "critical",
			expr:        fmt.Sprintf("%s (%s_generation) > %s (%s_observed_generation)\nand on () %s", by, label, by, label, leader),
			summary:     "A change of " + k.name + " " + named + " has no effect.",
			description: "The operator has a leader, but does not update the status. The log of the leader has the cause.",
		},
		{
			name: k.name + "Paused", wait: scaled(24 * time.Hour), severity: "info",
			expr:        fmt.Sprintf(`%s (max_over_time(%s_paused%s)) == 1`, by, label, recent),
			summary:     k.name + " " + named + " has been paused for over " + text(scaled(24*time.Hour)) + ".",
			description: "The operator repairs and changes nothing until a user resumes the resource.",
		},
		{
			name: k.name + "Contested", wait: scaled(15 * time.Minute), severity: "warning", expr: degraded("Contested"),
			summary:     "Another client keeps changing an object of " + k.name + " " + named + ".",
			description: "The operator restores the object at growing intervals. " + look,
		},
	}
	if k.hasDegraded {
		found = append(found, alert{
			name: k.name + "Degraded", wait: scaled(10 * time.Minute), severity: "warning", expr: phase("Degraded"),
			summary: "A part of " + k.name + " " + named + " is unhealthy.", description: look,
		})
	}
	found = append(found, k.backups(scaled, by, recent, named)...)
	switch k.name {
	case "DataService":
		found = append(found, recoverable(scaled, by, recent, named)...)
		found = append(found, switches(scaled, by, recent, named)...)
	case "EtcdCluster":
		found = append(found, quorum(scaled, by, recent, named, look)...)
	case "MySQLCluster":
		found = append(found, copies(scaled, by, recent, named, look)...)
	}
	return append(found, k.filling(scaled, named))
}

// quorum returns the alerts about the quorum of an etcd cluster, and about the cluster's certificates.
func quorum(scaled func(time.Duration) time.Duration, by, recent, named, look string) []alert {
	return []alert{
		{
			name: "EtcdClusterQuorumLost", wait: scaled(2 * time.Minute), severity: "critical",
			expr:    fmt.Sprintf(`%s (max_over_time(etcdcluster_phase{phase="QuorumLost"}%s)) == 1`, by, recent),
			summary: "No quorum of EtcdCluster " + named + " answers: reads and writes fail.", description: look,
		},
		{
			name: "EtcdClusterCertificateExpiring", wait: scaled(15 * time.Minute), severity: "warning",
			expr:        isNot("etcdcluster", by, "CertificatesValid", `!=""`, scaled, recent),
			summary:     "A certificate of EtcdCluster " + named + " expires soon, has expired or cannot be read.",
			description: "The condition CertificatesValid names the Secret. " + look,
		},
	}
}

// copies returns the alerts about the primary of a MySQL database, and about the copies of its data.
func copies(scaled func(time.Duration) time.Duration, by, recent, named, look string) []alert {
	return []alert{
		{
			name: "MySQLClusterUnavailable", wait: scaled(2 * time.Minute), severity: "critical",
			expr:    fmt.Sprintf(`%s (max_over_time(mysqlcluster_phase{phase="Unavailable"}%s)) == 1`, by, recent),
			summary: "MySQLCluster " + named + " accepts no writes.", description: look,
		},
		{
			name: "MySQLClusterWithoutCopy", wait: scaled(15 * time.Minute), severity: "warning",
			expr:    isNot("mysqlcluster", by, "Redundant", `="Alone"`, scaled, recent) + "\nand on (namespace, mysqlcluster)\n" + by + ` (mysqlcluster_component_pods{state="desired"}) > 1`,
			summary: "No replica of MySQLCluster " + named + " is known to have all acknowledged transactions.", description: look,
		},
	}
}

// isNot returns an expression that is true if a condition is False for one of these reasons, now or within the range recent.
func isNot(label, by, condition, reasons string, scaled func(time.Duration) time.Duration, recent string) string {
	return fmt.Sprintf(`%s (max_over_time((%s_condition{condition="%s", reason%s} == bool 0)%s)) == 1`, by, label, condition, reasons,
		"["+strings.Trim(recent, "[]")+":"+text(max(scaled(30*time.Second), time.Second))+"]")
}

// lasts returns an expression that is true if a condition has been True for longer than limit.
func lasts(label, by, condition string, limit time.Duration) string {
	return fmt.Sprintf("time() - %s (%s_condition_since_seconds{condition=%q}) > %d\nand on (namespace, %s)\n%s (%s_condition{condition=%q}) == 1",
		by, label, condition, int64(limit.Seconds()), label, by, label, condition)
}

// switches returns the alerts about a switch to another database.
func switches(scaled func(time.Duration) time.Duration, by, recent, named string) []alert {
	const label, read = "dataservice", "The condition DatabaseSwitch names the next step."
	stuck := scaled(15 * time.Minute)
	return []alert{
		{
			name: "DataServiceSwitchWaits", wait: scaled(time.Hour), severity: "warning", expr: isNot(label, by, "DatabaseSwitch", `!=""`, scaled, recent),
			summary:     "The switch of DataService " + named + " to the database of its spec has been waiting for over " + text(scaled(time.Hour)) + ".",
			description: "The services still use the former database. " + read,
		},
		{
			name: "DataServiceSwitchStuck", wait: scaled(time.Minute), severity: "critical", expr: lasts(label, by, "DatabaseSwitch", stuck),
			summary:     "The switch of DataService " + named + " to another database has been running for over " + text(stuck) + ".",
			description: "The services of the DataService do not run. " + read,
		},
	}
}

// filling returns the alert about nearly full volumes with the data of a kind. The kubelet exports the free space of volumes. A metric of
// the operator maps each volume to its resource.
func (k kind) filling(scaled func(time.Duration) time.Duration, named string) alert {
	label := strings.ToLower(k.name)
	return alert{
		name: k.name + "VolumeFilling", wait: scaled(15 * time.Minute), severity: "warning",
		expr: "max by (namespace, " + label + ", persistentvolumeclaim) (" + label + "_volume)\n* on (namespace, persistentvolumeclaim) group_left ()\n" +
			"max by (namespace, persistentvolumeclaim) (kubelet_volume_stats_used_bytes / kubelet_volume_stats_capacity_bytes) > 0.85",
		summary:     "Volume {{ $labels.persistentvolumeclaim }} of " + k.name + " " + named + " is {{ $value | humanizePercentage }} full.",
		description: "A database on a full volume accepts no writes, and an unfinished write can damage its data. Increase " + k.size + ".",
	}
}

// backups returns the alerts about backups of a kind.
func (k kind) backups(scaled func(time.Duration) time.Duration, by, recent, named string) []alert {
	label := strings.ToLower(k.name)
	what := "The last backup"
	if k.name == "DataService" {
		what = "The last backup, or the last check of a backup,"
	}
	return []alert{
		{
			name: k.name + "BackupFailing", wait: scaled(15 * time.Minute), severity: "warning", expr: isNot(label, by, "BackupHealthy", `!~"NoBackup|NotVerified"`, scaled, recent),
			summary:     what + " of " + k.name + " " + named + " failed.",
			description: "kubectl get " + label + " -o yaml shows the condition BackupHealthy.",
		},
		{
			name: k.name + "BackupMissing", wait: scaled(15 * time.Minute), severity: "critical", expr: late(label, by, "backup", 1, scaled),
			summary:     "The backup of " + k.name + " " + named + " is overdue.",
			description: "The last backup is older than the longest interval of the schedule plus two hours.",
		},
	}
}

// late returns an expression that is true if the last run of a schedule is older than two hours plus a multiple of the schedule's longest
// interval. It is never true without a schedule.
func late(label, by, what string, times float64, scaled func(time.Duration) time.Duration) string {
	return fmt.Sprintf("time() - %s (%s_backup_last_timestamp_seconds{what=%q}) > on (namespace, %s)\n%s (%s_backup_period_seconds{what=%q}) * %g + %d",
		by, label, what, label, by, label, what, times/float64(time.Hour/scaled(time.Hour)), int64(scaled(2*time.Hour).Seconds()))
}

// recoverable returns the alerts about the checks and the archive of a DataService's backups.
func recoverable(scaled func(time.Duration) time.Duration, by, recent, named string) []alert {
	const label = "dataservice"
	return []alert{
		{
			name: "DataServiceBackupNotVerified", wait: scaled(15 * time.Minute), severity: "warning", expr: late(label, by, "verify", 2, scaled),
			summary:     "The check of the backups of DataService " + named + " is overdue.",
			description: "The last successful check is older than twice the longest interval of the schedule of checks. A check restores a backup.",
		},
		{
			name: "DataServiceNotRecoverable", wait: scaled(15 * time.Minute), severity: "critical", expr: isNot(label, by, "Recoverable", `!="ArchiveStopped"`, scaled, recent),
			summary:     "The latest changes of DataService " + named + " cannot be restored.",
			description: "The binary log is not archived, or the archive has no backup to start from. kubectl get dataservice -o yaml shows the condition Recoverable.",
		},
	}
}

func operator(scaled func(time.Duration) time.Duration) []alert {
	rate := func(d time.Duration) string { return window(scaled, d) }
	return []alert{
		{
			name: "D3OSOperatorDown", wait: scaled(5 * time.Minute), severity: "critical",
			expr:        `absent(up{job=~"d3os-operator.*"} == 1)`,
			summary:     "No pod of the d3os-operator is running.",
			description: "Platforms keep running. Nothing is repaired or updated until a pod of the operator runs.",
		},
		{
			name: "D3OSOperatorWithoutLeader", wait: scaled(2 * time.Minute), severity: "critical",
			expr:        `sum(leader_election_master_status{name=~".*d3os.*"}) == 0`,
			summary:     "The d3os-operator has no leader.",
			description: "Pods of the operator run, but no pod holds the lease. Read the logs of the pods.",
		},
		{
			name: "D3OSOperatorReconcileErrors", wait: scaled(15 * time.Minute), severity: "warning",
			expr:        `sum by (controller) (rate(controller_runtime_reconcile_errors_total{job=~"d3os-operator.*"}` + rate(5*time.Minute) + `)) > 0.1`,
			summary:     "Reconciling fails repeatedly ({{ $labels.controller }}).",
			description: "{{ $value | humanize }} passes a second fail. kubectl get dataservices,redisclusters,etcdclusters,mysqlclusters -A shows the resources with their messages.",
		},
		{
			name: "D3OSOperatorQueueGrows", wait: scaled(15 * time.Minute), severity: "warning",
			expr:        `max by (name) (workqueue_depth{job=~"d3os-operator.*"}) > 100`,
			summary:     "The queue of the d3os-operator is too long ({{ $labels.name }}).",
			description: "{{ $value }} resources wait to be reconciled. Raise --max-concurrent-reconciles or the operator's CPU limit.",
		},
		{
			name: "D3OSOperatorSlow", wait: scaled(15 * time.Minute), severity: "warning",
			expr: "histogram_quantile(0.99, sum by (le, controller) (\n  rate(controller_runtime_reconcile_time_seconds_bucket{job=~\"d3os-operator.*\"}" +
				rate(10*time.Minute) + "))) > 5",
			summary:     "Reconciling is slow ({{ $labels.controller }}).",
			description: "One pass in a hundred takes over {{ $value | humanizeDuration }}. Check whether the API server is slow.",
		},
		{
			name: "D3OSOperatorMemoryNearLimit", wait: scaled(15 * time.Minute), severity: "warning",
			expr:        `process_resident_memory_bytes{job=~"d3os-operator.*"} > 0.9 * go_gc_gomemlimit_bytes{job=~"d3os-operator.*"}`,
			summary:     "Pod {{ $labels.pod }} of the d3os-operator is near its memory limit.",
			description: "A pod above the limit is killed. Raise the limit: 1Gi is enough for about 1,000 DataServices.",
		},
		{
			name: "D3OSOperatorRolloutStopped", wait: scaled(10 * time.Minute), severity: "warning",
			expr:        `count(count by (namespace, dataservice) (dataservice_condition{condition="OperatorChange", reason="Stopped"})) > 0`,
			summary:     "The rollout of a new version of the d3os-operator has stopped.",
			description: "{{ $value }} DataServices wait, because a DataService with the new version is Degraded. The condition OperatorChange names it.",
		},
		{
			name: "D3OSOperatorVersions", wait: scaled(30 * time.Minute), severity: "warning",
			expr:        `count(count by (version) (d3os_operator_info)) > 1`,
			summary:     "Pods of the d3os-operator have different versions.",
			description: "An upgrade is not complete. The version of the leader decides what is written.",
		},
	}
}

// window returns the range of a query. The range covers several scrapes, even with shortened durations.
func window(scaled func(time.Duration) time.Duration, d time.Duration) string {
	return "[" + text(max(scaled(d), 10*time.Second).Round(time.Second)) + "]"
}
