// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	mysqlv1 "d3os.com/d3os-operator/api/mysql/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/backup"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/metrics"
	"d3os.com/d3os-operator/internal/mysql/replication"
	"d3os.com/d3os-operator/internal/reconcile"
)

// phase returns the phase of the database. While the operator carries out a change of the spec, the phase names that
// change.
func (v *view) phase(before *mysqlv1.MySQLClusterStatus) mysqlv1.Phase {
	switch {
	case v.seen.Deleting:
		return before.Phase
	case v.seen.Observed == nil && v.seen.Paused && before.Phase == "":
		return mysqlv1.PhasePaused
	case v.seen.Failure != nil:
		return mysqlv1.PhaseFailed
	case v.seen.Observed == nil && before.Phase == "":
		return mysqlv1.PhasePending
	case v.seen.Observed == nil:
		return before.Phase
	case v.settled() && v.parked():
		return mysqlv1.PhaseParked
	case v.settled():
		return mysqlv1.PhaseRunning
	}
	during := before.Phase
	isScaled := v.seen.Generation != before.ObservedGeneration && len(before.Members) > 0 && len(before.Members) != replicasOf(&v.mc.Spec)
	switch {
	case isScaled:
		during = mysqlv1.PhaseScaling
	case v.observed.Lagging && before.Phase == mysqlv1.PhaseRunning:
		during = mysqlv1.PhaseUpgrading
	}
	return v.unsettled(during)
}

// unsettled returns the phase of a database that does not match its spec. during is the phase of the change in
// progress, if there is one.
func (v *view) unsettled(during mysqlv1.Phase) mysqlv1.Phase {
	hasProblem := len(v.observed.Problems) > 0
	change := func(otherwise mysqlv1.Phase) mysqlv1.Phase {
		switch during { //nolint:exhaustive // the others are not changes
		case "", mysqlv1.PhasePending, mysqlv1.PhaseCreating, mysqlv1.PhasePaused:
			return mysqlv1.PhaseCreating
		case mysqlv1.PhaseScaling, mysqlv1.PhaseUpgrading, mysqlv1.PhaseSwitching:
			if !hasProblem {
				return during
			}
		}
		return otherwise
	}
	switch v.decided.Model.State {
	case replication.StateParked:
		return mysqlv1.PhaseScaling
	case replication.StateFresh:
		if v.observed.Pods == 0 {
			return mysqlv1.PhasePending
		}
		return mysqlv1.PhaseCreating
	case replication.StateLost:
		return mysqlv1.PhaseLost
	case replication.StateRecordLost, replication.StateDiverged:
		return mysqlv1.PhaseFailed
	case replication.StateQuorumLost, replication.StateBlocked:
		return v.unwritable(change)
	case replication.StatePrimaryUnseen:
		return change(mysqlv1.PhaseUnavailable)
	case replication.StatePrimaryLost:
		if v.decided.Step == nil {
			return mysqlv1.PhaseUnavailable
		}
		return mysqlv1.PhaseRecovering
	case replication.StateRolling:
		if hasProblem {
			return mysqlv1.PhaseDegraded
		}
		return mysqlv1.PhaseUpgrading
	case replication.StateSwitchWanted:
		return change(mysqlv1.PhaseSwitching)
	case replication.StateRecorded:
		if v.observed.isServed() {
			return change(mysqlv1.PhaseDegraded)
		}
		return change(mysqlv1.PhaseRecovering)
	case replication.StateSwitching, replication.StateJoining, replication.StateGrowing:
		return change(mysqlv1.PhaseRecovering)
	case replication.StateHealthy, replication.StateVoterBad, replication.StateSplit, replication.StateErrant:
	}
	return change(mysqlv1.PhaseDegraded)
}

// changeWaits is the time for which commits may wait during a change before the phase becomes Unavailable. The voters
// usually reconnect within that time.
const changeWaits = 30 * time.Second

// unwritable returns the phase while commits wait or are impossible.
func (v *view) unwritable(change func(mysqlv1.Phase) mysqlv1.Phase) mysqlv1.Phase {
	if v.decided.Model.State == replication.StateBlocked && v.decided.Step != nil && v.now.Sub(v.observed.Unwritable) < changeWaits {
		return change(mysqlv1.PhaseUnavailable)
	}
	return mysqlv1.PhaseUnavailable
}

// standing returns the part of the status that is common to all kinds of databases.
func (v *view) standing(phase mysqlv1.Phase) *database.Standing {
	step, text := v.doing()
	s := &database.Standing{
		Settled: v.settled(), Hopeless: v.hopeless(), Degraded: v.observed.Failure != "" || isDegraded(phase), PauseField: "spec.paused",
		Deleting:   fmt.Sprintf("being deleted; the claims data-%s-* and the passwords stay", v.mc.Name),
		WellReason: mysqlv1.ReasonAllFollow, Well: v.well(), Notes: v.notes(), Unwell: v.account(v.decided.Model.Message),
		Step: step, Doing: v.account(text), Looking: "looking at the database", WaitReason: v.waiting(), Wait: v.account(v.waitsFor()),
		CauseReason: v.waiting(),
	}
	if v.parked() {
		s.WellReason, s.Notes = mysqlv1.ReasonParked, nil
	}
	if v.observed.Failure != "" {
		s.Step, s.Doing = reconcile.ReasonStepFailed, database.Join(health.Refusal(v.observed.Failure), s.Doing)
		s.CauseReason = ""
	}
	return s
}

// conditions sets the conditions of a status.
func (v *view) conditions(s *mysqlv1.MySQLClusterStatus, standing *database.Standing) {
	c := reconcile.Conditions{List: &s.Conditions, Generation: v.seen.Generation, Now: v.now}
	database.SetConditions(c, standing, v.seen, s.Reason, s.Message, func() {
		v.available(c)
		if v.seen.Observed != nil {
			s.Backup = v.reportBackups(s.Backup, c)
			v.observed.restored.Set(c)
		}
	})
}

// available sets the conditions about writes and copies. Without an observation, it keeps the conditions.
func (v *view) available(c reconcile.Conditions) {
	if v.seen.Observed == nil && meta.FindStatusCondition(v.mc.Status.Conditions, mysqlv1.ConditionAvailable) != nil {
		return
	}
	if v.parked() {
		c.Set(mysqlv1.ConditionAvailable, false, "", "", mysqlv1.ReasonParked, "spec.replicas is 0")
		c.Set(mysqlv1.ConditionRedundant, false, "", "", mysqlv1.ReasonParked, "spec.replicas is 0")
		return
	}
	c.Set(mysqlv1.ConditionAvailable, v.observed.isServed(), mysqlv1.ReasonWritable, "the primary can be written",
		mysqlv1.ReasonNotWritable, "no primary can be written")
	r := v.observed.Record
	c.Set(mysqlv1.ConditionRedundant, v.copied(), mysqlv1.ReasonCopied, "another member has all acknowledged transactions",
		mysqlv1.ReasonAlone, "no other member is known to have all acknowledged transactions")
	var foreign []string
	for _, m := range v.observed.Members {
		if m.Answers && m.Volume == replication.VolumeForeign {
			foreign = append(foreign, database.PodName(v.mc.Name, m.Ordinal))
		}
	}
	switch {
	case len(foreign) > 0:
		c.While(mysqlv1.ConditionQuarantined, true, mysqlv1.ReasonForeignVolume, "the volumes of "+strings.Join(foreign, ", ")+" have data of another member: the operator does not change these volumes")
	default:
		isErrant := v.decided.Model.State == replication.StateErrant && r.Formed
		c.While(mysqlv1.ConditionQuarantined, isErrant, mysqlv1.ReasonSetAside, v.decided.Model.Message)
	}
}

// copied reports whether the primary demands acknowledgements, and a voter follows it and acknowledges.
func (v *view) copied() bool {
	r := v.observed.Record
	for _, m := range v.observed.Members {
		if r.Acknowledgements > 0 && r.IsVoter(m.Identity) && m.Running && m.Role == replication.RoleReplica && m.Connected && m.Acknowledges {
			return true
		}
	}
	return false
}

// isDegraded reports whether the database is impaired in a phase.
func isDegraded(phase mysqlv1.Phase) bool {
	switch phase { //nolint:exhaustive // in the others the database is healthy, or becomes so
	case mysqlv1.PhaseDegraded, mysqlv1.PhaseRecovering, mysqlv1.PhaseUnavailable, mysqlv1.PhaseLost, mysqlv1.PhaseFailed:
		return true
	}
	return false
}

// Summary returns the summary of a MySQLCluster's status.
func (*Kind) Summary(mc *mysqlv1.MySQLCluster) reconcile.Summary {
	s := &mc.Status
	ready := meta.IsStatusConditionTrue(s.Conditions, mysqlv1.ConditionReady)
	summary := reconcile.Summary{
		Phase: string(s.Phase), Generation: s.ObservedGeneration, Ready: ready, ReadyText: fmt.Sprintf("%s (members: %s)", s.Message, s.Ready),
		New: s.Phase == "" || s.Phase == mysqlv1.PhasePaused || s.Phase == mysqlv1.PhasePending || s.Phase == mysqlv1.PhaseCreating,
		Urgent: s.Step != "" || s.Phase == mysqlv1.PhaseFailed || s.Phase == mysqlv1.PhaseUnavailable || s.Phase == mysqlv1.PhaseLost ||
			s.Phase == mysqlv1.PhaseRunning,
		Parts:   []metrics.Part{{Name: "mysql", Ready: ready, Pods: s.ReadyReplicas, Desired: s.Replicas}},
		Members: inStates(s.Members),
	}
	for i := range s.Members {
		summary.Claims = append(summary.Claims, database.ClaimName(mc.Name, int(s.Members[i].Ordinal)))
	}
	known := ptr.Deref(s.Backup, mysqlv1.BackupStatus{})
	summary.Warnings = backup.Warnings(known.LastID, known.Warnings, s.Conditions)
	if s.Backup != nil {
		summary.Backups = backupsOf(mc).Summary(&s.Backup.ClusterBackupStatus, s.Conditions)
	}
	database.Summarize(&summary, s.Conditions, mysqlv1.ConditionDegraded, s.Step, s.Message)
	if owner := metav1.GetControllerOf(mc); owner != nil && owner.Kind == dsv1.Kind { // the metrics of the DataService already report these backups: one alert is enough
		summary.Backups = nil
		summary.Conditions = slices.DeleteFunc(slices.Clone(s.Conditions), func(c metav1.Condition) bool {
			return c.Type == dsv1.ConditionBackupHealthy || c.Type == mysqlv1.ConditionRecoverable
		})
	}
	return summary
}

// inStates counts members by state. States without members have the count 0, so that their time series do not end.
func inStates(members []mysqlv1.MemberStatus) map[string]int {
	found := map[string]int{}
	for _, state := range states {
		found[state] = 0
	}
	for i := range members {
		found[members[i].State]++
	}
	return found
}
