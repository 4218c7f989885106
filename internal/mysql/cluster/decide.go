// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	mysqlv1 "d3os.com/d3os-operator/api/mysql/v1alpha1"
	"d3os.com/d3os-operator/internal/backup"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/mysql"
	"d3os.com/d3os-operator/internal/mysql/replication"
	"d3os.com/d3os-operator/internal/reconcile"
)

// Delays until the next pass if no event triggers one. Each pass queries the agents, but not the API server.
const (
	afterEffect  = 150 * time.Millisecond // after a step: the next pass observes its effect
	whileWaiting = 500 * time.Millisecond // a member is busy
	whileUnseen  = 250 * time.Millisecond // the primary may be lost; the queries take longer than this
	atRest       = 2 * time.Second        // only these passes detect a lost primary
)

// stepLabel is the name of the step that adds pods to the Service for reads or removes them.
const stepLabel = "Label"

// Decide returns the next step for an observation.
func (k *Kind) Decide(mc *mysqlv1.MySQLCluster, _ reconcile.PlanSeen, obs *Observation) reconcile.Decision {
	want := wanted(mc, obs.Record)
	want.WellFor = k.options.WellFor
	decided := replication.Decide(want, obs.Observation)
	obs.decided = decided
	if obs.Replacing {
		return reconcile.Decision{LookAgain: time.Second}
	}
	result := reconcile.Decision{LookAgain: pace(decided.Model.State)}
	if !obs.isSettled(mc, decided) {
		result.LookAgain = whileWaiting
	}
	switch step := decided.Step; {
	case decided.Model.State == replication.StateParked:
		result.LookAgain = 0
	case step != nil && !obs.isGiven(*step):
		result.LookAgain = afterEffect
		result.Steps = []reconcile.Step{{
			Name: string(step.Action), Message: step.Message,
			Do: func(ctx context.Context) error {
				return k.remember(mc).note(k.executor(mc, obs).take(ctx, *step), k.now())
			},
		}}
	default:
		result.Steps = k.label(mc, obs)
	}
	if job := obs.backups.afterGap; job != nil {
		result.Steps = append(result.Steps, mysql.BackUp(k.client, job))
	}
	if job := obs.backups.first; job != nil && obs.isSettled(mc, decided) {
		result.Steps = append(result.Steps, mysql.BackUpFirst(k.client, job))
	}
	result.Steps = append(result.Steps, backup.EndHeld(k.jobs, mc.Namespace, obs.backups.Jobs)...)
	if obs.Failing != "" && result.LookAgain > 0 {
		result.LookAgain = whileWaiting
	}
	return result
}

// pace returns the time until the next observation while the operator only waits.
func pace(state replication.State) time.Duration {
	switch state { //nolint:exhaustive // in other states a step follows soon
	case replication.StateHealthy, replication.StateLost, replication.StateRecordLost, replication.StateDiverged, replication.StateParked:
		return atRest
	case replication.StatePrimaryUnseen:
		return whileUnseen
	}
	return whileWaiting
}

// note stores the failure of a step for the status. It returns only ErrNotHeld: if passes return errors, the
// controller delays each further pass for longer, and would detect a lost primary late.
func (m *memory) note(err error, now time.Time) error {
	switch {
	case err == nil:
		m.failing, m.failingSince = "", time.Time{}
	case errors.Is(err, reconcile.ErrNotHeld):
		return err
	case m.failing == "":
		m.failing, m.failingSince = err.Error(), now
	default:
		m.failing = err.Error()
	}
	return nil
}

func (k *Kind) executor(mc *mysqlv1.MySQLCluster, obs *Observation) executor {
	return executor{
		Cluster: database.Cluster{Client: k.client, Live: k.live, Owner: reconcile.OwnerOf(k, mc)},
		connect: k.options.Connect, reach: obs.reach, tap: k.options.Tap,
	}
}

// isGiven reports whether a step was executed already, so that the operator only waits for its result: the pod has the ticket, or the pod
// is being deleted.
func (obs *Observation) isGiven(step replication.Step) bool {
	switch step.Action { //nolint:exhaustive // the next observation shows the effect of other steps
	case replication.ActionTicket:
		return step.Member.Ticket == step.Ticket
	case replication.ActionDeletePod:
		return slices.ContainsFunc(obs.pods, func(p pod) bool { return p.Ordinal == step.Member.Ordinal && p.terminating })
	}
	return false
}

// label returns the step that adds or removes the label of a pod for the Service for reads; nil if all labels are right. A member that lags
// loses the label after ten seconds. It gets the label again when it has caught up.
func (k *Kind) label(mc *mysqlv1.MySQLCluster, obs *Observation) []reconcile.Step {
	for i, m := range obs.Members {
		one := obs.pods[i]
		isPrimary := m.Identity == obs.Record.Primary && m.Role == replication.RolePrimary
		isReadable := m.Running && !m.Bad && (isPrimary || m.Connected && (one.readable || m.CaughtUp))
		if one.UID == "" || one.terminating || isReadable == one.readable {
			continue
		}
		name, value := database.PodName(mc.Name, m.Ordinal), any(nil)
		message := fmt.Sprintf("pod %s leaves Service %s-read", name, mc.Name)
		if isReadable {
			value, message = "true", fmt.Sprintf("pod %s joins Service %s-read", name, mc.Name)
		}
		return []reconcile.Step{{Name: stepLabel, Message: message, Do: func(ctx context.Context) error {
			return k.remember(mc).note(k.executor(mc, obs).label(ctx, name, one.UID, value), k.now())
		}}}
	}
	return nil
}
