// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"

	"github.com/redis/go-redis/v9"

	"d3os.com/d3os-operator/internal/database/steps"
	"d3os.com/d3os-operator/internal/redis/topology"
)

// proveStart proves that the step's target is a master that has not restarted since the decision, and so still has its data.
func (t *executor) proveStart(ctx context.Context) error {
	if t.Step.Proof.Run == "" {
		return nil
	}
	master, err := t.target(ctx)
	if err != nil {
		return err
	}
	if master.RunID != t.Step.Proof.Run || !master.Replication.Master {
		return steps.Refuse("%s has restarted, or is no master any more: it may lack the data of %s", master.Pod, t.Step.Node.Pod)
	}
	return nil
}

// deletePod deletes a pod after one of three checks:
//
//   - A server that answered at the decision must own no slots now: it may have become a master since.
//   - The only pod of a shard (ModeAlone) owns slots, so it must be able to write its data.
//   - A server that did not answer must still not answer.
func (t *executor) deletePod(ctx context.Context) error {
	var err error
	switch {
	case t.Step.Node.ID == "":
		err = t.isSilent(ctx)
	case t.Step.Mode == topology.ModeAlone:
		err = t.isAlone(ctx)
	default:
		_, _, err = t.slotless(ctx)
	}
	if err != nil {
		return err
	}
	if err := t.proveStart(ctx); err != nil {
		return err
	}
	return t.Kubernetes.DeletePod(ctx, t.Step.Node)
}

// isAlone proves that the step's server is a master without replicas, and can write its data when it stops.
func (t *executor) isAlone(ctx context.Context) error {
	node, err := t.prove(ctx, t.Step.Node)
	if err != nil {
		return err
	}
	now, err := node.said(ctx)
	switch {
	case err != nil:
		return err
	case !now.Replication.Master || now.Replication.Replicas > 0:
		return steps.Refuse("%s is not the only pod of its shard: it has %d replicas", now.Pod, now.Replication.Replicas)
	case now.Unsaved:
		return steps.Refuse("%s is not deleted: %s", now.Pod, now.Refuses)
	}
	return nil
}

// isSilent proves that the server of the step's pod does not answer. A server that refuses the password or connections counts as silent.
func (t *executor) isSilent(ctx context.Context) error {
	place := t.Step.Node
	if place.IP == "" {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, t.servers.options.ReadTimeout)
	defer cancel()
	err := t.servers.peer(t.Cluster, t.Access, place.UID, place.IP).client.Do(within, "CLUSTER", "MYID").Err()
	if err == nil || redis.IsLoadingError(err) {
		return steps.Refuse("the server of pod %s answers again", place.Pod)
	}
	return nil
}
