// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/backup"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/etcd/membership"
	"d3os.com/d3os-operator/internal/etcd/server"
	"d3os.com/d3os-operator/internal/reconcile"
)

// Decide returns the steps that follow from an observation.
func (k *Kind) Decide(ec *etcdv1.EtcdCluster, _ reconcile.PlanSeen, obs *Observation) reconcile.Decision {
	ec = obs.of(ec)
	want := wanted(ec)
	want.WellFor = k.wellFor
	decided := membership.Decide(want, obs.View)
	obs.model = decided.Model
	if obs.Replacing {
		return reconcile.Decision{LookAgain: time.Second}
	}
	result := reconcile.Decision{LookAgain: decided.LookAgain}
	for _, step := range decided.Steps {
		if step.Quiet {
			result.Steps = append(result.Steps, reconcile.Step{
				Name: string(membership.ActionWait), Do: func(ctx context.Context) error { return k.take(ctx, ec, obs, step) },
			})
			continue
		}
		result.Steps = append(result.Steps, reconcile.Step{
			Name: string(step.Action), Message: step.Message,
			Do: func(ctx context.Context) error { return k.take(ctx, ec, obs, step) },
		})
	}
	if result.NoteAgain = pausedAgain; len(decided.Positions) > 0 {
		result.NoteAgain = decided.LookAgain
	}
	for _, step := range decided.Positions {
		result.Notes = append(result.Notes, reconcile.Step{
			Name: string(step.Action), Message: step.Message,
			Do: func(ctx context.Context) error { return k.note(ctx, ec, obs, step) },
		})
	}
	result.Steps = append(result.Steps, backup.EndHeld(k.jobs, ec.Namespace, obs.backups.Jobs)...)
	if obs.View.Lagging && result.LookAgain > time.Second {
		result.LookAgain = time.Second
	}
	return result
}

// pausedAgain is the time until the next pass of a paused cluster. Each pass reads the positions of the members' data.
const pausedAgain = 30 * time.Second

// note writes the position of a member's data (its last log entry) to the member's claim. While the cluster is paused or
// its spec is refused, no plan publishes the position to the agents, so note also publishes it.
func (k *Kind) note(ctx context.Context, ec *etcdv1.EtcdCluster, obs *Observation, step membership.Step) error {
	if err := k.take(ctx, ec, obs, step); err != nil || !ec.Spec.Paused && !obs.unplanned {
		return err
	}
	objects := database.Cluster{Client: k.client, Live: k.live, Owner: reconcile.OwnerOf(k, ec)}
	claim := membership.Claim{Ordinal: step.Ordinal, Cluster: step.Mark.Cluster, Member: step.Mark.Member, Position: step.Mark.Position}
	if err := records.Publish(ctx, objects, obs.recordAt, positions(ec, []membership.Claim{claim}, nil)); err != nil {
		return fmt.Errorf("%w: %w", reconcile.ErrAgain, err)
	}
	return nil
}

// take runs a step. After a failure, the next pass decides again. The status reports the failure if it repeats.
func (k *Kind) take(ctx context.Context, ec *etcdv1.EtcdCluster, obs *Observation, step membership.Step) error {
	err := k.servers.Take(ctx, server.Request{
		Cluster: clusterKey(ec.Namespace, ec.Name), Access: obs.access, Step: step,
		Kubernetes: &cluster{Cluster: database.Cluster{Client: k.client, Live: k.live, Owner: reconcile.OwnerOf(k, ec)}, now: k.now(), record: obs.recordAt,
			rotate: func(phase membership.AuthorityPhase) error { return k.planner.keeper.rotate(ec, phase) }},
		PeerURLs: wanted(ec).PeerURLs,
	})
	switch {
	case errors.Is(err, server.ErrNotYet):
		return nil // etcd refuses some changes for a few seconds after a change: the next pass retries the step
	case err != nil:
		return fmt.Errorf("%w: %w", reconcile.ErrAgain, err)
	}
	return nil
}
