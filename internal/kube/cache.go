// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/object"
)

// managed selects the objects that the operator manages.
func managed() labels.Selector {
	return labels.SelectorFromSet(labels.Set{object.LabelManagedBy: object.ManagedBy})
}

// CacheOptions returns options that limit the cache to objects that the operator manages: pods and objects of the given kinds with the operator's
// label. Without namespaces, the cache covers all namespaces. After each resync period, informers report every cached object again.
func CacheOptions(kinds []schema.GroupVersionKind, namespaces []string, resync time.Duration, lists *Lists) cache.Options {
	byObject := map[client.Object]cache.ByObject{
		&corev1.Pod{}: {Label: managed(), Transform: slimPod},
	}
	shared := newInterner()
	for _, gvk := range kinds {
		byObject[object.Empty(gvk)] = cache.ByObject{Label: managed(), UnsafeDisableDeepCopy: ptr.To(true), Transform: shared.transform}
	}
	options := cache.Options{
		SyncPeriod:       &resync,
		ByObject:         byObject,
		DefaultTransform: cache.TransformStripManagedFields(),
		// A read of a kind without a watch is a defect, and must not start a watch of the whole cluster.
		ReaderFailOnMissingInformer: true,
		DefaultNamespaces:           only(namespaces),
	}
	lists.Observe(&options)
	return options
}

// only limits a cache to some namespaces; an empty list means all namespaces.
func only(namespaces []string) map[string]cache.Config {
	if len(namespaces) == 0 {
		return nil
	}
	configs := map[string]cache.Config{}
	for _, name := range namespaces {
		configs[name] = cache.Config{}
	}
	return configs
}

// slimPod keeps the parts of a pod that the operator reads: its owner, its node, its claims, its status, and its ticket.
func slimPod(obj any) (any, error) {
	if pod, ok := obj.(*corev1.Pod); ok {
		ticket, given := pod.Annotations[object.AnnotationTicket]
		pod.ManagedFields, pod.Annotations = nil, nil
		pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName, Volumes: slices.DeleteFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim == nil
		})}
		if given {
			pod.Annotations = map[string]string{object.AnnotationTicket: ticket}
		}
	}
	return obj, nil
}

// AddIndexes registers the indexes for the engine: every kind by owner, and pods by part of the owner. Call it once for a manager, before
// the manager starts.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer, kinds []schema.GroupVersionKind) error {
	for _, gvk := range kinds {
		if err := AddOwnerIndex(ctx, indexer, gvk); err != nil {
			return err
		}
	}
	byPart := func(obj client.Object) []string {
		return []string{object.PartKey(object.OwnerKey(obj), obj.GetLabels()[object.LabelComponent])}
	}
	if err := indexer.IndexField(ctx, &corev1.Pod{}, object.IndexPart, byPart); err != nil {
		return fmt.Errorf("index pods by part: %w", err)
	}
	return nil
}

// AddOwnerIndex registers the index of a kind by owner. Call it once for each kind.
func AddOwnerIndex(ctx context.Context, indexer client.FieldIndexer, gvk schema.GroupVersionKind) error {
	byOwner := func(obj client.Object) []string { return []string{object.OwnerKey(obj)} }
	if err := indexer.IndexField(ctx, object.Empty(gvk), object.IndexOwner, byOwner); err != nil {
		return fmt.Errorf("index %s by owner: %w", gvk.Kind, err)
	}
	return nil
}
