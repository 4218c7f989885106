// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/kinds/rediscluster/topology"
	"d3os.com/d3os-operator/internal/kinds/stateful"
	"d3os.com/d3os-operator/internal/object"
)

// keyFormed is in the data of the record's ConfigMap once the cluster has begun: pods look for it before they restore.
const keyFormed = "formed"

// agents are the images of the agent: that of the pods that make backups, and that with which members of the cluster start
// where a backup is restored.
type agents struct{ backup, restore string }

// agents returns the images of the agent for a cluster; none where it needs none. A cluster that has begun keeps the one that its
// members have: every version of the operator brings an agent, and a new one is no reason to replace them.
func (p *planner) agents(rc *redisv1.RedisCluster, record topology.Record, in kinds.Inputs) (agents, error) {
	if rc.Spec.Backup == nil && rc.Spec.RestoreFrom == nil {
		return agents{}, nil
	}
	if p.images.Agent == "" {
		return agents{}, &kinds.Mistake{Reason: redisv1.ReasonAgentMissing, Err: errors.New("the operator does not know the image of its agent, without which nothing is " +
			"backed up or restored: set RELATED_IMAGE_AGENT in the operator's Deployment to the operator's own image")}
	}
	found := agents{p.images.Agent, p.images.Agent}
	if len(record.Nodes) == 0 {
		return found, nil
	}
	set, err := in.Lookup(object.StatefulSetKind.Kind, setName(rc.Name, 0))
	if set == nil || err != nil {
		return found, err
	}
	if image := stateful.InitImageOf(set, "d3os-agent"); image != "" {
		found.restore = image
	}
	return found, nil
}

// isAnnounced reports whether pods see that the cluster has begun.
func (k *Kind) isAnnounced(ctx context.Context, rc *redisv1.RedisCluster) (bool, error) {
	kept := object.Empty(object.ConfigMapKind)
	err := k.client.Get(ctx, client.ObjectKey{Namespace: rc.Namespace, Name: records.Name(rc.Name)}, kept)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read the record of the cluster: %w", err)
	}
	formed, _, _ := unstructured.NestedString(kept.Object, "data", keyFormed)
	return err == nil && formed == "true" && kinds.OwnerOf(k, rc).Owns(kept), nil
}
