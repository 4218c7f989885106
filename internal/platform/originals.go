// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"context"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"d3os.com/d3os-operator/internal/object"
)

// Watch triggers a reconciliation of a DataService when an object of the original operator is deleted or changes its
// owner. A new object of the original operator triggers no reconciliation, because it cannot have the name of an
// object that this operator has already created.
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

// originalToDataService maps an object of the original operator to its DataService.
func originalToDataService(_ context.Context, original *metav1.PartialObjectMetadata) []ctrl.Request {
	return []ctrl.Request{{NamespacedName: types.NamespacedName{
		Namespace: original.Namespace, Name: original.Labels[object.LabelOriginal],
	}}}
}
