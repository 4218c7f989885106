// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/database/steps"
	"d3os.com/d3os-operator/internal/object"
)

// Cluster gives the steps on one resource's servers access to Kubernetes. It changes an object only if the object still
// has the UID from the decision.
type Cluster struct {
	Client client.Client
	// Live reads from the API server, not from a cache.
	Live  client.Reader
	Owner object.Owner
}

// Pod returns a pod in its present state. It returns the zero value if the pod's labels do not name the resource.
func (c Cluster) Pod(ctx context.Context, name string) (steps.Pod, error) {
	pod := &corev1.Pod{}
	err := c.Live.Get(ctx, client.ObjectKey{Namespace: c.Owner.Namespace, Name: name}, pod)
	if apierrors.IsNotFound(err) {
		return steps.Pod{}, nil
	}
	if err != nil {
		return steps.Pod{}, fmt.Errorf("read pod %s: %w", name, err)
	}
	if !c.Owner.Names(pod) {
		return steps.Pod{}, nil
	}
	return steps.Pod{UID: string(pod.UID), IP: pod.Status.PodIP, Terminating: pod.DeletionTimestamp != nil}, nil
}

// Annotate writes annotations of an object; a nil value removes an annotation. The API server refuses the write if the
// object's UID has changed. If at has a version, it also refuses the write if the object's version has changed.
func (c Cluster) Annotate(ctx context.Context, o *unstructured.Unstructured, at Version, annotations map[string]any) error {
	if at.UID == "" {
		return fmt.Errorf("annotate %s %s: refused: the step has no UID", o.GetKind(), o.GetName())
	}
	metadata := map[string]any{"uid": at.UID, "annotations": annotations}
	if at.Version != "" {
		metadata["resourceVersion"] = at.Version
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err == nil {
		o.SetNamespace(c.Owner.Namespace)
		err = c.Client.Patch(ctx, o, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(apply.FieldManager))
	}
	if err != nil {
		return fmt.Errorf("annotate %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}

// DeletePod deletes a pod, unless its UID has changed.
func (c Cluster) DeletePod(ctx context.Context, name, uid string) error {
	return c.deletePodAt(ctx, name, Version{UID: types.UID(uid)})
}

// deletePodAt deletes a pod, unless its UID has changed. If at has a version, the pod's version must also be the same.
func (c Cluster) deletePodAt(ctx context.Context, name string, at Version) error {
	if name == "" || at.UID == "" {
		return fmt.Errorf("delete pod %q: refused: the step has no UID", name)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.Owner.Namespace, Name: name}}
	if err := c.Client.Delete(ctx, pod, at.preconditions()); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete pod %s: %w", name, err)
	}
	return nil
}

// preconditions returns the preconditions of a deletion.
func (v Version) preconditions() client.Preconditions {
	preconditions := client.Preconditions{UID: &v.UID}
	if v.Version != "" {
		preconditions.ResourceVersion = &v.Version
	}
	return preconditions
}

// Claim returns a claim in its present state, or nil. A claim of another owner is an error.
func (c Cluster) Claim(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	claim := object.Empty(object.ClaimKind)
	err := c.Live.Get(ctx, client.ObjectKey{Namespace: c.Owner.Namespace, Name: name}, claim)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read claim %s: %w", name, err)
	}
	if !c.Owner.Names(claim) {
		return nil, fmt.Errorf("claim %s is not of %s %s", name, c.Owner.Kind, c.Owner.Name)
	}
	return claim, nil
}

// IsLeaving reports whether a claim is being deleted. It reads from the API server.
func (c Cluster) IsLeaving(ctx context.Context, claim string) (bool, error) {
	o := object.Empty(object.ClaimKind)
	err := c.Live.Get(ctx, client.ObjectKey{Namespace: c.Owner.Namespace, Name: claim}, o)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read claim %s: %w", claim, err)
	}
	return err == nil && o.GetDeletionTimestamp() != nil, nil
}

// DeletePodWithData deletes a pod, unless the claim with its data is being deleted: the data would be deleted with the pod.
func (c Cluster) DeletePodWithData(ctx context.Context, name string, at Version, claim string) error {
	leaving, err := c.IsLeaving(ctx, claim)
	switch {
	case err != nil:
		return fmt.Errorf("delete pod %s: %w", name, err)
	case leaving:
		return fmt.Errorf("pod %s is not deleted: claim %s is being deleted, and its data would be lost with the pod: make a backup, or set the reclaim policy of the claim's volume to Retain. "+
			"Then delete the pod yourself when the other pods have its data: %w", name, claim, steps.ErrRefused)
	}
	return c.deletePodAt(ctx, name, at)
}

// DeleteClaimAt deletes a claim, unless its UID or version has changed, or it belongs to another resource.
func (c Cluster) DeleteClaimAt(ctx context.Context, name string, at Version) error {
	if at.UID == "" {
		return fmt.Errorf("delete claim %s: refused: the step has no UID", name)
	}
	claim, err := c.Claim(ctx, name)
	if err != nil {
		return fmt.Errorf("delete claim %s: %w", name, err)
	}
	if claim == nil {
		return nil
	}
	if err := c.Client.Delete(ctx, claim.DeepCopy(), at.preconditions()); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete claim %s: %w", name, err)
	}
	return nil
}
