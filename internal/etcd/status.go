// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/etcd/membership"
	"d3os.com/d3os-operator/internal/reconcile"
)

// Status writes the observation and the decision to the status of an EtcdCluster.
func (k *Kind) Status(ec *etcdv1.EtcdCluster, seen reconcile.Seen[Observation], now metav1.Time) {
	v := view{ec: ec, seen: seen}
	if seen.Observed != nil {
		v.observed, v.model = *seen.Observed, seen.Observed.model
		isWell := !database.Problem(seen.PlanSeen)
		v.model.Restarts = v.model.Restarts && isWell
		// Starts stays true only for a cluster that was parked, even if the last status still counts its former members. A running cluster
		// that loses all members is not starting.
		v.model.Starts = v.model.Starts && isWell && (ec.Status.ReadyReplicas == 0 || ec.Status.Phase == etcdv1.PhaseParked)
	}
	s := &ec.Status
	s.ObservedGeneration = seen.Generation
	s.Selector = database.Selector(reconcile.OwnerOf(k, ec), part)
	s.Endpoints = endpoints(v.observed.of(ec))
	if seen.Observed != nil {
		v.count(s)
	}
	s.Phase = v.phase(s.Phase)
	standing := v.standing(s.Phase)
	standing.Began = database.Beginning{
		Subject: etcdv1.Kind + " " + ec.Name, Serves: standing.Settled && !v.parked(), Forms: v.forms(), FirstReady: &s.FirstReady, Conditions: s.Conditions,
	}.Judge()
	s.Step = standing.Step
	s.Reason, s.Message = database.Explain(standing, seen)
	v.conditions(s, standing, now)
	s.Message = database.AddBackups(standing, seen, s.Message, s.Conditions)
}

// view holds the inputs of a status.
type view struct {
	ec       *etcdv1.EtcdCluster
	seen     reconcile.Seen[Observation]
	observed Observation
	model    membership.Model
}

// forms reports whether the agents of all pods report empty volumes, and form a new cluster without a backup. A recovery from Empty is the
// user's consent.
func (v *view) forms() bool {
	silent := func(p membership.Pod) bool { return p.Report == nil }
	pods := v.observed.View.Pods
	return v.model.Verdict == membership.Fresh && len(pods) > 0 && !slices.ContainsFunc(pods, silent) && v.observed.View.Record.Tokens == "" &&
		v.ec.Spec.RestoreFrom == nil && !v.seen.Paused
}

// count sets the numbers and the members of a status.
func (v *view) count(s *etcdv1.EtcdClusterStatus) {
	m := &v.model
	s.Replicas = int32(len(v.observed.View.Pods)) //nolint:gosec // a few pods
	s.ReadyReplicas = int32(m.Healthy)            //nolint:gosec // a few members
	s.Ready = fmt.Sprintf("%d/%d", m.Healthy, replicasOf(&v.ec.Spec))
	s.Verdict, s.Leader, s.Version, s.TargetVersion, s.Notes = string(m.Verdict), m.Leader, m.Version, m.Target, slices.Concat(m.Notes, v.notes(), v.kept())
	s.ClusterID = ""
	if m.Cluster != 0 {
		s.ClusterID = m.Cluster.String()
	}
	s.Members = nil
	for _, member := range m.Members {
		made := etcdv1.MemberStatus{
			Name: member.Name, Ordinal: int32(member.Ordinal), State: member.State, Version: member.Version, Message: member.Message, //nolint:gosec // a few pods
		}
		if member.ID != 0 {
			made.ID = member.ID.String()
		}
		if member.Size > 0 {
			made.DBSize = roundSize(member.Size)
		}
		s.Members = append(s.Members, made)
	}
}

// notes returns remarks about the spec and the plan.
func (v *view) notes() []string {
	notes := database.Notes(v.seen.PlanSeen)
	if spec := &v.ec.Spec; spec.Replicas != nil && int(*spec.Replicas) != replicasOf(spec) {
		notes = append([]string{fmt.Sprintf("spec.replicas is %d, but %d members run: an even number survives no more losses than the odd number below it",
			*spec.Replicas, replicasOf(spec))}, notes...)
	}
	return notes
}

// kept returns a note that names the member whose volume has the most former data.
func (v *view) kept() []string {
	var kept []database.Kept
	for i := range v.observed.View.Pods {
		p := &v.observed.View.Pods[i]
		kept = append(kept, database.Kept{Pod: p.Name, MiB: p.Kept})
	}
	return database.KeptNotes(kept, "former data (etcd.set-aside-*)")
}

// roundSize rounds a size up to two digits, so that not every write changes the status.
func roundSize(bytes int64) string {
	const mebi = 1 << 20
	size := (bytes + mebi - 1) / mebi
	for unit := int64(10); size >= 10*unit; unit *= 10 { // two digits
		size = (size + unit - 1) / unit * unit
	}
	return fmt.Sprintf("%dMi", size)
}

// phase returns the phase of the cluster.
func (v *view) phase(before etcdv1.Phase) etcdv1.Phase {
	switch {
	case v.seen.Deleting:
		return before
	case v.seen.Observed != nil:
		return etcdv1.Phase(membership.PhaseAfter(string(before), v.model))
	case v.seen.Paused && before == "":
		return etcdv1.PhasePaused
	case v.seen.Failure != nil:
		return etcdv1.PhaseFailed
	case before == "":
		return etcdv1.PhasePending
	}
	return before
}

// doing returns the name and the message of the running step.
func (v *view) doing() (step, text string) {
	return database.Doing(v.seen, string(membership.ActionWait))
}

// settled reports whether the cluster matches the spec.
func (v *view) settled() bool {
	return v.seen.Observed != nil && v.seen.Failure == nil && v.model.Settled && !v.observed.View.Lagging
}

// parked reports whether spec.replicas is 0.
func (v *view) parked() bool {
	return v.seen.Observed != nil && v.model.Verdict == membership.Parked
}

// hopeless reports whether only a user can act.
func (v *view) hopeless() bool {
	step, _ := v.doing()
	return step == "" && v.model.Verdict == membership.SplitBrain
}

// well describes a settled cluster.
func (v *view) well() string {
	if v.parked() {
		if left := len(v.observed.View.Pods); left > 0 {
			return fmt.Sprintf("%d pods are being deleted: spec.replicas is 0; the data is kept", left)
		}
		return "no member runs: spec.replicas is 0; the data is kept"
	}
	return fmt.Sprintf("%d of %d members vote, %s leads", v.model.Healthy, replicasOf(&v.ec.Spec), v.model.Leader)
}

// deleting describes the effect of deleting the resource on the data.
func (v *view) deleting() string {
	text := fmt.Sprintf("being deleted; the claims data-%s-* stay", v.ec.Name)
	if v.ec.Spec.TLS.Mode == etcdv1.TLSAuto {
		text += fmt.Sprintf(", and the Secret %s%s", v.ec.Name, suffixCA)
	}
	return text
}

// waiting returns the reason, in one word, why no step can run.
func (v *view) waiting() string {
	phase := v.ec.Status.Phase
	if v.model.Restarts && phase == etcdv1.PhaseUpgrading || v.model.Starts && phase == etcdv1.PhaseScaling {
		return etcdv1.ReasonWorking
	}
	if v.model.NoSpace && v.model.Verdict == membership.Complete {
		return etcdv1.ReasonSpaceUsedUp
	}
	switch v.model.Verdict {
	case membership.Fresh:
		if len(v.observed.Problems) > 0 {
			return etcdv1.ReasonPodsNotReady
		}
		return etcdv1.ReasonForming
	case membership.QuorumLost, membership.SplitBrain:
		if v.model.DataLost {
			return etcdv1.ReasonMembersLost
		}
		return string(v.model.Verdict)
	case membership.Degraded:
		return etcdv1.ReasonMembersNotWell
	case membership.Parked, membership.Complete:
	}
	return etcdv1.ReasonWorking
}

// waitsFor returns the message that explains why no step can run.
func (v *view) waitsFor() string {
	wait := v.model.Reason
	if len(v.seen.Decision.Steps) > 0 && v.seen.Decision.Steps[0].Message != "" {
		wait = v.seen.Decision.Steps[0].Message
	}
	if v.observed.View.Lagging && wait == "" {
		wait = "waiting for Kubernetes to process the changed StatefulSet"
	}
	return v.account(wait)
}

// account returns a message that names the problem of a pod first, and then the consequences of that problem.
func (v *view) account(rest string) string {
	return database.Account(v.observed.Problems, v.seen.PlanSeen, rest)
}
