// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
)

// SeeClasses makes the reconcilers of this Engine watch IngressClasses. Call it before SetupWithManager, and only if the operator may list
// and watch IngressClasses. Without it, no Ingress is reported.
func (e *Engine) SeeClasses() { e.seesClasses = true }

// addClasses records an Ingress whose IngressClass does not exist. It reads only the cache. If a read fails, it records nothing.
func (e *Engine) addClasses(ctx context.Context, live []*unstructured.Unstructured, state *health.State) {
	for _, o := range live {
		class := health.ClassOf(o)
		if class == "" || !e.seesClasses {
			continue
		}
		if err := e.client.Get(ctx, client.ObjectKey{Name: class}, &networkingv1.IngressClass{}); apierrors.IsNotFound(err) {
			state.AddNoClass(o)
		}
	}
}

// watchClasses triggers a reconciliation of each resource with an Ingress of a class that is created or deleted.
func (r *Reconciler[T, O]) watchClasses(b *builder.Builder) {
	if !r.engine.seesClasses {
		return
	}
	exists := predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList }, // the first pass over each resource reads these classes
		UpdateFunc: func(event.UpdateEvent) bool { return false },
	}
	b.Watches(&networkingv1.IngressClass{}, handler.EnqueueRequestsFromMapFunc(r.usersOf), builder.WithPredicates(exists))
}

// usersOf returns the resources with an Ingress of a class.
func (r *Reconciler[T, O]) usersOf(ctx context.Context, class client.Object) []ctrl.Request {
	list := object.EmptyList(networkingv1.SchemeGroupVersion.WithKind("Ingress"))
	if err := r.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list every Ingress", "ingressClass", class.GetName())
		return nil
	}
	var requests []ctrl.Request
	for i := range list.Items {
		if health.ClassOf(&list.Items[i]) == class.GetName() {
			requests = append(requests, r.toResource(ctx, &list.Items[i])...)
		}
	}
	return requests
}
