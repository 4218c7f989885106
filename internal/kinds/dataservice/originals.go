// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package dataservice

import (
	"context"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"d3os.com/d3os-operator/internal/object"
)

// Watch triggers a pass over a DataService when an object of the original operator's goes or changes
// hands. One that appears triggers none: where it is in the way, an object of ours is there already.
func (k *Kind) Watch(b *builder.Builder) {
	if k.originals == nil {
		return
	}
	moved := predicate.TypedFuncs[*metav1.PartialObjectMetadata]{
		CreateFunc: func(event.TypedCreateEvent[*metav1.PartialObjectMetadata]) bool { return false },
		UpdateFunc: func(e event.TypedUpdateEvent[*metav1.PartialObjectMetadata]) bool {
			return !maps.Equal(e.ObjectOld.Labels, e.ObjectNew.Labels) || !maps.Equal(e.ObjectOld.Annotations, e.ObjectNew.Annotations) ||
				!equality.Semantic.DeepEqual(e.ObjectOld.OwnerReferences, e.ObjectNew.OwnerReferences)
		},
	}
	for _, gvk := range object.OriginalKinds {
		original := &metav1.PartialObjectMetadata{}
		original.SetGroupVersionKind(gvk)
		b.WatchesRawSource(source.Kind(k.originals, original, handler.TypedEnqueueRequestsFromMapFunc(originalToDataService), moved))
	}
}

// originalToDataService maps an object of the original operator's to the DataService that it was made for.
func originalToDataService(_ context.Context, original *metav1.PartialObjectMetadata) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{
		Namespace: original.Namespace, Name: original.Labels[object.LabelOriginal],
	}}}
}
