// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/kinds/rediscluster/server"
	"d3os.com/d3os-operator/internal/kinds/rediscluster/topology"
	"d3os.com/d3os-operator/internal/kinds/stateful"
	"d3os.com/d3os-operator/internal/kinds/stateful/proof"
)

// cluster is Kubernetes as the steps on one Redis Cluster need it.
type cluster struct {
	stateful.Cluster

	record    stateful.Version // as it was observed
	isNeverUp bool             // the step deletes a pod because it served nothing
}

var _ server.Kubernetes = &cluster{}

// Record writes what cannot be observed, unless somebody has written it since it was read.
func (c *cluster) Record(ctx context.Context, record topology.Record) error {
	return records.Write(ctx, c.Cluster, c.record, record)
}

// DeletePod deletes a pod, unless it is another one by now, or its data would go with it. One that is to have served nothing is read
// again, and stays if that is no longer so, or changes in this moment.
func (c *cluster) DeletePod(ctx context.Context, place topology.Place) error {
	at := stateful.Version{UID: types.UID(place.UID)}
	if place.ID == "" {
		pod := &corev1.Pod{}
		if err := c.Live.Get(ctx, client.ObjectKey{Namespace: c.Owner.Namespace, Name: place.Pod}, pod); err != nil {
			return client.IgnoreNotFound(err)
		}
		switch {
		case pod.UID != at.UID:
			return proof.Refuse("pod %s has been replaced", place.Pod)
		case c.isNeverUp && !isUnserved(pod):
			return proof.Refuse("pod %s is not deleted: its container %s has started", place.Pod, container)
		}
		at.Version = pod.ResourceVersion
	}
	return c.DeletePodWithData(ctx, place.Pod, at, "data-"+place.Pod)
}
