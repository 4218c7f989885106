// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/kinds/runs"
	"d3os.com/d3os-operator/internal/kinds/stateful"
	"d3os.com/d3os-operator/internal/metrics"
)

// conditions sums up the status by Kubernetes' conventions.
func (v *view) conditions(s *redisv1.RedisClusterStatus, now metav1.Time) {
	ready, stalled := v.settled() && !v.seen.Deleting, v.hopeless() && !v.seen.Deleting
	progressing := !ready && !stalled && (!v.seen.Paused || v.seen.Deleting)
	degraded := !v.seen.Deleting && (v.seen.Failure != nil || s.Phase == redisv1.PhaseFailed || v.refusing() != "" || len(v.decided.Model.Failing) > 0)
	c := kinds.Conditions{List: &s.Conditions, Generation: v.seen.Generation, Now: now}
	c.Set(redisv1.ConditionReady, ready, redisv1.ReasonAllServed, s.Message, s.Reason, s.Message)
	idle := redisv1.ReasonSettled
	if v.seen.Paused {
		idle = redisv1.ReasonPaused
	}
	c.Set(redisv1.ConditionProgressing, progressing, s.Reason, s.Message, idle, "no change is in progress")
	reason, message := s.Reason, s.Message
	if v.seen.Failure == nil && v.seen.Observed != nil {
		reason, message = v.waiting(), v.account(v.decided.Model.Reason)
	}
	c.Set(redisv1.ConditionDegraded, degraded, reason, message, redisv1.ReasonHealthy, "nothing has failed")
	c.While(redisv1.ConditionReconciling, progressing, s.Reason, s.Message)
	c.While(redisv1.ConditionStalled, stalled, reason, message)
	notes := ignored(&v.rc.Spec)
	if v.seen.Failure == nil && !isSupported(v.rc.Spec.Version) {
		notes = append(notes, unsupported(v.rc.Spec.Version)+". The pods keep their image")
	}
	if v.world.NoSettings {
		notes = append(notes, fmt.Sprintf("spec.pod[0].configmap: ConfigMap %s did not exist when the pods started: create it; servers read it when they start the next time",
			podOf(&v.rc.Spec).ConfigMap))
	}
	if text := v.password(); text != "" {
		notes = append(notes, text)
	}
	c.While(redisv1.ConditionSpecIgnored, len(notes) > 0, redisv1.ReasonNotSupported, strings.Join(notes, "; "))
	if v.seen.Observed != nil {
		s.Backup = backupsOf(v.rc).Tell(s.Backup, v.world.backups, c)
		shards := together(v.world.Nodes)
		c.While(redisv1.ConditionColocated, len(shards) > 0, redisv1.ReasonSameNode, strings.Join(shards, "; ")+
			": the node's end would take all copies of their slots; add nodes, or set antiAffinity to Hard")
	}
}

func backupsOf(rc *redisv1.RedisCluster) runs.Cluster {
	return runs.Cluster{Declared: rc.Spec.Backup, Part: part}
}

// Summary says what a RedisCluster's status amounts to.
func (*Kind) Summary(rc *redisv1.RedisCluster) kinds.Summary {
	s := &rc.Status
	ready := meta.IsStatusConditionTrue(s.Conditions, redisv1.ConditionReady)
	summary := kinds.Summary{
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
	}
	summary.Parts = []metrics.Part{{Name: "redis", Ready: ready, Pods: inStep, Desired: all}}
	summary.Backups = backupsOf(rc).Summary(s.Backup, s.Conditions)
	stateful.Summarize(&summary, s.Conditions, redisv1.ConditionDegraded, s.Step, s.Message)
	return summary
}
