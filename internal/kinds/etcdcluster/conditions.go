// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/kinds/etcdcluster/membership"
	"d3os.com/d3os-operator/internal/kinds/runs"
	"d3os.com/d3os-operator/internal/kinds/stateful"
	"d3os.com/d3os-operator/internal/metrics"
)

// conditions sums up the status by Kubernetes' conventions.
func (v *view) conditions(s *etcdv1.EtcdClusterStatus, now metav1.Time) {
	ready, stalled := v.settled() && !v.seen.Deleting, v.hopeless() && !v.seen.Deleting
	progressing := !ready && !stalled && (!v.seen.Paused || v.seen.Deleting)
	c := kinds.Conditions{List: &s.Conditions, Generation: v.seen.Generation, Now: now}
	why := etcdv1.ReasonAllVoting
	if v.parked() {
		why = etcdv1.ReasonParked
	}
	c.Set(etcdv1.ConditionReady, ready, why, s.Message, s.Reason, s.Message)
	v.available(c)
	v.certificates(c)
	if v.seen.Observed != nil {
		s.Backup = backupsOf(v.ec).Tell(s.Backup, v.world.backups, c)
	}
	idle := etcdv1.ReasonSettled
	if v.seen.Paused {
		idle = etcdv1.ReasonPaused
	}
	c.Set(etcdv1.ConditionProgressing, progressing, s.Reason, s.Message, idle, "no change is in progress")
	reason, message := s.Reason, s.Message
	if v.seen.Failure == nil && v.seen.Observed != nil {
		reason, message = v.waiting(), stateful.Join(v.model.Reason)
		if message == "" {
			message = s.Message
		}
	}
	c.Set(etcdv1.ConditionDegraded, v.degraded(s.Phase), reason, message, etcdv1.ReasonHealthy, "nothing has failed")
	c.While(etcdv1.ConditionReconciling, progressing, s.Reason, s.Message)
	c.While(etcdv1.ConditionStalled, stalled, reason, message)
}

// available says whether a quorum has answered. While nothing was observed, what was said before stays.
func (v *view) available(c kinds.Conditions) {
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
		return // members answer, and the operator is not let in: what was said before stays
	}
	proven := v.model.Verdict == membership.Complete || v.model.Verdict == membership.Degraded
	c.Set(etcdv1.ConditionAvailable, proven, etcdv1.ReasonQuorumAnswers, "a quorum answers",
		etcdv1.ReasonNoQuorumAnswers, "no quorum answers: reads and writes fail")
}

// degraded reports whether something that should be well is not.
func (v *view) degraded(phase etcdv1.Phase) bool {
	switch {
	case v.seen.Deleting:
		return false
	case v.seen.Failure != nil:
		return true
	}
	return phase == etcdv1.PhaseDegraded || phase == etcdv1.PhaseRecovering || phase == etcdv1.PhaseQuorumLost || phase == etcdv1.PhaseFailed
}

func backupsOf(ec *etcdv1.EtcdCluster) runs.Cluster {
	return runs.Cluster{Declared: ec.Spec.Backup, Part: part}
}

// Summary says what an EtcdCluster's status amounts to.
func (*Kind) Summary(ec *etcdv1.EtcdCluster) kinds.Summary {
	s := &ec.Status
	ready := meta.IsStatusConditionTrue(s.Conditions, etcdv1.ConditionReady)
	summary := kinds.Summary{
		Phase: string(s.Phase), Generation: s.ObservedGeneration, Ready: ready, ReadyText: fmt.Sprintf("%s (members: %s)", s.Message, s.Ready),
		New:     s.Phase == "" || s.Phase == etcdv1.PhasePaused || s.Phase == etcdv1.PhasePending || s.Phase == etcdv1.PhaseCreating,
		Urgent:  s.Step != "" || s.Phase == etcdv1.PhaseFailed || s.Phase == etcdv1.PhaseQuorumLost || s.Phase == etcdv1.PhaseRunning,
		Parts:   []metrics.Part{{Name: "etcd", Ready: ready, Pods: s.ReadyReplicas, Desired: s.Replicas}},
		Members: inStates(s.Members),
	}
	summary.Backups = backupsOf(ec).Summary(s.Backup, s.Conditions)
	stateful.Summarize(&summary, s.Conditions, etcdv1.ConditionDegraded, s.Step, s.Message)
	return summary
}

// inStates counts members by state. A state that no member is in is told of, too: its series does not end.
func inStates(members []etcdv1.MemberStatus) map[string]int {
	found := map[string]int{
		membership.StateVoter: 0, membership.StateLearner: 0, membership.StateStarting: 0, membership.StateDown: 0, membership.StateLost: 0, membership.StateUnknown: 0,
	}
	for i := range members {
		found[members[i].State]++
	}
	return found
}
