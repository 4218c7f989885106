// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/redis/topology"
)

// Status writes the observation and the decision to the status of a RedisCluster.
func (k *Kind) Status(rc *redisv1.RedisCluster, seen reconcile.Seen[Observation], now metav1.Time) {
	v := view{rc: rc, seen: seen}
	if seen.Observed != nil {
		v.observed, v.decided = *seen.Observed, seen.Observed.decided
	}
	s := &rc.Status
	s.ObservedGeneration = seen.Generation
	s.Selector = database.Selector(reconcile.OwnerOf(k, rc), part)
	v.wasServed = s.Slots == redisv1.Slots
	if s.Phase == "" {
		s.FirstReady = readyBefore(rc)
	}
	if seen.Observed != nil {
		v.count(s, now)
		s.Verdict = string(v.decided.Model.Verdict)
	}
	s.Phase = v.phase(s.Phase)
	s.Notes = append(notes(&rc.Spec), v.kept()...)
	s.Step, _ = v.doing()
	standing := v.standing(s)
	standing.Began = database.Beginning{
		Subject: redisv1.Kind + " " + rc.Name, Serves: standing.Settled && !v.parked(), Forms: v.forms(), FirstReady: &s.FirstReady, Conditions: s.Conditions,
	}.Judge()
	s.Reason, s.Message = v.explain(standing)
	v.conditions(s, standing, now)
	s.Message = database.AddBackups(standing, seen, s.Message, s.Conditions)
}

// view holds the inputs of a status.
type view struct {
	rc       *redisv1.RedisCluster
	seen     reconcile.Seen[Observation]
	observed Observation
	decided  topology.Decision
	// wasServed reports whether all slots were served when the status was last written.
	wasServed bool
}

// readyBefore returns the time in the annotation of a DataService whose former RedisCluster was ready, or nil.
func readyBefore(rc *redisv1.RedisCluster) *metav1.Time {
	at, err := time.Parse(time.RFC3339, rc.Annotations[object.AnnotationReadyBefore])
	if err != nil {
		return nil
	}
	return ptr.To(metav1.NewTime(at))
}

// forms reports whether all pods are empty and form a new cluster, without a backup.
func (v *view) forms() bool {
	return v.decided.Model.Verdict == topology.Fresh && v.rc.Spec.RestoreFrom == nil && !v.seen.Paused
}

// phase returns the phase of the cluster.
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

// phaseAfter returns the phase after an observation. During a change, it keeps the phase of the change while every slot has a living owner:
// nodes and pods need a moment to detect a new node, and that is not a failure.
func (v *view) phaseAfter(before redisv1.Phase) redisv1.Phase {
	after := redisv1.Phase(topology.PhaseAfter(string(before), v.decided.Model))
	changing := before == redisv1.PhaseCreating || before == redisv1.PhaseScaling || before == redisv1.PhaseUpgrading
	step, _ := v.doing()
	switch {
	case after == redisv1.PhaseFailed && (before == redisv1.PhaseParked || before == redisv1.PhaseScaling) && v.startsAgain():
		return redisv1.PhaseScaling
	case after == redisv1.PhaseFailed && changing && v.onTheWay():
		return before
	case after != redisv1.PhaseRunning:
		return after
	case v.observed.Lagging:
		return redisv1.PhaseUpgrading
	case v.unwell() == nil && step != string(topology.ActionFailover): // after a failover, the nodes disagree for a moment
		return after
	case changing:
		return before
	case step != "":
		return redisv1.PhaseUpgrading
	}
	return redisv1.PhaseFailed
}

// unwell returns the first pod that does not serve, or nil.
func (v *view) unwell() *topology.Node {
	for i := range v.observed.Nodes {
		node := &v.observed.Nodes[i]
		if status, _, _ := v.judge(node); status != string(metav1.ConditionTrue) {
			return node
		}
	}
	return nil
}

// onTheWay reports whether every slot has a living owner, or will be served when the only pod of its shard has restarted.
func (v *view) onTheWay() bool {
	switch v.decided.Model.Verdict {
	case topology.Complete, topology.Healing:
		return true
	case topology.Returning:
		return v.podProblem() == ""
	default:
		return false
	}
}

// startsAgain reports whether a parked cluster is starting: it has not served all slots yet, and no known problem keeps
// it from serving them.
func (v *view) startsAgain() bool {
	verdict := v.decided.Model.Verdict
	return !v.wasServed && verdict != topology.SlotsLost && verdict != topology.Inconsistent && v.podProblem() == ""
}

// parked reports whether no pod is wanted, and none may start.
func (v *view) parked() bool {
	return v.seen.Observed != nil && v.decided.Model.Verdict == topology.Parked && isParked(&v.rc.Spec)
}

// doing returns the name and the message of the running step.
func (v *view) doing() (step, text string) {
	return database.Doing(v.seen, string(topology.ActionWait))
}

// settled reports whether the cluster matches the spec.
func (v *view) settled() bool {
	model := v.decided.Model
	if v.parked() {
		return v.seen.Failure == nil && model.Settled
	}
	return v.seen.Observed != nil && v.seen.Failure == nil && model.Settled && model.Redundant && model.Served == topology.Slots &&
		!v.observed.Lagging && v.unwell() == nil
}

// hopeless reports whether a user must act.
func (v *view) hopeless() bool {
	verdict := v.decided.Model.Verdict
	if verdict != topology.SlotsLost && verdict != topology.Inconsistent {
		return false
	}
	step, _ := v.doing()
	return step == ""
}

// explain returns the reason and the message of the status. A problem with the password precedes all others.
func (v *view) explain(standing *database.Standing) (reason, message string) {
	if v.password() == "" || standing.Settled || v.seen.Deleting || v.seen.Failure != nil {
		return database.Explain(standing, v.seen)
	}
	paused := ""
	if v.seen.Paused {
		paused = "paused (spec.pause): nothing is changed"
	}
	return reconcile.ReasonCredentialsFailed, database.Join(v.password(), paused)
}

// password describes the problem with the password in the Secret and its fix, or returns "".
func (v *view) password() string {
	switch {
	case v.observed.Password != "":
		return v.observed.Password + ". No server starts without the password: write the password of the servers to that key"
	case v.observed.OtherPassword:
		return fmt.Sprintf("Secret %s has another password than the servers, and a pod that starts now cannot join them: "+
			"restore the former password in the Secret. To change the password, change it on the servers first", secretOf(v.rc))
	}
	return ""
}

// well describes a settled cluster.
func (v *view) well(s *redisv1.RedisClusterStatus) (reason, message string) {
	if v.parked() {
		return redisv1.ReasonParked, "no pod runs: spec.replicas is 0; the data is kept"
	}
	shards := wantedShards(&v.rc.Spec)
	without := ""
	switch alone := withoutReplica(shards); {
	case len(shards) == 1 && alone == 1:
		return redisv1.ReasonAllServed, fmt.Sprintf("all %d slots are served by one pod, without a replica", s.Slots)
	case alone == len(shards):
		without = ", without replicas"
	case alone > 0:
		without = fmt.Sprintf(", %d of them without a replica", alone)
	}
	return redisv1.ReasonAllServed, fmt.Sprintf("all %d slots are served by %d shards%s", s.Slots, s.Shards, without)
}

// deleting describes the effect of a deletion on the data.
func (v *view) deleting() string {
	if keepsData(&v.rc.Spec) {
		return fmt.Sprintf("being deleted; the claims, the Secret %s and the ConfigMap %s stay", secretOf(v.rc), records.Name(v.rc.Name))
	}
	return "being deleted, and the data with it (spec.finalizers: foreground)"
}

// waiting returns the reason, in one word, why no step can be taken.
func (v *view) waiting() string {
	model := v.decided.Model
	switch {
	case v.refusing() != "":
		return redisv1.ReasonRefuses
	case len(model.Failing) > 0:
		return redisv1.ReasonStepFails
	case !v.observed.Record.Formed && v.unwell() != nil:
		return redisv1.ReasonPodsNotReady
	case !v.observed.Record.Formed:
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

// waitsFor returns the message that explains why no step can be taken.
func (v *view) waitsFor() string {
	wait := ""
	if len(v.seen.Decision.Steps) > 0 {
		wait = v.seen.Decision.Steps[0].Message
	}
	if wait == "" {
		wait = v.decided.Model.Reason
	}
	if v.observed.Lagging && wait == "" {
		wait = "waiting for Kubernetes to process the changed objects"
	}
	return v.account(database.Join(database.Blocked(v.seen.PlanSeen), wait))
}

// account joins causes and effects into a message, causes first.
func (v *view) account(rest string) string {
	return database.Join(v.causes(rest), v.firstUnwell())
}

// causes puts the reports of servers and Kubernetes before a text. If the text repeats the full problem of a pod, only
// the reason of the problem stays in the text.
func (v *view) causes(rest string) string {
	for _, problem := range v.observed.Problems {
		if reason, _, found := strings.Cut(problem, ": "); found {
			rest = strings.ReplaceAll(rest, problem, reason)
		}
	}
	return database.Join(v.password(), v.refusing(), v.podProblem(), rest)
}

// refusing names the servers that refuse requests of clients, and why. It returns "" if there are none.
func (v *view) refusing() string {
	var all []string
	for i := range v.observed.Nodes {
		if node := &v.observed.Nodes[i]; node.Refuses != "" {
			all = append(all, node.Pod+": "+node.Refuses)
		}
	}
	if len(all) > 3 {
		all = append(all[:3], fmt.Sprintf("and %d more pods", len(all)-3))
	}
	return strings.Join(all, "; ")
}

// kept returns a note that names the pod whose volume has the most former files. The sizes were measured when the servers started.
func (v *view) kept() []string {
	var kept []database.Kept
	for i := range v.observed.Nodes {
		node := &v.observed.Nodes[i]
		kept = append(kept, database.Kept{Pod: node.Pod, MiB: node.Kept})
	}
	return database.KeptNotes(kept, "files of former data (*.damaged, *.of-the-past, *.without-*; the size is from the server's start)")
}

// podProblem describes the first problem of a pod that does not start, and counts the others.
func (v *view) podProblem() string {
	pod := database.FirstProblem(v.observed.Problems)
	if pod == "" {
		return ""
	}
	text := "pod " + pod + ": " + v.observed.Problems[pod]
	if more := len(v.observed.Problems) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more pods do not come up)", more)
	}
	return text
}

// firstUnwell describes the first pod that does not serve, if neither its server nor Kubernetes reports a cause.
func (v *view) firstUnwell() string {
	if node := v.unwell(); node != nil && v.decided.Model.Settled && node.Refuses == "" && v.observed.Problems[node.Pod] == "" {
		_, _, message := v.judge(node)
		return "pod " + node.Pod + ": " + message
	}
	return ""
}
