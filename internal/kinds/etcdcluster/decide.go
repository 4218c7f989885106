// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/day2"
	"d3os.com/d3os-operator/internal/engine"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/kinds/etcdcluster/membership"
	"d3os.com/d3os-operator/internal/kinds/etcdcluster/server"
	"d3os.com/d3os-operator/internal/kinds/runs"
	"d3os.com/d3os-operator/internal/kinds/stateful"
)

// Decide says which steps follow from what was seen.
func (k *Kind) Decide(ec *etcdv1.EtcdCluster, _ engine.Seen, w World) kinds.Decision {
	if w.Replacing {
		return kinds.Decision{LookAgain: time.Second}
	}
	decided := membership.Decide(wanted(ec), w.View)
	result := kinds.Decision{LookAgain: decided.LookAgain}
	for _, step := range decided.Steps {
		if step.Quiet {
			result.Steps = append(result.Steps, day2.Step{
				Name: string(membership.ActionWait), Do: func(ctx context.Context) error { return k.take(ctx, ec, w, step) },
			})
			continue
		}
		result.Steps = append(result.Steps, day2.Step{
			Name: string(step.Action), Message: step.Message,
			Do: func(ctx context.Context) error { return k.take(ctx, ec, w, step) },
		})
	}
	result.Steps = append(result.Steps, runs.EndHeld(k.jobs, ec.Namespace, w.backups.Jobs)...)
	if w.View.Lagging && result.LookAgain > time.Second {
		result.LookAgain = time.Second
	}
	return result
}

// take takes a step. One that fails is decided about again; people hear of it when it goes on failing.
func (k *Kind) take(ctx context.Context, ec *etcdv1.EtcdCluster, w World, step membership.Step) error {
	err := k.servers.Take(ctx, server.Taking{
		Access: w.access, Step: step,
		Kubernetes: &cluster{Cluster: stateful.Cluster{Client: k.client, Live: k.live, Owner: kinds.OwnerOf(k, ec)}, now: k.now(), record: w.recordAt,
			rotate: func(phase membership.AuthorityPhase) error { return k.planner.keeper.rotate(ec, phase) }},
		PeerURLs: wanted(ec).PeerURLs,
	})
	switch {
	case errors.Is(err, server.ErrNotYet):
		return nil // etcd refuses some changes for a few seconds after the one before; the step stays the next one
	case err != nil:
		return fmt.Errorf("%w: %w", day2.ErrAgain, err)
	}
	return nil
}
