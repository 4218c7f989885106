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
	"d3os.com/d3os-operator/internal/metrics"
)

// conditions sums up the status by Kubernetes' conventions.
func (v *view) conditions(s *redisv1.RedisClusterStatus, now metav1.Time) {
	ready, stalled := v.settled() && !v.seen.Deleting, v.hopeless() && !v.seen.Deleting
	progressing := !ready && !stalled && (!v.seen.Paused || v.seen.Deleting)
	degraded := !v.seen.Deleting && (v.seen.Failure != nil || s.Phase == redisv1.PhaseFailed)
	set := func(name string, is bool, reason, message string, elseReason, elseMessage string) {
		c := metav1.Condition{
			Type: name, Status: metav1.ConditionFalse, Reason: elseReason, Message: elseMessage,
			ObservedGeneration: v.seen.Generation, LastTransitionTime: now,
		}
		if is {
			c.Status, c.Reason, c.Message = metav1.ConditionTrue, reason, message
		}
		meta.SetStatusCondition(&s.Conditions, c)
	}
	while := func(name string, is bool, reason, message string) {
		if !is {
			meta.RemoveStatusCondition(&s.Conditions, name)
			return
		}
		set(name, true, reason, message, "", "")
	}
	set(redisv1.ConditionReady, ready, redisv1.ReasonAllServed, s.Message, s.Reason, s.Message)
	idle := redisv1.ReasonSettled
	if v.seen.Paused {
		idle = redisv1.ReasonPaused
	}
	set(redisv1.ConditionProgressing, progressing, s.Reason, s.Message, idle, "no change is in progress")
	reason, message := s.Reason, s.Message
	if v.seen.Failure == nil && v.seen.Observed != nil {
		reason, message = v.waiting(), join(v.decided.Model.Reason, v.firstProblem())
	}
	set(redisv1.ConditionDegraded, degraded, reason, message, redisv1.ReasonHealthy, "nothing has failed")
	while(redisv1.ConditionReconciling, progressing, s.Reason, s.Message)
	while(redisv1.ConditionStalled, stalled, reason, message)
	notes := ignored(&v.rc.Spec)
	if v.seen.Failure == nil && !isSupported(v.rc.Spec.Version) {
		notes = append(notes, unsupported(v.rc.Spec.Version)+". The pods keep their image")
	}
	if v.world.NoSettings {
		notes = append(notes, fmt.Sprintf("spec.pod[0].configmap: ConfigMap %s did not exist when the pods started: create it; servers read it when they start the next time",
			podOf(&v.rc.Spec).ConfigMap))
	}
	while(redisv1.ConditionSpecIgnored, len(notes) > 0, redisv1.ReasonNotSupported, strings.Join(notes, "; "))
	if v.seen.Observed != nil {
		shards := together(v.world.Nodes)
		while(redisv1.ConditionColocated, len(shards) > 0, redisv1.ReasonSameNode, strings.Join(shards, "; ")+
			": the node's end would take all copies of their slots; add nodes, or set antiAffinity to Hard")
	}
}

// Summary says what a RedisCluster's status amounts to.
func (*Kind) Summary(rc *redisv1.RedisCluster) kinds.Summary {
	s := &rc.Status
	ready := meta.IsStatusConditionTrue(s.Conditions, redisv1.ConditionReady)
	summary := kinds.Summary{
		Phase: string(s.Phase), Generation: s.ObservedGeneration, Ready: ready, ReadyText: fmt.Sprintf("%s (pods: %s)", s.Message, s.Ready),
		New:        s.Phase == "" || s.Phase == redisv1.PhaseNone || s.Phase == redisv1.PhaseCreating,
		Urgent:     s.Step != "" || s.Phase == redisv1.PhaseFailed || s.Phase == redisv1.PhaseRunning,
		Conditions: s.Conditions,
	}
	var inStep, all int32
	for i := range s.Instances {
		all++
		if s.Instances[i].Status == string(metav1.ConditionTrue) {
			inStep++
		}
	}
	summary.Parts = []metrics.Part{{Name: part, Ready: ready, Pods: inStep, Desired: all}}
	if s.Step != "" {
		summary.Doing = kinds.Doing{Step: s.Step, Text: s.Message}
	}
	if d := meta.FindStatusCondition(s.Conditions, redisv1.ConditionDegraded); d != nil && d.Status == metav1.ConditionTrue {
		summary.Problem, summary.ProblemReason, summary.ProblemField = d.Message, d.Reason, "status.conditions"
	}
	return summary
}
