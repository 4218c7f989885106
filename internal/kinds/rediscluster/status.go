// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/kinds/rediscluster/topology"
	"d3os.com/d3os-operator/internal/kinds/stateful"
)

// Status writes what was seen into the status of a RedisCluster.
func (k *Kind) Status(rc *redisv1.RedisCluster, seen kinds.Seen[World], now metav1.Time) {
	v := view{rc: rc, seen: seen}
	if seen.Observed != nil {
		v.world = *seen.Observed
		v.decided = topology.Decide(wanted(rc, v.world.Announced), v.world.Record, v.world.Nodes)
	}
	s := &rc.Status
	s.ObservedGeneration = seen.Generation
	s.Selector = stateful.Selector(kinds.OwnerOf(k, rc), part)
	if seen.Observed != nil {
		v.count(s, now)
		s.Verdict = string(v.decided.Model.Verdict)
	}
	s.Phase = v.phase(s.Phase)
	s.Step, _ = v.doing()
	s.Reason, s.Message = v.explain(s)
	v.conditions(s, now)
}

// view is what a status is made from.
type view struct {
	rc      *redisv1.RedisCluster
	seen    kinds.Seen[World]
	world   World
	decided topology.Decision
}

// phase is one word for where the cluster stands.
func (v *view) phase(before redisv1.Phase) redisv1.Phase {
	switch {
	case v.seen.Deleting:
		return before
	case v.seen.Observed != nil:
		return v.phaseAfter(before)
	case v.seen.Paused && (before == "" || before == redisv1.PhaseNone):
		return redisv1.PhaseNone
	case v.seen.Failure != nil:
		return redisv1.PhaseFailed
	case before == "":
		return redisv1.PhaseNone
	}
	return before
}

// phaseAfter is the phase that follows from what was observed. While a change is carried out, it stays
// that of the change for as long as every slot has a living owner: it takes nodes and pods a moment to
// hear of a new one, and that is no failure.
func (v *view) phaseAfter(before redisv1.Phase) redisv1.Phase {
	after := redisv1.Phase(topology.PhaseAfter(string(before), v.decided.Model))
	changing := before == redisv1.PhaseCreating || before == redisv1.PhaseScaling || before == redisv1.PhaseUpgrading
	step, _ := v.doing()
	switch {
	case after == redisv1.PhaseFailed && changing && v.onTheWay():
		return before
	case after != redisv1.PhaseRunning:
		return after
	case v.world.Lagging:
		return redisv1.PhaseUpgrading
	case v.unwell() == nil:
		return after
	case changing:
		return before
	case step != "":
		return redisv1.PhaseUpgrading
	}
	return redisv1.PhaseFailed
}

// unwell is the first of the pods that do not do their part, or nil.
func (v *view) unwell() *topology.Node {
	for i := range v.world.Nodes {
		node := &v.world.Nodes[i]
		if status, _, _ := v.judge(node); status != string(metav1.ConditionTrue) {
			return node
		}
	}
	return nil
}

// onTheWay reports whether every slot has a living owner.
func (v *view) onTheWay() bool {
	verdict := v.decided.Model.Verdict
	return verdict == topology.Complete || verdict == topology.Healing
}

// doing is the name of the step that is being taken, and what it does.
func (v *view) doing() (step, text string) {
	return stateful.Doing(v.seen, string(topology.ActionWait))
}

// settled reports whether the cluster is all that the spec asks for.
func (v *view) settled() bool {
	model := v.decided.Model
	return v.seen.Observed != nil && v.seen.Failure == nil && model.Settled && model.Redundant && model.Served == topology.Slots &&
		!v.world.Lagging && v.unwell() == nil
}

// hopeless reports whether only a person can help.
func (v *view) hopeless() bool {
	if v.seen.Failure != nil {
		return v.seen.Failure.Stalled
	}
	verdict := v.decided.Model.Verdict
	if verdict != topology.SlotsLost && verdict != topology.Inconsistent {
		return false
	}
	step, _ := v.doing()
	return step == ""
}

// explain returns the reason and the message of the status.
func (v *view) explain(s *redisv1.RedisClusterStatus) (reason, message string) {
	step, text := v.doing()
	model := v.decided.Model
	paused := ""
	if v.seen.Paused {
		paused = "paused (spec.pause): nothing is changed"
	}
	switch {
	case v.seen.Deleting:
		return redisv1.ReasonDeleting, v.deleting()
	case v.seen.Failure != nil:
		return v.seen.Failure.Reason, stateful.Join(paused, v.seen.Failure.Message)
	case v.password() != "" && !v.settled():
		return kinds.ReasonCredentialsFailed, stateful.Join(v.password(), paused)
	case v.settled():
		text := fmt.Sprintf("all %d slots are served by %d shards", s.Slots, s.Shards)
		if v.seen.Paused {
			return redisv1.ReasonPaused, stateful.Join(paused, text)
		}
		return redisv1.ReasonAllServed, stateful.Join(append([]string{text}, stateful.Notes(v.seen.Seen)...)...)
	case v.seen.Paused:
		return redisv1.ReasonPaused, stateful.Join(paused, model.Reason)
	case step != "":
		return step, stateful.Join(v.password(), v.refusing(), text)
	case v.seen.Observed == nil:
		return redisv1.ReasonWorking, "looking at the cluster"
	}
	return v.waiting(), v.waitsFor()
}

// password returns what is wrong with the password in the Secret, and what to do; empty for nothing.
func (v *view) password() string {
	switch {
	case v.world.Password != "":
		return v.world.Password + ". No server starts without it: put the password of the servers there"
	case v.world.OtherPassword:
		return fmt.Sprintf("Secret %s has another password than the servers take, and a pod that starts now cannot join them: "+
			"put the former one back, and change it on the servers first", secretOf(v.rc))
	}
	return ""
}

// deleting says what becomes of the data.
func (v *view) deleting() string {
	if keepsData(&v.rc.Spec) {
		return fmt.Sprintf("being deleted; the claims, the Secret %s and the ConfigMap %s stay", secretOf(v.rc), records.Name(v.rc.Name))
	}
	return "being deleted, and the data with it (spec.finalizers: foreground)"
}

// waiting is one word for what is missing while no step can be taken.
func (v *view) waiting() string {
	model := v.decided.Model
	switch {
	case v.refusing() != "":
		return redisv1.ReasonRefuses
	case len(model.Failing) > 0:
		return redisv1.ReasonStepFails
	case !v.world.Record.Formed && v.unwell() != nil:
		return redisv1.ReasonPodsNotReady
	case !v.world.Record.Formed:
		return redisv1.ReasonForming
	case model.Verdict != topology.Complete && model.Verdict != topology.Fresh && model.Verdict != topology.Healing && model.Verdict != "":
		return string(model.Verdict)
	case model.Served < topology.Slots:
		return redisv1.ReasonSlotsNotServed
	case !model.Redundant:
		return redisv1.ReasonNotRedundant
	case v.unwell() != nil:
		return redisv1.ReasonPodsNotReady
	}
	return redisv1.ReasonWorking
}

// waitsFor says what is missing while no step can be taken.
func (v *view) waitsFor() string {
	wait := ""
	if len(v.seen.Decision.Steps) > 0 {
		wait = v.seen.Decision.Steps[0].Message
	}
	if wait == "" {
		wait = v.decided.Model.Reason
	}
	if v.world.Lagging && wait == "" {
		wait = "waiting for what was changed to reach Kubernetes"
	}
	return v.account(stateful.Join(stateful.Blocked(v.seen.Seen), wait))
}

// account puts what is the root of it before what follows from it.
func (v *view) account(rest string) string {
	return stateful.Join(v.password(), v.refusing(), v.podProblem(), rest, v.firstUnwell())
}

// refusing names the servers that refuse what clients ask, and why; empty if there are none.
func (v *view) refusing() string {
	var all []string
	for i := range v.world.Nodes {
		if node := &v.world.Nodes[i]; node.Refuses != "" {
			all = append(all, node.Pod+": "+node.Refuses)
		}
	}
	if len(all) > 3 {
		all = append(all[:3], fmt.Sprintf("and %d more pods", len(all)-3))
	}
	return strings.Join(all, "; ")
}

// podProblem is why the first pod does not come up that does not.
func (v *view) podProblem() string {
	text, more := "", 0
	for i := range v.world.Nodes {
		node := &v.world.Nodes[i]
		problem := v.world.Problems[node.Pod]
		switch {
		case problem == "":
		case text == "":
			text = "pod " + node.Pod + ": " + problem
		default:
			more++
		}
	}
	if more > 0 {
		text += fmt.Sprintf(" (and %d more pods do not come up)", more)
	}
	return text
}

// firstUnwell is why the first pod does not do its part, where the servers have nothing to say of it.
func (v *view) firstUnwell() string {
	if node := v.unwell(); node != nil && v.decided.Model.Settled && node.Refuses == "" && v.world.Problems[node.Pod] == "" {
		_, _, message := v.judge(node)
		return "pod " + node.Pod + ": " + message
	}
	return ""
}
