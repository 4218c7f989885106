// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/kinds/etcdcluster/membership"
	"d3os.com/d3os-operator/internal/kinds/stateful"
)

// Status writes what was seen into the status of an EtcdCluster.
func (k *Kind) Status(ec *etcdv1.EtcdCluster, seen kinds.Seen[World], now metav1.Time) {
	v := view{ec: ec, seen: seen}
	if seen.Observed != nil {
		v.world = *seen.Observed
		v.model = membership.Decide(wanted(ec), v.world.View).Model
	}
	s := &ec.Status
	s.ObservedGeneration = seen.Generation
	s.Selector = stateful.Selector(kinds.OwnerOf(k, ec), part)
	s.Endpoints = endpoints(ec)
	if seen.Observed != nil {
		v.count(s)
	}
	s.Phase = v.phase(s.Phase)
	s.Step, _ = v.doing()
	s.Reason, s.Message = v.explain()
	v.conditions(s, now)
}

// view is what a status is made from.
type view struct {
	ec    *etcdv1.EtcdCluster
	seen  kinds.Seen[World]
	world World
	model membership.Model
}

// count fills in the numbers and the members.
func (v *view) count(s *etcdv1.EtcdClusterStatus) {
	m := &v.model
	s.Replicas = int32(len(v.world.View.Pods)) //nolint:gosec // a few pods
	s.ReadyReplicas = int32(m.Healthy)         //nolint:gosec // a few members
	s.Ready = fmt.Sprintf("%d/%d", m.Healthy, replicasOf(&v.ec.Spec))
	s.Verdict, s.Leader, s.Version, s.TargetVersion, s.Notes = string(m.Verdict), m.Leader, m.Version, m.Target, slices.Concat(m.Notes, stateful.Notes(v.seen.Seen))
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

// roundSize returns a size that does not change with every write: a status is written when it changes.
func roundSize(bytes int64) string {
	const mebi = 1 << 20
	size := (bytes + mebi - 1) / mebi
	for unit := int64(10); size >= 10*unit; unit *= 10 { // two digits
		size = (size + unit - 1) / unit * unit
	}
	return fmt.Sprintf("%dMi", size)
}

// phase is one word for where the cluster stands.
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

// doing is the name of the step that is being taken, and what it does.
func (v *view) doing() (step, text string) {
	return stateful.Doing(v.seen, string(membership.ActionWait))
}

// settled reports whether the cluster is all that the spec asks for.
func (v *view) settled() bool {
	return v.seen.Observed != nil && v.seen.Failure == nil && v.model.Settled && !v.world.View.Lagging
}

// parked reports whether no member is wanted, and none is left.
func (v *view) parked() bool {
	return v.seen.Observed != nil && v.model.Verdict == membership.Parked
}

// hopeless reports whether only a person can help.
func (v *view) hopeless() bool {
	if v.seen.Failure != nil {
		return v.seen.Failure.Stalled
	}
	step, _ := v.doing()
	return step == "" && v.model.Verdict == membership.SplitBrain
}

// explain returns the reason and the message of the status.
func (v *view) explain() (reason, message string) {
	step, text := v.doing()
	paused := ""
	if v.seen.Paused {
		paused = "paused (spec.paused): nothing is changed"
	}
	switch {
	case v.seen.Deleting:
		return etcdv1.ReasonDeleting, v.deleting()
	case v.seen.Failure != nil:
		return v.seen.Failure.Reason, stateful.Join(paused, v.seen.Failure.Message)
	case v.settled() && v.seen.Paused:
		return etcdv1.ReasonPaused, stateful.Join(paused, v.well())
	case v.settled() && v.parked():
		return etcdv1.ReasonParked, v.well()
	case v.settled():
		return etcdv1.ReasonAllVoting, stateful.Join(append([]string{v.well()}, stateful.Notes(v.seen.Seen)...)...)
	case v.seen.Paused:
		return etcdv1.ReasonPaused, stateful.Join(paused, v.model.Reason)
	case step != "":
		return step, text
	case v.seen.Observed == nil:
		return etcdv1.ReasonWorking, "looking at the cluster"
	}
	return v.waiting(), v.waitsFor()
}

// well says how a cluster is that is all that it should be.
func (v *view) well() string {
	if v.parked() {
		if left := len(v.world.View.Pods); left > 0 {
			return fmt.Sprintf("%d pods go: spec.replicas is 0; the data is kept", left)
		}
		return "no member runs: spec.replicas is 0; the data is kept"
	}
	return fmt.Sprintf("%d of %d members vote, %s leads", v.model.Healthy, replicasOf(&v.ec.Spec), v.model.Leader)
}

// deleting says what becomes of the data.
func (v *view) deleting() string {
	text := fmt.Sprintf("being deleted; the claims data-%s-* stay", v.ec.Name)
	if v.ec.Spec.TLS.Mode == etcdv1.TLSAuto {
		text += fmt.Sprintf(", and the Secret %s%s", v.ec.Name, suffixCA)
	}
	return text
}

// waiting is one word for what is missing while no step can be taken.
func (v *view) waiting() string {
	switch v.model.Verdict {
	case membership.Fresh:
		if len(v.world.Problems) > 0 {
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

// waitsFor says what is missing while no step can be taken.
func (v *view) waitsFor() string {
	wait := v.model.Reason
	if len(v.seen.Decision.Steps) > 0 && v.seen.Decision.Steps[0].Message != "" {
		wait = v.seen.Decision.Steps[0].Message
	}
	if v.world.View.Lagging && wait == "" {
		wait = "waiting for Kubernetes to look at the changed StatefulSet"
	}
	return v.account(wait)
}

// account puts why the first pod does not come up before what follows from it, unless that begins with it.
func (v *view) account(rest string) string {
	problem := ""
	if pods := slices.Sorted(maps.Keys(v.world.Problems)); len(pods) > 0 {
		const enough = 40 // rest may have the problem in a shorter form
		if text := v.world.Problems[pods[0]]; !strings.Contains(rest, text[:min(enough, len(text))]) {
			problem = "pod " + pods[0] + ": " + text
		}
	}
	return stateful.Join(problem, stateful.Blocked(v.seen.Seen), rest)
}
