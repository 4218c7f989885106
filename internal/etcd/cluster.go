// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/etcd/membership"
	"d3os.com/d3os-operator/internal/etcd/server"
	"d3os.com/d3os-operator/internal/object"
)

// cluster gives the steps of one etcd cluster access to Kubernetes.
type cluster struct {
	database.Cluster

	now    time.Time
	record database.Version // version of the record at the observation
	rotate func(membership.AuthorityPhase) error
}

var _ server.Kubernetes = &cluster{}

// NeverFormed returns an error if a record or a claim shows that a cluster was formed. It reads from the API server.
func (c *cluster) NeverFormed(ctx context.Context) error {
	kept := object.Empty(object.ConfigMapKind)
	err := c.Live.Get(ctx, client.ObjectKey{Namespace: c.Owner.Namespace, Name: records.Name(c.Owner.Name)}, kept)
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
		err := c.Live.Get(ctx, client.ObjectKey{Namespace: c.Owner.Namespace, Name: database.ClaimName(c.Owner.Name, ordinal)}, claim)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read claim %s: %w", database.ClaimName(c.Owner.Name, ordinal), err)
		}
		switch mark, _ := readClaim(c.Owner.Name, claim, c.now); {
		case mark.Malformed != "":
			return fmt.Errorf("claim %s has a malformed annotation: %s", mark.Name, mark.Malformed)
		case mark.Cluster != 0 || mark.Member != 0:
			return fmt.Errorf("claim %s is marked as the claim of member %s of cluster %s", mark.Name, mark.Member, mark.Cluster)
		}
	}
	return nil
}

// Record stores the record. It fails if the record was changed since the observation.
func (c *cluster) Record(ctx context.Context, record membership.Record) error {
	return records.Write(ctx, c.Cluster, c.record, record)
}

// MarkClaim annotates a claim with the member that owns the claim's data. A zero Mark removes the annotations. MarkClaim fails if the claim
// has changed since the observation, so that a delayed step does not write outdated values.
func (c *cluster) MarkClaim(ctx context.Context, ordinal int, at membership.ClaimAt, mark membership.Mark) error {
	annotations := map[string]any{annotationCluster: nil, annotationMember: nil, annotationVersion: nil, annotationPosition: nil, annotationRecoveries: nil}
	if mark.Member != 0 {
		annotations[annotationCluster], annotations[annotationMember], annotations[annotationVersion] = mark.Cluster.String(), mark.Member.String(), mark.Version
	}
	if mark.Position != (membership.Position{}) {
		annotations[annotationPosition] = fmt.Sprintf("%d %d %s", mark.Position.Term, mark.Position.Index, c.now.UTC().Format(time.RFC3339))
	}
	if mark.Tokens != "" {
		annotations[annotationRecoveries] = mark.Tokens
	}
	o := object.Empty(object.ClaimKind)
	o.SetName(database.ClaimName(c.Owner.Name, ordinal))
	return c.Annotate(ctx, o, database.Version{UID: types.UID(at.UID), Version: at.Version}, annotations)
}

// Crashing reports whether etcd in a pod keeps exiting. It reads the pod from the API server.
func (c *cluster) Crashing(ctx context.Context, place membership.Place) (bool, error) {
	pods := &corev1.PodList{} // the operator has the right to list pods, but not to get one
	if err := c.Live.List(ctx, pods, client.InNamespace(c.Owner.Namespace), client.MatchingFields{metav1.ObjectNameField: place.Pod}); err != nil {
		return false, fmt.Errorf("read pod %s: %w", place.Pod, err)
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; string(pod.UID) == place.UID {
			return isCrashing(pod), nil
		}
	}
	return false, nil
}

// Leaving reports whether the claim of an ordinal is being deleted. It reads the claim from the API server.
func (c *cluster) Leaving(ctx context.Context, ordinal int) (bool, error) {
	return c.IsLeaving(ctx, database.ClaimName(c.Owner.Name, ordinal))
}

// Recorded reads the record from the API server.
func (c *cluster) Recorded(ctx context.Context) (membership.Record, error) {
	record, _, err := records.Observe(ctx, c.Live, c.Owner)
	return record, err
}

// Rotate begins the next phase in the replacement of certificate authorities. The next pass writes the phase.
func (c *cluster) Rotate(_ context.Context, phase membership.AuthorityPhase) error {
	return c.rotate(phase)
}

// Scale lowers the replicas of the StatefulSet, and never raises them.
func (c *cluster) Scale(ctx context.Context, pods int) error {
	set := object.Empty(object.StatefulSetKind)
	if err := c.Live.Get(ctx, client.ObjectKey{Namespace: c.Owner.Namespace, Name: c.Owner.Name}, set); err != nil {
		return fmt.Errorf("read StatefulSet %s: %w", c.Owner.Name, err)
	}
	if !c.Owner.Controls(set) {
		return fmt.Errorf("StatefulSet %s is not controlled by %s %s", set.GetName(), c.Owner.Kind, c.Owner.Name)
	}
	if now, _, _ := unstructured.NestedInt64(set.Object, "spec", "replicas"); now <= int64(pods) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": set.GetUID(), "resourceVersion": set.GetResourceVersion()}, "spec": map[string]any{"replicas": pods},
	})
	if err == nil {
		err = c.Client.Patch(ctx, set, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(apply.FieldManager))
	}
	if err != nil {
		return fmt.Errorf("scale StatefulSet %s to %d pods: %w", set.GetName(), pods, err)
	}
	return nil
}

// Ticket writes a pod's ticket.
func (c *cluster) Ticket(ctx context.Context, pod membership.Place, ticket string) error {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	o.SetName(pod.Pod)
	return c.Annotate(ctx, o, database.Version{UID: types.UID(pod.UID)}, map[string]any{object.AnnotationTicket: ticket})
}

// DeletePod deletes a pod, unless its UID has changed.
func (c *cluster) DeletePod(ctx context.Context, place membership.Place) error {
	return c.Cluster.DeletePod(ctx, place.Pod, place.UID)
}

// DeleteClaim deletes the claim of an ordinal. It fails if the claim has changed since the observation, or belongs to another resource.
func (c *cluster) DeleteClaim(ctx context.Context, ordinal int, at membership.ClaimAt) error {
	return c.DeleteClaimAt(ctx, database.ClaimName(c.Owner.Name, ordinal), database.Version{UID: types.UID(at.UID), Version: at.Version})
}
