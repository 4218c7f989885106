// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/internal/backup"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/metrics"
	"d3os.com/d3os-operator/internal/reconcile"
)

// standing derives the parts of the status that every database has.
func (v *view) standing(s *redisv1.RedisClusterStatus) *database.Standing {
	step, text := v.doing()
	model := v.decided.Model
	wellReason, well := v.well(s)
	standing := &database.Standing{
		Settled: v.settled(), Hopeless: v.hopeless(), Degraded: s.Phase == redisv1.PhaseFailed || v.refusing() != "" || len(model.Failing) > 0,
		PauseField: "spec.pause", Deleting: v.deleting(),
		Deadline:   database.Deadline(v.rc.Spec.ProgressDeadlineSeconds),
		WellReason: wellReason, Well: well, Notes: database.Notes(v.seen.PlanSeen),
		Unwell: v.causes(model.Reason), Step: step, Doing: v.causes(text), Looking: "looking at the cluster",
		WaitReason: v.waiting(), Wait: v.waitsFor(), CauseReason: v.waiting(), Cause: v.account(model.Reason),
	}
	standing.Refuse(v.observed.refused)
	return standing
}

// conditions sets the conditions of a status.
func (v *view) conditions(s *redisv1.RedisClusterStatus, standing *database.Standing, now metav1.Time) {
	c := reconcile.Conditions{List: &s.Conditions, Generation: v.seen.Generation, Now: now}
	database.SetConditions(c, standing, v.seen, s.Reason, s.Message, nil)
	notes := ignored(&v.rc.Spec)
	if v.seen.Failure == nil && !isSupported(v.rc.Spec.Version) {
		notes = append(notes, unsupported(v.rc.Spec.Version)+". The pods keep their image")
	}
	if v.observed.NoSettings {
		notes = append(notes, fmt.Sprintf("spec.pod[0].configmap: ConfigMap %s did not exist when the pods started: create the ConfigMap; servers read it at their next start",
			podOf(&v.rc.Spec).ConfigMap))
	}
	if text := v.password(); text != "" {
		notes = append(notes, text)
	}
	c.While(redisv1.ConditionSpecIgnored, len(notes) > 0, redisv1.ReasonNotSupported, strings.Join(notes, "; "))
	if v.seen.Observed != nil {
		s.Backup = backupsOf(v.rc).Report(s.Backup, v.observed.backups, c)
		shards := together(v.observed.Nodes)
		c.While(redisv1.ConditionColocated, len(shards) > 0, redisv1.ReasonSameNode, strings.Join(shards, "; ")+
			": if such a Kubernetes node fails, all copies of a shard's slots fail with it; add nodes, or set antiAffinity to Hard")
	}
}

func backupsOf(rc *redisv1.RedisCluster) backup.Cluster {
	return backup.Cluster{Declared: rc.Spec.Backup, Part: part, IsParked: isParked(&rc.Spec)}
}

// Summary returns the summary of a RedisCluster's status.
func (*Kind) Summary(rc *redisv1.RedisCluster) reconcile.Summary {
	s := &rc.Status
	ready := meta.IsStatusConditionTrue(s.Conditions, redisv1.ConditionReady)
	summary := reconcile.Summary{
		Phase: string(s.Phase), Generation: s.ObservedGeneration, Ready: ready, ReadyText: fmt.Sprintf("%s (pods: %s)", s.Message, s.Ready),
		New:    s.Phase == "" || s.Phase == redisv1.PhaseNone || s.Phase == redisv1.PhaseCreating,
		Urgent: s.Step != "" || s.Phase == redisv1.PhaseFailed || s.Phase == redisv1.PhaseRunning,
	}
	var inStep, all int32
	for i := range s.Instances {
		all++
		if s.Instances[i].Status == string(metav1.ConditionTrue) {
			inStep++
		}
		if sharedClaim(&rc.Spec) == "" {
			summary.Claims = append(summary.Claims, "data-"+s.Instances[i].Name)
		}
	}
	if shared := sharedClaim(&rc.Spec); shared != "" {
		summary.Claims = []string{shared}
	}
	summary.Parts = []metrics.Part{{Name: "redis", Ready: ready, Pods: inStep, Desired: all}}
	summary.Backups = backupsOf(rc).Summary(s.Backup, s.Conditions)
	known := ptr.Deref(s.Backup, backupv1.ClusterBackupStatus{})
	summary.Warnings = backup.Warnings(known.LastID, known.Warnings, s.Conditions)
	database.Summarize(&summary, s.Conditions, redisv1.ConditionDegraded, s.Step, s.Message)
	return summary
}
