// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"time"

	libhandler "github.com/operator-framework/operator-lib/handler"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/kinds/dataservice/plan"
	"d3os.com/d3os-operator/internal/object"
)

// What the operator asks for and no more: test/behaviour holds these rights against its requests.
// Nothing shows the one on finalizers: the API server asks for it where owner references need rights.
// To get a DataService is what happens when the cache does not catch up (internal/kube/client.go).
// +kubebuilder:rbac:groups=d3os-product.com.d3os,resources=dataservices,verbs=get;list;watch
// +kubebuilder:rbac:groups=d3os-product.com.d3os,resources=dataservices/status,verbs=patch
// +kubebuilder:rbac:groups=d3os-product.com.d3os,resources=dataservices/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=secrets;configmaps;services,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets;daemonsets,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=batch,resources=cronjobs,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingresses;networkpolicies,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Retries of a failed reconciliation start quickly, because most failures are conflicts that
// the next look resolves, and end at a pace that a person waiting for a fix can bear.
const (
	retryFirst   = 50 * time.Millisecond
	retryLongest = time.Minute
)

// indexPods is the cache index of pods by DataService and component.
const indexPods = "component"

// Options tune the controller.
type Options struct {
	// MaxConcurrentReconciles is how many DataServices are worked on at once.
	MaxConcurrentReconciles int
	// SkipNameValidation allows several managers in one process, as tests have.
	SkipNameValidation bool
}

// SetupWithManager registers the reconciler, its watches and indexes.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options Options) error {
	b := ctrl.NewControllerManagedBy(mgr).Named("dataservice").
		Watches(&dsv1.DataService{}, &libhandler.InstrumentedEnqueueRequestForObject[client.Object]{},
			builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, statusChanged(), resynced()))).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: options.MaxConcurrentReconciles,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryFirst, retryLongest),
			SkipNameValidation:      &options.SkipNameValidation,
		})
	for _, gvk := range object.Kinds {
		obj := object.Empty(gvk)
		if err := mgr.GetFieldIndexer().IndexField(ctx, obj, object.IndexOwner, byOwner); err != nil {
			return fmt.Errorf("index %s by DataService: %w", gvk.Kind, err)
		}
		b = b.Watches(obj, handler.EnqueueRequestsFromMapFunc(toDataService), builder.WithPredicates(ownedChanged()))
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, indexPods, byComponent); err != nil {
		return fmt.Errorf("index pods by component: %w", err)
	}
	b = b.Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(toDataService), builder.WithPredicates(podTroubled()))
	r.watchOriginals(b)
	return b.Complete(r)
}

// toDataService maps an object to the DataService that it belongs to: its controller, or by
// label where it has none, such as retained data and pods.
func toDataService(_ context.Context, obj client.Object) []reconcile.Request {
	found := object.OwnerOf(dsv1.GroupVersion.WithKind(dsv1.Kind).GroupKind(), obj)
	if found.Name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: found}}
}

func byOwner(obj client.Object) []string { return []string{object.OwnerKey(obj)} }

func byComponent(obj client.Object) []string {
	return []string{podKey(object.OwnerKey(obj), obj.GetLabels()[object.LabelComponent])}
}

func podKey(owner, component string) string { return owner + "/" + component }

// pods lists the pods of a component, from the cache.
func (r *Reconciler) pods(ctx context.Context, ds *dsv1.DataService, c *plan.Component) ([]*corev1.Pod, error) {
	list := &corev1.PodList{}
	err := r.client.List(ctx, list, client.InNamespace(ds.Namespace),
		client.MatchingFields{indexPods: podKey(plan.OwnerOf(ds).Key(), string(c.Name))})
	if err != nil {
		return nil, fmt.Errorf("list the pods of %s: %w", c.Name, err)
	}
	pods := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		pods[i] = &list.Items[i]
	}
	return pods, nil
}
