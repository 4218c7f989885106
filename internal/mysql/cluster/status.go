// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mysqlv1 "d3os.com/d3os-operator/api/mysql/v1alpha1"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/mysql/replication"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/version"
)

// Status writes the observation and the decision to the status of a MySQLCluster. Positions change with each
// transaction. So if only positions have changed, Status keeps the former status.
func (k *Kind) Status(mc *mysqlv1.MySQLCluster, seen reconcile.Seen[Observation], now metav1.Time) {
	v := view{mc: mc, seen: seen, now: now}
	before := mc.Status.DeepCopy()
	s := &mc.Status
	if seen.Observed != nil {
		v.observed, v.decided = *seen.Observed, seen.Observed.decided
		v.failover(s)
		v.count(s)
	}
	s.Phase = v.phase(before)
	s.ObservedGeneration = seen.Generation
	s.Selector = database.Selector(reconcile.OwnerOf(k, mc), part)
	s.Endpoint = fmt.Sprintf("%s.%s.svc:3306", mc.Name, mc.Namespace)
	s.ReadEndpoint = fmt.Sprintf("%s-read.%s.svc:3306", mc.Name, mc.Namespace)
	s.Step, _ = v.doing()
	standing := v.standing(s.Phase)
	standing.Began = database.Beginning{
		Subject: mysqlv1.Kind + " " + mc.Name, Serves: standing.Settled && !v.parked(), Forms: v.forms(), FirstReady: &s.FirstReady, Conditions: s.Conditions,
	}.Judge()
	s.Reason, s.Message = database.Explain(standing, seen)
	if metav1.GetControllerOf(mc) != nil {
		s.Message = inPlatform.Replace(s.Message)
		for i := range s.Notes {
			s.Notes[i] = inPlatform.Replace(s.Notes[i])
		}
	}
	v.conditions(s, standing)
	s.Message = database.AddBackups(standing, seen, s.Message, s.Conditions)
	if positions := positionsOf(s); !reflect.DeepEqual(positions, positionsOf(before)) {
		setPositions(s, positionsOf(before))
		if !reflect.DeepEqual(s, before) {
			setPositions(s, positions)
		}
	}
}

// inPlatform renames fields in messages about a database that belongs to a DataService, because its user sets the fields of the
// DataService.
var inPlatform = strings.NewReplacer("spec.replication.", "spec.mysql.replication.", "spec.replicas", "spec.mysql.replica")

// positionsOf returns the positions of members, by pod.
func positionsOf(s *mysqlv1.MySQLClusterStatus) map[string]string {
	all := map[string]string{}
	for i := range s.Members {
		all[s.Members[i].Name] = s.Members[i].Position
	}
	return all
}

func setPositions(s *mysqlv1.MySQLClusterStatus, all map[string]string) {
	for i := range s.Members {
		s.Members[i].Position = all[s.Members[i].Name]
	}
}

// view holds the inputs of a status.
type view struct {
	mc       *mysqlv1.MySQLCluster
	seen     reconcile.Seen[Observation]
	now      metav1.Time
	observed Observation
	decided  replication.Decision
}

// forms reports whether all volumes are empty, and member 0 creates a new database without a backup.
func (v *view) forms() bool {
	step := v.decided.Step
	return v.decided.Model.State == replication.StateFresh && step != nil && step.Ticket == replication.SeedTicket && v.mc.Spec.RestoreFrom == nil && !v.seen.Paused
}

// failover records a change of the primary that was not planned. Once the new primary serves, failover adds the time
// and the duration.
func (v *view) failover(s *mysqlv1.MySQLClusterStatus) {
	r := v.observed.Record
	to := database.PodName(v.mc.Name, r.Primary.Ordinal)
	isPlanned := s.Phase == mysqlv1.PhaseSwitching || s.Phase == mysqlv1.PhaseScaling || s.Phase == mysqlv1.PhaseUpgrading
	if r.Formed && s.Primary != "" && s.Primary != to && !isPlanned {
		s.LastFailover = &mysqlv1.FailoverStatus{From: s.Primary, To: to, Reason: string(replication.StatePrimaryLost)}
	}
	last := s.LastFailover
	if last == nil || last.To != to || last.Time != nil || !v.observed.isServed() {
		return
	}
	began := v.observed.Unwritable
	if c := meta.FindStatusCondition(s.Conditions, mysqlv1.ConditionAvailable); c != nil && c.Status == metav1.ConditionFalse && (began.IsZero() || c.LastTransitionTime.Time.Before(began)) {
		began = c.LastTransitionTime.Time // the condition is older: an earlier operator process observed the loss first
	}
	last.Time = &v.now
	if !began.IsZero() {
		last.Took = v.now.Sub(began).Round(100 * time.Millisecond).String()
	}
}

// count sets the fields about the record and the members.
func (v *view) count(s *mysqlv1.MySQLClusterStatus) {
	r := v.observed.Record
	s.Primary, s.Epoch, s.Voters = "", r.Epoch, nil
	if r.Formed {
		s.Primary = database.PodName(v.mc.Name, r.Primary.Ordinal)
	}
	for _, id := range r.Voters {
		s.Voters = append(s.Voters, database.PodName(v.mc.Name, id.Ordinal))
	}
	wanted := replicasOf(&v.mc.Spec)
	s.Replicas, s.ReadyReplicas = int32(v.observed.Pods), 0 //nolint:gosec // a few pods
	s.State, s.LossToken = string(v.decided.Model.State), v.decided.Model.Token
	s.Notes = slices.Concat(v.decided.Model.Notes, v.notes(), v.kept())
	s.Members, s.Version = nil, ""
	for i := range v.observed.Members {
		m := v.observed.member(v.mc, i, v.decided)
		if m.State == stateWell && int(m.Ordinal) < wanted {
			s.ReadyReplicas++
		}
		if m.Version != "" && (s.Version == "" || version.Newer(s.Version, m.Version)) {
			s.Version = m.Version
		}
		s.Members = append(s.Members, m)
	}
	s.Ready = fmt.Sprintf("%d/%d", s.ReadyReplicas, wanted)
}

// longestAccounts limits the characters of an agent's report about accounts.
const longestAccounts = 300

// notes returns notes that do not make a database unhealthy: accounts that differ from the spec, full volumes, and notes about objects.
func (v *view) notes() (notes []string) {
	for i := range v.observed.Members {
		if m := v.observed.Members[i]; m.Answers && m.Identity == v.observed.Record.Primary && v.observed.Looks[i].Answer.Accounts != "" {
			notes = append(notes, "accounts differ from the spec: "+health.Clip(v.observed.Looks[i].Answer.Accounts, longestAccounts))
		}
		if full := v.observed.Looks[i].Answer.Full; full != "" && v.observed.Members[i].Answers {
			notes = append(notes, fmt.Sprintf("%s: %s", database.PodName(v.mc.Name, v.observed.Members[i].Ordinal), full))
		}
	}
	return append(notes, database.Notes(v.seen.PlanSeen)...)
}

// kept names the member whose volume keeps the most former data.
func (v *view) kept() []string {
	var kept []database.Kept
	for i := range v.observed.Looks {
		look := &v.observed.Looks[i]
		kept = append(kept, database.Kept{Pod: database.PodName(v.mc.Name, look.Pod.Ordinal), MiB: look.Answer.Kept})
	}
	return database.KeptNotes(kept, "former data (mysql.set-aside-*)")
}

// isSettled reports whether the database is as the spec describes it.
func (obs *Observation) isSettled(mc *mysqlv1.MySQLCluster, decided replication.Decision) bool {
	wanted := replicasOf(&mc.Spec)
	if obs.Lagging || obs.Pods != wanted {
		return false
	}
	if wanted == 0 {
		return true
	}
	for i := range obs.Members {
		if m := obs.member(mc, i, decided); int(m.Ordinal) < wanted && m.State != stateWell {
			return false
		}
	}
	return decided.Model.State == replication.StateHealthy && obs.isServed() && obs.notReady() < 0
}

// notReady returns the ordinal of an existing pod that is not ready, or -1.
func (obs *Observation) notReady() int {
	return slices.IndexFunc(obs.pods, func(p pod) bool { return p.UID != "" && !p.ready })
}

// doing returns the name and the message of the running step. It ignores the step that labels a pod.
func (v *view) doing() (step, text string) { return database.Doing(v.seen, stepLabel) }

func (v *view) settled() bool {
	return v.seen.Observed != nil && v.seen.Failure == nil && v.observed.Failure == "" && v.observed.isSettled(v.mc, v.decided)
}

func (v *view) parked() bool {
	return v.seen.Observed != nil && v.decided.Model.State == replication.StateParked
}

// hopeless reports whether only a user can act.
func (v *view) hopeless() bool {
	switch v.decided.Model.State { //nolint:exhaustive // in other states the operator or a member continues
	case replication.StateRecordLost, replication.StateDiverged, replication.StateLost:
		return v.decided.Step == nil
	case replication.StatePrimaryLost:
		return v.decided.Step == nil // failover is Manual
	}
	return false
}

// well describes a settled database.
func (v *view) well() string {
	if v.parked() {
		return "no member runs: spec.replicas is 0; the data is kept"
	}
	return fmt.Sprintf("%s is the primary of %d members", database.PodName(v.mc.Name, v.observed.Record.Primary.Ordinal), replicasOf(&v.mc.Spec))
}

// waiting returns the reason why no step can run.
func (v *view) waiting() string {
	switch state := v.decided.Model.State; {
	case state == replication.StateFresh && len(v.observed.Problems) > 0:
		return mysqlv1.ReasonPodsNotReady
	case state == replication.StateFresh:
		return mysqlv1.ReasonForming
	case state == replication.StateLost:
		return mysqlv1.ReasonWaitingForConsent
	case state == replication.StateHealthy || state == replication.StateParked:
		if v.settled() {
			return mysqlv1.ReasonHealthy
		}
		return mysqlv1.ReasonMembersNotWell
	default:
		return string(state)
	}
}

// waitsFor describes the reason why no step can run.
func (v *view) waitsFor() string {
	if v.decided.Model.Message != "" {
		text := v.decided.Model.Message
		if token := v.decided.Model.Token; token != "" {
			text += ": to continue without the lost transactions, set spec.replication.acceptLoss to " + token
		}
		return text
	}
	if v.observed.Lagging {
		return "waiting for Kubernetes to process the changed StatefulSet"
	}
	for i := range v.observed.Members {
		if m := v.observed.member(v.mc, i, v.decided); m.State != stateWell {
			return v.alone() + strings.TrimSuffix(fmt.Sprintf("member %d is %s: %s", m.Ordinal, m.State, m.Message), ": ")
		}
	}
	if ordinal := v.observed.notReady(); ordinal >= 0 {
		return fmt.Sprintf("%s answers, but is not ready: no Service sends requests to it", database.PodName(v.mc.Name, ordinal))
	}
	return "waiting for pods"
}

// alone returns the beginning of a message if the primary has lost all copies of its data; otherwise "". A new or
// growing database has never had a copy, so alone returns "" for it.
func (v *view) alone() string {
	switch v.mc.Status.Phase { //nolint:exhaustive // in other phases there was a copy
	case "", mysqlv1.PhasePending, mysqlv1.PhaseCreating, mysqlv1.PhaseScaling:
		return ""
	}
	r := v.observed.Record
	if !r.Formed || r.Acknowledgements > 0 || !v.observed.isServed() || replicasOf(&v.mc.Spec) < 2 {
		return ""
	}
	return fmt.Sprintf("member %d is alone, without a copy of its data: ", r.Primary.Ordinal)
}

// account returns a message that names the problem of a pod first, and then its consequences.
func (v *view) account(rest string) string {
	return database.Account(v.observed.Problems, v.seen.PlanSeen, rest)
}
