// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/kinds/rediscluster/server"
	"d3os.com/d3os-operator/internal/kinds/rediscluster/topology"
	"d3os.com/d3os-operator/internal/object"
)

// cluster is Kubernetes as the steps on one Redis Cluster need it.
type cluster struct {
	client client.Client
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

// Record writes what cannot be observed, unless somebody has written it since it was read.
func (c *cluster) Record(ctx context.Context, record topology.Record) error {
	if c.record.UID == "" {
		return fmt.Errorf("ConfigMap %s is not there yet", recordName(c.owner.Name))
	}
	data, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("write the record of the cluster: %w", err)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": c.record.UID, "resourceVersion": c.record.Version, "annotations": map[string]string{annotationRecord: string(data)},
	}})
	if err != nil {
		return fmt.Errorf("write the record of the cluster: %w", err)
	}
	o := object.Empty(configMapKind)
	o.SetNamespace(c.owner.Namespace)
	o.SetName(recordName(c.owner.Name))
	if err := c.client.Patch(ctx, o, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(apply.FieldManager)); err != nil {
		return fmt.Errorf("write the record of the cluster to ConfigMap %s: %w", o.GetName(), err)
	}
	return nil
}

// DeletePod deletes a pod, unless it is another one by now.
func (c *cluster) DeletePod(ctx context.Context, place topology.Place) error {
	if place.Pod == "" || place.UID == "" {
		return errors.New("delete a pod: the step does not say which one")
	}
	uid := types.UID(place.UID)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.owner.Namespace, Name: place.Pod}}
	err := c.client.Delete(ctx, pod, client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete pod %s: %w", place.Pod, err)
	}
	return nil
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
	claim := object.Empty(object.ClaimKind)
	err = c.client.Get(ctx, client.ObjectKey{Namespace: c.owner.Namespace, Name: "data-" + place.Pod}, claim)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the claim of pod %s: %w", place.Pod, err)
	}
	if !c.owner.Names(claim) {
		return fmt.Errorf("delete the claim of pod %s: it is not this cluster's", place.Pod)
	}
	uid := claim.GetUID()
	if err := c.client.Delete(ctx, claim.DeepCopy(), client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the claim of pod %s: %w", place.Pod, err)
	}
	return nil
}
