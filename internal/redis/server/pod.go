// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"

	"github.com/redis/go-redis/v9"

	"d3os.com/d3os-operator/internal/database/proof"
)

// proveStart proves that the step's target is a master that has not restarted since the decision, and so still has its data.
func (t *taker) proveStart(ctx context.Context) error {
	if t.Step.Proof.Run == "" {
		return nil
	}
	master, err := t.target(ctx)
	if err != nil {
		return err
	}
	if master.RunID != t.Step.Proof.Run || !master.Replication.Master {
		return proof.Refuse("%s has restarted, or is no master any more: nothing shows that it has what %s has", master.Pod, t.Step.Node.Pod)
	}
	return nil
}

// deletePod deletes a pod. A server that answered when the step was decided must own no slots: it may have become a master since. A server
// that did not answer must still not answer.
func (t *taker) deletePod(ctx context.Context) error {
	if t.Step.Node.ID != "" {
		if _, _, err := t.slotless(ctx); err != nil {
			return err
		}
	} else if err := t.isSilent(ctx); err != nil {
		return err
	}
	if err := t.proveStart(ctx); err != nil {
		return err
	}
	return t.Kubernetes.DeletePod(ctx, t.Step.Node)
}

// isSilent proves that the server of the step's pod does not answer. A server that refuses the password or connections counts as silent.
func (t *taker) isSilent(ctx context.Context) error {
	place := t.Step.Node
	if place.IP == "" {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, t.servers.options.ReadTimeout)
	defer cancel()
	err := t.servers.peer(t.Cluster, t.Access, place.UID, place.IP).client.Do(within, "CLUSTER", "MYID").Err()
	if err == nil || redis.IsLoadingError(err) {
		return proof.Refuse("the server of pod %s answers by now", place.Pod)
	}
	return nil
}
