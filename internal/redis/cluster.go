// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/database/steps"
	"d3os.com/d3os-operator/internal/redis/server"
	"d3os.com/d3os-operator/internal/redis/topology"
)

// cluster gives the steps on one Redis Cluster access to Kubernetes.
type cluster struct {
	database.Cluster

	record    database.Version // as observed
	isNeverUp bool             // the step deletes a pod because it never served
	isStuck   bool             // the step deletes a pod because its server cannot run
}

var _ server.Kubernetes = &cluster{}

// Record stores the record, unless it was changed since it was read. A record that lets pods stop is refused while a claim of these pods is
// being deleted: the data would be deleted with the pod.
func (c *cluster) Record(ctx context.Context, record topology.Record) error {
	for shard, pods := range record.Shards {
		for i := 0; (record.Parked || len(record.Pods) > 0) && i < pods; i++ {
			claim := database.ClaimName(setName(c.Owner.Name, shard), i)
			leaving, err := c.IsLeaving(ctx, claim)
			if err != nil {
				return fmt.Errorf("stop pods: %w", err)
			}
			if leaving {
				return steps.Refuse("the pods are not stopped: claim %s is being deleted, and its data would be lost with the pod: make a backup, "+
					"or set the reclaim policy of the claim's volume to Retain. Then delete the pod yourself", claim)
			}
		}
	}
	return records.Write(ctx, c.Cluster, c.record, record)
}

// DeletePod deletes a pod, unless the pod was replaced since the decision, or its data would be deleted with the pod. A pod that did not
// answer is read again. It stays if its server has started since the decision, or if the pod changes during the deletion.
func (c *cluster) DeletePod(ctx context.Context, place topology.Place) error {
	at := database.Version{UID: types.UID(place.UID)}
	if place.ID == "" {
		pod := &corev1.Pod{}
		if err := c.Live.Get(ctx, client.ObjectKey{Namespace: c.Owner.Namespace, Name: place.Pod}, pod); err != nil {
			return client.IgnoreNotFound(err)
		}
		switch {
		case pod.UID != at.UID:
			return steps.Refuse("pod %s has been replaced", place.Pod)
		case c.isNeverUp && !isUnserved(pod):
			return steps.Refuse("pod %s is not deleted: its container %s has started", place.Pod, container)
		case c.isStuck && !isStuck(pod):
			return steps.Refuse("pod %s is not deleted: its container %s runs or is being started", place.Pod, container)
		}
		at.Version = pod.ResourceVersion
	}
	return c.DeletePodWithData(ctx, place.Pod, at, "data-"+place.Pod)
}
