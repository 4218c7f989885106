// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"context"
	"fmt"

	"d3os.com/d3os-operator/internal/kinds/rediscluster/server"
	"d3os.com/d3os-operator/internal/kinds/rediscluster/topology"
	"d3os.com/d3os-operator/internal/kinds/stateful"
)

// cluster is Kubernetes as the steps on one Redis Cluster need it.
type cluster struct {
	stateful.Cluster

	record stateful.Version // as it was observed
}

var _ server.Kubernetes = &cluster{}

// Record writes what cannot be observed, unless somebody has written it since it was read.
func (c *cluster) Record(ctx context.Context, record topology.Record) error {
	return records.Write(ctx, c.Cluster, c.record, record)
}

// DeletePod deletes a pod, unless it is another one by now, or its data would go with it.
func (c *cluster) DeletePod(ctx context.Context, place topology.Place) error {
	return c.DeletePodWithData(ctx, place.Pod, place.UID, "data-"+place.Pod)
}

// DeleteClaim deletes the claim of a pod that is gone. A claim that belongs to somebody else stays.
func (c *cluster) DeleteClaim(ctx context.Context, place topology.Place) error {
	pod, err := c.Pod(ctx, place.Pod)
	if err != nil {
		return err
	}
	if pod.UID != "" {
		return fmt.Errorf("delete the claim of pod %s: the pod is there", place.Pod)
	}
	claim, err := c.Claim(ctx, "data-"+place.Pod)
	if err != nil {
		return fmt.Errorf("delete the claim of pod %s: %w", place.Pod, err)
	}
	if claim == nil {
		return nil
	}
	return c.Cluster.DeleteClaim(ctx, claim.GetName(), string(claim.GetUID()))
}
