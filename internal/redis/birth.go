// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/redis/topology"
)

// keyFormed is a key in the data of the record's ConfigMap. It is set once the record has nodes. Pods check the key before they restore a
// backup: from then on, no pod restores one.
const keyFormed = "formed"

// agents holds two images of the agent: the image for pods that make backups, and the image for members that restore a backup when they
// start.
type agents struct{ backup, restore string }

// agents returns the images of the agent for a cluster; empty if the cluster needs no agent. Once the record has nodes, the members keep
// their image: each version of the operator has a new agent, and a new agent alone must not replace pods.
func (p *planner) agents(rc *redisv1.RedisCluster, record topology.Record, in reconcile.Inputs) (agents, error) {
	grows := rc.Spec.Storage.AutoGrow != nil && sharedClaim(&rc.Spec) == ""
	if rc.Spec.Backup == nil && rc.Spec.RestoreFrom == nil && !grows {
		return agents{}, nil
	}
	if p.images.Agent == "" {
		return agents{}, &reconcile.SpecError{Reason: redisv1.ReasonAgentMissing, Err: errors.New("the operator does not know the image of its agent, without which nothing is " +
			"backed up or restored, and no volume grows by itself: set RELATED_IMAGE_AGENT in the operator's Deployment to the operator's own image")}
	}
	found := agents{p.images.Agent, p.images.Agent}
	if len(record.Nodes) == 0 {
		return found, nil
	}
	set, err := in.Lookup(object.StatefulSetKind.Kind, setName(rc.Name, 0))
	if set == nil || err != nil {
		return found, err
	}
	// If the StatefulSet has no container d3os-volume, its agent may be too old to report a volume. A cluster that
	// grows volumes then gets the new agent.
	if image := database.InitImageOf(set, "d3os-agent"); image != "" && (!grows || database.ImageOf(set, "d3os-volume") != "") {
		found.restore = image
	}
	return found, nil
}

// isAnnounced reports whether the record's ConfigMap has keyFormed, so that no pod restores a backup any more.
func (k *Kind) isAnnounced(ctx context.Context, rc *redisv1.RedisCluster) (bool, error) {
	kept := object.Empty(object.ConfigMapKind)
	err := k.client.Get(ctx, client.ObjectKey{Namespace: rc.Namespace, Name: records.Name(rc.Name)}, kept)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read the record of the cluster: %w", err)
	}
	formed, _, _ := unstructured.NestedString(kept.Object, "data", keyFormed)
	return err == nil && formed == "true" && reconcile.OwnerOf(k, rc).Owns(kept), nil
}
