// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"d3os.com/d3os-operator/internal/kinds/dataservice/credentials"
	"d3os.com/d3os-operator/internal/kinds/dataservice/plan"
	"d3os.com/d3os-operator/internal/object"
)

// SeeOriginals lets the reconciler see what the original operator made, so that it writes nothing
// of a DataService that such objects stand in the way of.
func (r *Reconciler) SeeOriginals(originals cache.Cache) {
	r.originals = originals
	r.applier.SeeOriginals(originals)
}

// watchOriginals has a DataService looked at again when an object of the original operator's goes
// or changes hands. That one appears needs no look: where it stands in the way, there is one of ours.
func (r *Reconciler) watchOriginals(b *builder.Builder) {
	if r.originals == nil {
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
		b.WatchesRawSource(source.Kind(r.originals, original, handler.TypedEnqueueRequestsFromMapFunc(originalToDataService), moved))
	}
}

// originalToDataService maps an object of the original operator's to the DataService that it was made for.
func originalToDataService(_ context.Context, original *metav1.PartialObjectMetadata) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{
		Namespace: original.Namespace, Name: original.Labels[object.LabelOriginal],
	}}}
}

// allPlanned returns everything that a DataService is planned to consist of.
func allPlanned(secrets *credentials.Plan, p *plan.Plan) []*unstructured.Unstructured {
	planned := append([]*unstructured.Unstructured{}, secrets.Secrets...)
	for i := range p.Components {
		planned = append(planned, p.Components[i].Objects...)
	}
	return planned
}
