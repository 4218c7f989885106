// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"time"
)

// alert is one alert. Its name is an anchor of docs/runbooks.md.
type alert struct {
	name, expr           string
	wait                 time.Duration // the time for which expr must hold
	severity             string        // critical: a person must act now; warning: today; info: at any time
	summary, description string
}

// kind is a kind of resource, with the parts that differ in its alerts.
type kind struct {
	name  string
	short string // its name in kubectl dataservice why; empty for a DataService
	// dataReasons are the reasons of the condition Degraded for data that is lost or in danger.
	dataReasons []string
	hasDegraded bool   // it has the phase Degraded; other kinds have Failed
	size        string // the field with the size of its volumes
}

var kinds = []kind{
	{"DataService", "", []string{"DataLost", "VolumeBeingDeleted", "ServerVersionRefused", "VolumeReplaced", "VolumeUnreadable"}, true, "spec.mysql.storage.size"},
	{"RedisCluster", "redis", []string{"SlotsLost", "MajorityLost", "Inconsistent"}, false, "spec.storage.size"},
	{"EtcdCluster", "etcd", []string{"MembersLost", "SplitBrain"}, true, "spec.storage"},
	{"MySQLCluster", "mysql", []string{"WaitingForConsent", "RecordLost", "Diverged"}, true, "spec.storage.size"},
}

// leader is true while one of the operator's replicas leads.
const leader = `max(leader_election_master_status{name=~".*d3os.*"}) == 1`

// rules returns all alerts. scaled shortens durations in tests. Every replica of the operator has the metrics of all resources, so each
// expression takes the maximum over the replicas. It also covers the last two minutes, so a new leader, a new pod or a failed scrape ends
// no alert.
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
	look := "kubectl dataservice why names what stands in the way."
	if k.short != "" {
		look = "kubectl dataservice why " + k.short + "/NAME names what stands in the way."
	}
	found := []alert{
		{
			name: k.name + "Failed", wait: scaled(5 * time.Minute), severity: "critical",
			expr:    phase("Failed") + "\nunless on (namespace, " + label + ")\n" + degraded("Contested"),
			summary: "The operator cannot carry out " + k.name + " " + named + ".", description: look,
		},
		{
			name: k.name + "DataInDanger", wait: scaled(time.Minute), severity: "critical", expr: degraded(strings.Join(k.dataReasons, "|")),
			summary:     "The data of " + k.name + " " + named + " is lost, or about to be.",
			description: "Delete nothing before you have read the runbook. " + look,
		},
		{
			name: k.name + "Stuck", wait: scaled(time.Minute), severity: "warning",
			expr:    lasts(label, by, "Progressing", stuck),
			summary: k.name + " " + named + " is being changed for over " + text(stuck) + ".", description: look,
		},
		{
			name: k.name + "NotObserved", wait: scaled(5 * time.Minute), severity: "critical",
			expr:        fmt.Sprintf("%s (%s_generation) > %s (%s_observed_generation)\nand on () %s", by, label, by, label, leader),
			summary:     "A change of " + k.name + " " + named + " has no effect.",
			description: "An operator leads, but the status does not follow the spec. Its log has the cause.",
		},
		{
			name: k.name + "Paused", wait: scaled(24 * time.Hour), severity: "info",
			expr:        fmt.Sprintf(`%s (max_over_time(%s_paused%s)) == 1`, by, label, recent),
			summary:     k.name + " " + named + " is paused for over " + text(scaled(24*time.Hour)) + ".",
			description: "Nothing of it is healed or changed until a user resumes it.",
		},
		{
			name: k.name + "Contested", wait: scaled(15 * time.Minute), severity: "warning", expr: degraded("Contested"),
			summary:     "Another client keeps changing an object of " + k.name + " " + named + ".",
			description: "The operator puts it back ever less often. " + look,
		},
	}
	if k.hasDegraded {
		found = append(found, alert{
			name: k.name + "Degraded", wait: scaled(10 * time.Minute), severity: "warning", expr: phase("Degraded"),
			summary: "Something of " + k.name + " " + named + " is not well.", description: look,
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

// quorum returns the alerts about the quorum of an etcd cluster, and about its certificates.
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
			summary:     "A certificate of EtcdCluster " + named + " ends soon, has ended or cannot be read.",
			description: "Its condition CertificatesValid names the Secret. " + look,
		},
	}
}

// copies returns the alerts about the primary of a MySQL database, and about the copies of its data.
func copies(scaled func(time.Duration) time.Duration, by, recent, named, look string) []alert {
	return []alert{
		{
			name: "MySQLClusterUnavailable", wait: scaled(2 * time.Minute), severity: "critical",
			expr:    fmt.Sprintf(`%s (max_over_time(mysqlcluster_phase{phase="Unavailable"}%s)) == 1`, by, recent),
			summary: "MySQLCluster " + named + " cannot be written.", description: look,
		},
		{
			name: "MySQLClusterWithoutCopy", wait: scaled(15 * time.Minute), severity: "warning",
			expr:    isNot("mysqlcluster", by, "Redundant", `="Alone"`, scaled, recent) + "\nand on (namespace, mysqlcluster)\n" + by + ` (mysqlcluster_component_pods{state="desired"}) > 1`,
			summary: "No other member of MySQLCluster " + named + " is known to have each acknowledged transaction.", description: look,
		},
	}
}

// isNot returns an expression: for one of these reasons, a condition is False now or was a moment ago.
func isNot(label, by, condition, reasons string, scaled func(time.Duration) time.Duration, recent string) string {
	return fmt.Sprintf(`%s (max_over_time((%s_condition{condition="%s", reason%s} == bool 0)%s)) == 1`, by, label, condition, reasons,
		"["+strings.Trim(recent, "[]")+":"+text(max(scaled(30*time.Second), time.Second))+"]")
}

// lasts returns an expression: a condition has been True for longer than a time.
func lasts(label, by, condition string, limit time.Duration) string {
	return fmt.Sprintf("time() - %s (%s_condition_since_seconds{condition=%q}) > %d\nand on (namespace, %s)\n%s (%s_condition{condition=%q}) == 1",
		by, label, condition, int64(limit.Seconds()), label, by, label, condition)
}

// switches returns the alerts about a switch to another database.
func switches(scaled func(time.Duration) time.Duration, by, recent, named string) []alert {
	const label, read = "dataservice", "Its condition DatabaseSwitch names the next step."
	stuck := scaled(15 * time.Minute)
	return []alert{
		{
			name: "DataServiceSwitchWaits", wait: scaled(time.Hour), severity: "warning", expr: isNot(label, by, "DatabaseSwitch", `!=""`, scaled, recent),
			summary:     "DataService " + named + " names another database than the one in use, and is not switched to it for over " + text(scaled(time.Hour)) + ".",
			description: "The database in use runs on. " + read,
		},
		{
			name: "DataServiceSwitchStuck", wait: scaled(time.Minute), severity: "critical", expr: lasts(label, by, "DatabaseSwitch", stuck),
			summary:     "DataService " + named + " is being switched to another database for over " + text(stuck) + ", and its services do not run.",
			description: read,
		},
	}
}

// filling returns the alert about volumes with the data of a kind. The kubelet reports how full volumes are, and a metric of the operator
// names the resource of each volume.
func (k kind) filling(scaled func(time.Duration) time.Duration, named string) alert {
	label := strings.ToLower(k.name)
	return alert{
		name: k.name + "VolumeFilling", wait: scaled(15 * time.Minute), severity: "warning",
		expr: "max by (namespace, " + label + ", persistentvolumeclaim) (" + label + "_volume)\n* on (namespace, persistentvolumeclaim) group_left ()\n" +
			"max by (namespace, persistentvolumeclaim) (kubelet_volume_stats_used_bytes / kubelet_volume_stats_capacity_bytes) > 0.85",
		summary:     "Volume {{ $labels.persistentvolumeclaim }} of " + k.name + " " + named + " is full to {{ $value | humanizePercentage }}.",
		description: "A database without room takes no writes, and can damage what it was writing. Give the volume more room: " + k.size + ".",
	}
}

// backups returns the alerts about backups of a kind.
func (k kind) backups(scaled func(time.Duration) time.Duration, by, recent, named string) []alert {
	label := strings.ToLower(k.name)
	check := ""
	if k.name == "DataService" {
		check = ", or the last check of one,"
	}
	return []alert{
		{
			name: k.name + "BackupFailing", wait: scaled(15 * time.Minute), severity: "warning", expr: isNot(label, by, "BackupHealthy", `!~"NoBackup|NotVerified"`, scaled, recent),
			summary:     "The last backup of " + k.name + " " + named + check + " failed.",
			description: "kubectl get " + label + " -o yaml shows the condition BackupHealthy.",
		},
		{
			name: k.name + "BackupMissing", wait: scaled(15 * time.Minute), severity: "critical", expr: late(label, by, "backup", 1, scaled),
			summary:     k.name + " " + named + " has had no backup for longer than its schedule says.",
			description: "Its last backup is older than the longest time between two of them, and two hours.",
		},
	}
}

// late returns an expression: the last run of a schedule is older than a multiple of the schedule's longest interval plus two hours.
// Without a schedule, no interval exists, and nothing is late.
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
			summary:     "No backup of DataService " + named + " was found good for twice as long as the schedule of checks says.",
			description: "A backup counts when a restore of it was checked.",
		},
		{
			name: "DataServiceNotRecoverable", wait: scaled(15 * time.Minute), severity: "critical", expr: isNot(label, by, "Recoverable", `!="ArchiveStopped"`, scaled, recent),
			summary:     "The latest moments of DataService " + named + " cannot be restored.",
			description: "Its binary log is not archived, or no backup lies on the archive. kubectl get dataservice -o yaml shows the condition Recoverable.",
		},
	}
}

func operator(scaled func(time.Duration) time.Duration) []alert {
	rate := func(d time.Duration) string { return window(scaled, d) }
	return []alert{
		{
			name: "D3OSOperatorDown", wait: scaled(5 * time.Minute), severity: "critical",
			expr:        `absent(up{job=~"d3os-operator.*"} == 1)`,
			summary:     "No d3os-operator is running.",
			description: "Platforms keep running, but nothing is healed or updated until it is back.",
		},
		{
			name: "D3OSOperatorWithoutLeader", wait: scaled(2 * time.Minute), severity: "critical",
			expr:        `sum(leader_election_master_status{name=~".*d3os.*"}) == 0`,
			summary:     "The d3os-operator has no leader.",
			description: "Pods of the operator run but none holds the lease; look at their logs.",
		},
		{
			name: "D3OSOperatorReconcileErrors", wait: scaled(15 * time.Minute), severity: "warning",
			expr:        `sum by (controller) (rate(controller_runtime_reconcile_errors_total{job=~"d3os-operator.*"}` + rate(5*time.Minute) + `)) > 0.1`,
			summary:     "Reconciling fails again and again ({{ $labels.controller }}).",
			description: "{{ $value | humanize }} errors a second. kubectl get dataservices,redisclusters,etcdclusters,mysqlclusters -A shows which and why.",
		},
		{
			name: "D3OSOperatorQueueGrows", wait: scaled(15 * time.Minute), severity: "warning",
			expr:        `max by (name) (workqueue_depth{job=~"d3os-operator.*"}) > 100`,
			summary:     "The d3os-operator does not keep up ({{ $labels.name }}).",
			description: "{{ $value }} resources wait to be reconciled. Raise --max-concurrent-reconciles or the operator's CPU limit.",
		},
		{
			name: "D3OSOperatorSlow", wait: scaled(15 * time.Minute), severity: "warning",
			expr: "histogram_quantile(0.99, sum by (le, controller) (\n  rate(controller_runtime_reconcile_time_seconds_bucket{job=~\"d3os-operator.*\"}" +
				rate(10*time.Minute) + "))) > 5",
			summary:     "Reconciling takes long ({{ $labels.controller }}).",
			description: "One pass in a hundred takes over {{ $value | humanizeDuration }}: is the API server slow?",
		},
		{
			name: "D3OSOperatorMemoryNearLimit", wait: scaled(15 * time.Minute), severity: "warning",
			expr:        `process_resident_memory_bytes{job=~"d3os-operator.*"} > 0.9 * go_gc_gomemlimit_bytes{job=~"d3os-operator.*"}`,
			summary:     "The d3os-operator {{ $labels.pod }} is near its limit on memory.",
			description: "Beyond the limit it is killed. Raise the limit: 1Gi is for some 1,000 DataServices.",
		},
		{
			name: "D3OSOperatorRolloutStopped", wait: scaled(10 * time.Minute), severity: "warning",
			expr:        `count(count by (namespace, dataservice) (dataservice_condition{condition="OperatorChange", reason="Stopped"})) > 0`,
			summary:     "The rollout of a new version of the d3os-operator has stopped.",
			description: "{{ $value }} DataServices wait, because one that was changed is Degraded. Their condition OperatorChange names it.",
		},
		{
			name: "D3OSOperatorVersions", wait: scaled(30 * time.Minute), severity: "warning",
			expr:        `count(count by (version) (d3os_operator_info)) > 1`,
			summary:     "Pods of the d3os-operator have different versions.",
			description: "An upgrade is not done. Whichever leads decides what is written.",
		},
	}
}

// window returns a range of a query: long enough for several scrapes, even if durations are shortened.
func window(scaled func(time.Duration) time.Duration, d time.Duration) string {
	return "[" + text(max(scaled(d), 10*time.Second).Round(time.Second)) + "]"
}
