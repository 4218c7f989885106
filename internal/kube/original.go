// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"d3os.com/d3os-operator/internal/object"
)

// AddOriginals adds a second cache to a manager, for objects of the original operator, and returns it. The manager's own cache holds only
// objects with this operator's label. The second cache holds only metadata; it is empty in a cluster that never ran the original operator.
func AddOriginals(mgr ctrl.Manager, namespaces []string, lists *Lists, create cache.NewCacheFunc) (cache.Cache, error) {
	labelled, err := labels.NewRequirement(object.LabelOriginal, selection.Exists, nil)
	if err != nil {
		return nil, fmt.Errorf("select the objects of the original operator: %w", err)
	}
	options := cache.Options{
		HTTPClient:                  mgr.GetHTTPClient(),
		Scheme:                      mgr.GetScheme(),
		Mapper:                      mgr.GetRESTMapper(),
		DefaultLabelSelector:        labels.NewSelector().Add(*labelled),
		DefaultTransform:            slimOriginal,
		DefaultNamespaces:           only(namespaces),
		ReaderFailOnMissingInformer: true,
	}
	lists.Observe(&options)
	originals, err := create(mgr.GetConfig(), options)
	if err != nil {
		return nil, fmt.Errorf("set up the cache of the original operator's objects: %w", err)
	}
	if err := mgr.Add(cacheRunnable{originals}); err != nil {
		return nil, fmt.Errorf("add the cache of the original operator's objects: %w", err)
	}
	return originals, nil
}

// cacheRunnable is a cache that the manager starts together with its own cache, before any reader.
type cacheRunnable struct{ cache.Cache }

func (c cacheRunnable) GetCache() cache.Cache { return c.Cache }

// slimOriginal keeps only the digest among the annotations, which may hold whole objects.
func slimOriginal(obj any) (any, error) {
	if meta, ok := obj.(*metav1.PartialObjectMetadata); ok {
		digest := meta.Annotations[object.AnnotationDigest]
		meta.ManagedFields, meta.Annotations = nil, nil
		if digest != "" {
			meta.Annotations = map[string]string{object.AnnotationDigest: digest}
		}
	}
	return obj, nil
}
