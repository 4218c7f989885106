// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/kinds/etcdcluster/membership"
	"d3os.com/d3os-operator/internal/kinds/etcdcluster/server"
	"d3os.com/d3os-operator/internal/kinds/stateful"
	"d3os.com/d3os-operator/internal/object"
)

// cluster is Kubernetes as the steps on one etcd cluster need it.
type cluster struct {
	stateful.Cluster

	live   client.Reader
	record stateful.Version // as it was observed
}

var _ server.Kubernetes = &cluster{}

// NeverFormed asks the API server whether nothing shows that there ever was a cluster.
func (c *cluster) NeverFormed(ctx context.Context) error {
	kept := object.Empty(object.ConfigMapKind)
	err := c.live.Get(ctx, client.ObjectKey{Namespace: c.Owner.Namespace, Name: records.Name(c.Owner.Name)}, kept)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read the record of the cluster: %w", err)
	}
	if err == nil {
		record, err := records.Read(kept)
		if err != nil {
			return err
		}
		if record.Cluster != 0 {
			return fmt.Errorf("the record says that cluster %s was formed", record.Cluster)
		}
	}
	for ordinal := range membership.MaxReplicas {
		claim := object.Empty(object.ClaimKind)
		err := c.live.Get(ctx, client.ObjectKey{Namespace: c.Owner.Namespace, Name: claimName(c.Owner.Name, ordinal)}, claim)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read claim %s: %w", claimName(c.Owner.Name, ordinal), err)
		}
		says, _, err := readClaim(c.Owner.Name, claim)
		if err != nil {
			return err
		}
		if says.Cluster != 0 || says.Member != 0 {
			return fmt.Errorf("claim %s says that it has data of member %s of cluster %s", says.Name, says.Member, says.Cluster)
		}
	}
	return nil
}

// Record writes what was decided, unless somebody has written it since it was read.
func (c *cluster) Record(ctx context.Context, record membership.Record) error {
	return records.Write(ctx, c.Cluster, c.record, record)
}

// MarkClaim says on a claim whose data its volume has. Nobody's removes the annotations.
func (c *cluster) MarkClaim(ctx context.Context, ordinal int, uid string, mark membership.Mark) error {
	annotations := map[string]any{annotationCluster: nil, annotationMember: nil, annotationVersion: nil}
	if mark.Member != 0 {
		annotations = map[string]any{annotationCluster: mark.Cluster.String(), annotationMember: mark.Member.String(), annotationVersion: mark.Version}
	}
	o := object.Empty(object.ClaimKind)
	o.SetName(claimName(c.Owner.Name, ordinal))
	return c.Annotate(ctx, o, stateful.Version{UID: types.UID(uid)}, annotations)
}

// Ticket writes a pod's ticket.
func (c *cluster) Ticket(ctx context.Context, pod membership.Place, ticket string) error {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	o.SetName(pod.Pod)
	return c.Annotate(ctx, o, stateful.Version{UID: types.UID(pod.UID)}, map[string]any{object.AnnotationTicket: ticket})
}

// DeletePod deletes a pod, unless it is another one by now.
func (c *cluster) DeletePod(ctx context.Context, place membership.Place) error {
	return c.Cluster.DeletePod(ctx, place.Pod, place.UID)
}

// DeleteClaim deletes the claim of an ordinal, unless it is another one by now or somebody else's.
func (c *cluster) DeleteClaim(ctx context.Context, ordinal int, uid string) error {
	return c.Cluster.DeleteClaim(ctx, claimName(c.Owner.Name, ordinal), uid)
}
