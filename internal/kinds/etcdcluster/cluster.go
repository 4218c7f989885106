// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/kinds/etcdcluster/membership"
	"d3os.com/d3os-operator/internal/kinds/etcdcluster/server"
	"d3os.com/d3os-operator/internal/object"
)

// cluster is Kubernetes as the steps on one etcd cluster need it.
type cluster struct {
	client client.Client
	live   client.Reader
	owner  object.Owner
	record version // as it was observed
}

var _ server.Kubernetes = &cluster{}

// Pod returns a pod as it is now. One that is not the cluster's by its labels is none.
func (c *cluster) Pod(ctx context.Context, name string) (server.Pod, error) {
	pod := &corev1.Pod{}
	err := c.client.Get(ctx, client.ObjectKey{Namespace: c.owner.Namespace, Name: name}, pod)
	if apierrors.IsNotFound(err) {
		return server.Pod{}, nil
	}
	if err != nil {
		return server.Pod{}, fmt.Errorf("read pod %s: %w", name, err)
	}
	if !c.owner.Names(pod) {
		return server.Pod{}, nil
	}
	return server.Pod{UID: string(pod.UID), IP: pod.Status.PodIP, Terminating: pod.DeletionTimestamp != nil}, nil
}

// NeverFormed asks the API server whether nothing shows that there ever was a cluster.
func (c *cluster) NeverFormed(ctx context.Context) error {
	kept := object.Empty(object.ConfigMapKind)
	err := c.live.Get(ctx, client.ObjectKey{Namespace: c.owner.Namespace, Name: recordName(c.owner.Name)}, kept)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read the record of the cluster: %w", err)
	}
	if err == nil {
		record, err := readRecord(kept)
		if err != nil {
			return err
		}
		if record.Cluster != 0 {
			return fmt.Errorf("the record says that cluster %s was formed", record.Cluster)
		}
	}
	for ordinal := range membership.MaxReplicas {
		claim := object.Empty(object.ClaimKind)
		err := c.live.Get(ctx, client.ObjectKey{Namespace: c.owner.Namespace, Name: claimName(c.owner.Name, ordinal)}, claim)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read claim %s: %w", claimName(c.owner.Name, ordinal), err)
		}
		says, _, err := readClaim(c.owner.Name, claim)
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
	if c.record.UID == "" {
		return fmt.Errorf("ConfigMap %s is not there yet", recordName(c.owner.Name))
	}
	data, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("write the record of the cluster: %w", err)
	}
	o := object.Empty(object.ConfigMapKind)
	o.SetName(recordName(c.owner.Name))
	return c.annotate(ctx, o, string(c.record.UID), c.record.Version, map[string]any{annotationRecord: string(data)})
}

// MarkClaim says on a claim whose data its volume has. Nobody's removes the annotations.
func (c *cluster) MarkClaim(ctx context.Context, ordinal int, uid string, mark membership.Mark) error {
	annotations := map[string]any{annotationCluster: nil, annotationMember: nil, annotationVersion: nil}
	if mark.Member != 0 {
		annotations = map[string]any{annotationCluster: mark.Cluster.String(), annotationMember: mark.Member.String(), annotationVersion: mark.Version}
	}
	o := object.Empty(object.ClaimKind)
	o.SetName(claimName(c.owner.Name, ordinal))
	return c.annotate(ctx, o, uid, "", annotations)
}

// Ticket writes a pod's ticket.
func (c *cluster) Ticket(ctx context.Context, pod membership.Place, ticket string) error {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	o.SetName(pod.Pod)
	return c.annotate(ctx, o, pod.UID, "", map[string]any{object.AnnotationTicket: ticket})
}

// annotate writes annotations of an object, unless it is another one by now, or of another version where one is given.
func (c *cluster) annotate(ctx context.Context, o *unstructured.Unstructured, uid, resourceVersion string, annotations map[string]any) error {
	if uid == "" {
		return fmt.Errorf("annotate %s %s: the step does not say which one", o.GetKind(), o.GetName())
	}
	metadata := map[string]any{"uid": uid, "annotations": annotations}
	if resourceVersion != "" {
		metadata["resourceVersion"] = resourceVersion
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err == nil {
		o.SetNamespace(c.owner.Namespace)
		err = c.client.Patch(ctx, o, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(apply.FieldManager))
	}
	if err != nil {
		return fmt.Errorf("annotate %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}

// DeletePod deletes a pod, unless it is another one by now.
func (c *cluster) DeletePod(ctx context.Context, place membership.Place) error {
	if place.Pod == "" || place.UID == "" {
		return errors.New("delete a pod: the step does not say which one")
	}
	uid := types.UID(place.UID)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.owner.Namespace, Name: place.Pod}}
	if err := c.client.Delete(ctx, pod, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete pod %s: %w", place.Pod, err)
	}
	return nil
}

// DeleteClaim deletes the claim of an ordinal, unless it is another one by now or somebody else's.
func (c *cluster) DeleteClaim(ctx context.Context, ordinal int, uid string) error {
	name := claimName(c.owner.Name, ordinal)
	if uid == "" {
		return fmt.Errorf("delete claim %s: the step does not say which one", name)
	}
	claim := object.Empty(object.ClaimKind)
	err := c.client.Get(ctx, client.ObjectKey{Namespace: c.owner.Namespace, Name: name}, claim)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read claim %s: %w", name, err)
	}
	if !c.owner.Names(claim) {
		return fmt.Errorf("delete claim %s: it is not this cluster's", name)
	}
	precondition := types.UID(uid)
	if err := c.client.Delete(ctx, claim.DeepCopy(), client.Preconditions{UID: &precondition}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete claim %s: %w", name, err)
	}
	return nil
}
