// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"strings"
	"time"

	libhandler "github.com/operator-framework/operator-lib/handler"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"d3os.com/d3os-operator/internal/object"
)

// The rights that the operator uses, and no others: test/behaviour compares these rights with the operator's requests.
// +kubebuilder:rbac:groups="",resources=secrets;configmaps;services,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets;daemonsets,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=batch,resources=cronjobs,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingresses;networkpolicies,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// The delays between retries of a failed reconciliation. The first retries are quick, because most failures are
// conflicts that the next reconciliation resolves. A person who waits for the effect of a fix accepts the longest
// delay.
const (
	retryFirst   = 50 * time.Millisecond
	retryLongest = time.Minute
)

// Options tune the controller.
type Options struct {
	// MaxConcurrentReconciles is the number of resources that are reconciled in parallel.
	MaxConcurrentReconciles int
	// SkipNameValidation allows several managers in one process, as tests have.
	SkipNameValidation bool
}

// SetupWithManager registers the reconciler and its watches. The indexes of package kube must exist before this call.
func (r *Reconciler[T, O]) SetupWithManager(mgr ctrl.Manager, options Options) error {
	b := ctrl.NewControllerManagedBy(mgr).Named(strings.ToLower(r.kind.GVK().Kind)).
		Watches(r.kind.New(), &libhandler.InstrumentedEnqueueRequestForObject[client.Object]{},
			builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, statusChanged(), resynced()))).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: options.MaxConcurrentReconciles,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](retryFirst, retryLongest),
			SkipNameValidation:      &options.SkipNameValidation,
		})
	for _, gvk := range object.Kinds {
		b = b.Watches(object.Empty(gvk), handler.EnqueueRequestsFromMapFunc(r.toResource), builder.WithPredicates(r.isConcerned(), ownedChanged()))
	}
	b = b.Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.toResource), builder.WithPredicates(r.isConcerned(), podTroubled()))
	r.watchTurns(b)
	r.watchClasses(b)
	if watcher, ok := any(r.kind).(Watcher); ok {
		watcher.Watch(b)
	}
	var err error
	r.controller, err = b.Build(r)
	return err
}

// WatchChildren triggers a reconciliation of a resource when one of its objects of the kind child changes. The API
// server must serve that kind. WatchChildren may be called after the start.
func (r *Reconciler[T, O]) WatchChildren(c cache.Cache, child schema.GroupVersionKind) error {
	err := r.controller.Watch(source.Kind[client.Object](c, object.Empty(child), handler.EnqueueRequestsFromMapFunc(r.toResource), r.isConcerned(), ownedChanged()))
	if err != nil {
		return fmt.Errorf("watch %s: %w", child.Kind, err)
	}
	return nil
}

// toResource maps an object to its resource of this kind (see object.OwnerOf): the object's controller. Retained
// data and pods without a controller of this kind are mapped to the resource that their labels name.
func (r *Reconciler[T, O]) toResource(_ context.Context, obj client.Object) []ctrl.Request {
	found := object.OwnerOf(r.kind.GVK().GroupKind(), obj)
	if found.Name == "" {
		return nil
	}
	return []ctrl.Request{{NamespacedName: found}}
}

// isConcerned passes events of objects that belong to a resource of this kind. The controller of each kind receives the events of all
// objects. This predicate runs first, because it takes less time than ownedChanged.
func (r *Reconciler[T, O]) isConcerned() predicate.Predicate {
	belongs := func(obj client.Object) bool { return object.OwnerOf(r.kind.GVK().GroupKind(), obj).Name != "" }
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return belongs(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return belongs(e.ObjectNew) || belongs(e.ObjectOld) },
		DeleteFunc: func(e event.DeleteEvent) bool { return belongs(e.Object) },
	}
}
