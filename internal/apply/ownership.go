// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/object"
)

// checkOwner allows writing an object that the owner controls. It also allows writing an object without a controller whose labels name the
// owner: retained data and credentials, or an object with the operator's digest that has lost its owner reference.
func checkOwner(owner object.Owner, planned, live *unstructured.Unstructured) error {
	if owner.NotAdopted(live) {
		return &NotAdoptedError{Kind: planned.GetKind(), Name: planned.GetName()}
	}
	conflict := &ConflictError{Kind: planned.GetKind(), Name: planned.GetName()}
	if ref := metav1.GetControllerOf(live); ref != nil {
		if ref.UID == owner.UID {
			return nil
		}
		conflict.Holder = ref.Kind + " " + ref.Name
		return conflict
	}
	labels := live.GetLabels()
	by := labels[object.LabelManagedBy]
	// A claim that a StatefulSet has created from its template has no digest.
	retained := object.OutlivesOwner(planned) || planned.GetKind() == object.ClaimKind.Kind
	ours := by == object.ManagedBy && retained || (by == object.ManagedBy || by == "") && object.Digest(live) != ""
	if owner.Names(live) && ours {
		return nil
	}
	conflict.Holder = "another owner"
	switch other := object.OwnerText(live); {
	case by == object.ManagedBy && other != "" && !owner.Names(live):
		conflict.Holder = other
	case by != "" && by != object.ManagedBy:
		conflict.Holder = by
	}
	return conflict
}

// OwnerGeneration reads the generation of an owner's spec from the API server. It returns 0 if the owner was deleted or is being deleted.
func (a *Applier) OwnerGeneration(ctx context.Context, owner object.Owner) (int64, error) {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(owner.GroupVersionKind)
	err := a.live.Get(ctx, client.ObjectKey{Namespace: owner.Namespace, Name: owner.Name}, live)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read %s %s/%s: %w", owner.Kind, owner.Namespace, owner.Name, err)
	}
	if live.UID != owner.UID || live.DeletionTimestamp != nil {
		return 0, nil
	}
	return live.Generation, nil
}

// Owned lists the objects in a namespace that the owner controls, from the cache. It returns a *NewerError if a newer operator wrote one of
// these objects, or wrote a retained object that the owner would adopt.
func (a *Applier) Owned(ctx context.Context, owner object.Owner) ([]*unstructured.Unstructured, error) {
	var owned, all []*unstructured.Unstructured
	for _, gvk := range slices.Concat(object.Kinds, object.Optional) {
		isOptional := slices.Contains(object.Optional, gvk)
		if isOptional && !a.watched.has(gvk) {
			continue
		}
		// An outdated list is harmless here, because each deletion request contains the UID of its object.
		items, err := a.cached(ctx, owner, gvk, client.DisableReadYourWritesConsistency)
		if isOptional && isNotServed(err) { // the cache has no informer for the kind yet
			continue
		}
		if err != nil {
			return nil, err
		}
		for i := range items {
			obj := &items[i]
			ref := metav1.GetControllerOf(obj)
			if ref != nil && ref.UID == owner.UID {
				owned = append(owned, obj)
			}
			if ref == nil || ref.UID == owner.UID {
				all = append(all, obj)
			}
		}
	}
	return owned, a.checkWriter(all...)
}

// Controlled lists, from the cache, the objects of kind gvk that the owner controls. gvk is one of object.Resources. The list is empty
// while the cache does not watch the kind.
func (a *Applier) Controlled(ctx context.Context, owner object.Owner, gvk schema.GroupVersionKind) (found []*unstructured.Unstructured, err error) {
	if !a.watched.has(gvk) {
		return nil, nil
	}
	items, err := a.cached(ctx, owner, gvk)
	if isNotServed(err) { // the cache has no informer for the kind yet
		return nil, nil
	}
	for i := range items {
		if metav1.IsControlledBy(&items[i], &metav1.ObjectMeta{UID: owner.UID}) {
			found = append(found, &items[i])
		}
	}
	return found, err
}

// cached lists the objects of a kind that belong to the owner by their labels or their controller, from the cache.
func (a *Applier) cached(ctx context.Context, owner object.Owner, gvk schema.GroupVersionKind, options ...client.ListOption) ([]unstructured.Unstructured, error) {
	list := object.EmptyList(gvk)
	options = append(options, client.InNamespace(owner.Namespace), client.MatchingFields{object.IndexOwner: owner.Key()})
	if err := a.client.List(ctx, list, options...); err != nil {
		return nil, fmt.Errorf("list %s of %s/%s: %w", gvk.Kind, owner.Namespace, owner.Name, err)
	}
	return list.Items, nil
}

// PodsLive lists the pods of one part (see reconcile.Part) of an owner, from the API server.
func (a *Applier) PodsLive(ctx context.Context, owner object.Owner, part string) ([]*corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := a.live.List(ctx, list, client.InNamespace(owner.Namespace), client.MatchingLabels(owner.Labels(part))); err != nil {
		return nil, fmt.Errorf("list the pods of %s: %w", part, err)
	}
	pods := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		pods[i] = &list.Items[i]
	}
	return pods, nil
}

// Events lists the events about an object, from the API server.
func (a *Applier) Events(ctx context.Context, namespace string, uid types.UID) ([]corev1.Event, error) {
	list := &corev1.EventList{}
	if err := a.live.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{"involvedObject.uid": string(uid)}); err != nil {
		return nil, fmt.Errorf("list the events about the object %s: %w", uid, err)
	}
	return list.Items, nil
}

func sameSelector(planned, live *unstructured.Unstructured) bool {
	a, _, _ := unstructured.NestedMap(planned.Object, "spec", "selector")
	b, _, _ := unstructured.NestedMap(live.Object, "spec", "selector")
	return reflect.DeepEqual(a, b)
}

// unchangeable reports whether a Service would become headless, or would no longer be headless. The API server never makes either change.
func unchangeable(planned, live *unstructured.Unstructured) bool {
	if planned.GetKind() != "Service" {
		return false
	}
	want, _, _ := unstructured.NestedString(planned.Object, "spec", "clusterIP")
	has, _, _ := unstructured.NestedString(live.Object, "spec", "clusterIP")
	return has != "" && (want == corev1.ClusterIPNone) != (has == corev1.ClusterIPNone)
}

func asStatus(err error, status *apierrors.APIStatus) bool { return errors.As(err, status) }

// immutableCause matches the two texts with which the API server refuses to change a field (k8s.io/kubernetes/pkg/apis/apps/validation).
func immutableCause(kind string, cause metav1.StatusCause) bool {
	if strings.Contains(cause.Message, "field is immutable") {
		return true
	}
	return kind == "StatefulSet" && cause.Field == "spec" && cause.Type == metav1.CauseTypeForbidden &&
		strings.Contains(cause.Message, "updates to statefulset spec")
}
