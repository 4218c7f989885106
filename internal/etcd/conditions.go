// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/backup"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/etcd/membership"
	"d3os.com/d3os-operator/internal/metrics"
	"d3os.com/d3os-operator/internal/reconcile"
)

// standing computes the parts of the status that are common to all databases.
func (v *view) standing(phase etcdv1.Phase) *database.Standing {
	step, text := v.doing()
	s := &database.Standing{
		Settled: v.settled(), Hopeless: v.hopeless(), Degraded: isDegraded(phase), PauseField: "spec.paused", Deleting: v.deleting(),
		WellReason: etcdv1.ReasonAllVoting, Well: v.well(), Notes: v.notes(), Unwell: v.account(v.model.Reason),
		Step: step, Doing: v.account(text), Looking: "looking at the cluster", WaitReason: v.waiting(), Wait: v.waitsFor(),
		CauseReason: v.waiting(), Cause: v.model.Reason, Deadline: database.Deadline(v.ec.Spec.ProgressDeadlineSeconds),
	}
	if v.parked() {
		s.WellReason, s.Notes = etcdv1.ReasonParked, nil
	}
	s.Refuse(v.observed.refused)
	return s
}

// conditions sets the conditions of a status.
func (v *view) conditions(s *etcdv1.EtcdClusterStatus, standing *database.Standing, now metav1.Time) {
	c := reconcile.Conditions{List: &s.Conditions, Generation: v.seen.Generation, Now: now}
	database.SetConditions(c, standing, v.seen, s.Reason, s.Message, func() {
		v.available(c)
		v.certificates(c)
		if v.seen.Observed != nil {
			s.Backup = backupsOf(v.ec).Report(s.Backup, v.observed.backups, c)
		}
	})
}

// available sets the condition Available, which reports whether a quorum answers. Without an observation, it keeps the condition.
func (v *view) available(c reconcile.Conditions) {
	switch {
	case v.seen.Observed == nil && meta.FindStatusCondition(v.ec.Status.Conditions, etcdv1.ConditionAvailable) != nil:
		return
	case v.parked():
		c.Set(etcdv1.ConditionAvailable, false, "", "", etcdv1.ReasonParked, "spec.replicas is 0")
		return
	}
	if v.model.Corrupt {
		c.Set(etcdv1.ConditionAvailable, false, "", "", etcdv1.ReasonMembersNotWell, "etcd has raised the alarm CORRUPT: reads and writes fail")
		return
	}
	if v.model.Locked && v.model.Verdict == membership.QuorumLost {
		return // members answer but refuse the operator: it is unknown whether they form a quorum
	}
	proven := v.model.Verdict == membership.Complete || v.model.Verdict == membership.Degraded
	c.Set(etcdv1.ConditionAvailable, proven, etcdv1.ReasonQuorumAnswers, "a quorum answers",
		etcdv1.ReasonNoQuorumAnswers, "no quorum answers: reads and writes fail")
}

// isDegraded reports whether a phase means that the cluster is degraded.
func isDegraded(phase etcdv1.Phase) bool {
	return phase == etcdv1.PhaseDegraded || phase == etcdv1.PhaseRecovering || phase == etcdv1.PhaseQuorumLost || phase == etcdv1.PhaseFailed
}

func backupsOf(ec *etcdv1.EtcdCluster) backup.Cluster {
	return backup.Cluster{Declared: ec.Spec.Backup, Part: part, IsParked: replicasOf(&ec.Spec) == 0}
}

// Summary returns the summary of an EtcdCluster's status.
func (*Kind) Summary(ec *etcdv1.EtcdCluster) reconcile.Summary {
	s := &ec.Status
	ready := meta.IsStatusConditionTrue(s.Conditions, etcdv1.ConditionReady)
	summary := reconcile.Summary{
		Phase: string(s.Phase), Generation: s.ObservedGeneration, Ready: ready, ReadyText: fmt.Sprintf("%s (members: %s)", s.Message, s.Ready),
		New:     s.Phase == "" || s.Phase == etcdv1.PhasePaused || s.Phase == etcdv1.PhasePending || s.Phase == etcdv1.PhaseCreating,
		Urgent:  s.Step != "" || s.Phase == etcdv1.PhaseFailed || s.Phase == etcdv1.PhaseQuorumLost || s.Phase == etcdv1.PhaseRunning,
		Parts:   []metrics.Part{{Name: "etcd", Ready: ready, Pods: s.ReadyReplicas, Desired: s.Replicas}},
		Members: inStates(s.Members),
	}
	for i := range s.Members {
		if ordinal := int(s.Members[i].Ordinal); ordinal >= 0 {
			summary.Claims = append(summary.Claims, database.ClaimName(ec.Name, ordinal))
		}
	}
	summary.Backups = backupsOf(ec).Summary(s.Backup, s.Conditions)
	known := ptr.Deref(s.Backup, backupv1.ClusterBackupStatus{})
	summary.Warnings = backup.Warnings(known.LastID, known.Warnings, s.Conditions)
	database.Summarize(&summary, s.Conditions, etcdv1.ConditionDegraded, s.Step, s.Message)
	return summary
}

// inStates counts members by state. States without members have a count of 0, so that their series do not end.
func inStates(members []etcdv1.MemberStatus) map[string]int {
	found := map[string]int{
		membership.StateVoter: 0, membership.StateLearner: 0, membership.StateStarting: 0, membership.StateDown: 0, membership.StateLost: 0, membership.StateUnknown: 0,
	}
	for i := range members {
		found[members[i].State]++
	}
	return found
}
